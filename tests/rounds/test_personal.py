"""The models that parties would deploy: adapted, fine-tuned; and parties that never train."""

import pytest
import torch
from torch.nn import functional

from tests.helpers import EVERY_ENGINE, PROBE, probe, recorded
from unalike.algorithms import Algorithm, Ask, Phase
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.models.batch import Batch
from unalike.rounds import personal
from unalike.runs.small import play, small_simulation

WHOLE = {"batch_size": 64, "optimiser": "sgd"}


def personal_models(simulation):
    """What every party would deploy."""
    models = simulation.models(simulation.state)
    return [models.personal(number)[0] for number in range(simulation.federation.size)]


def trained_by_hand(simulation, number, w, epochs, model="mlp(6,4)"):
    """Full-batch gradient descent of plain PyTorch on a party's training rows."""
    net = MODELS.build(model).build((5,), 3).to(w.dtype)
    net.load_state_dict(simulation.task_of(number).named(w, torch.zeros(0)))
    optimiser = torch.optim.SGD(net.parameters(), lr=simulation.spec.lr)
    x, y = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[number].train))
    for _ in range(epochs):
        optimiser.zero_grad()
        functional.cross_entropy(net(x)[0], y).backward()
        optimiser.step()
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


# --- --fine-tune ---


@EVERY_ENGINE
@pytest.mark.parametrize("text", ["fedavg", "fedprox(mu=10.0)", "scaffold"])
def test_fine_tuning_is_plain_training_from_the_global_model(engine, text):
    simulation = play(small_simulation(text, fine_tune=3, engine=engine, **WHOLE), 2)
    w = simulation.state.server["w"]
    for number, tuned in enumerate(personal_models(simulation)):
        assert torch.allclose(tuned, trained_by_hand(simulation, number, w, 3), atol=1e-6)
        assert not torch.allclose(tuned, w, atol=1e-4)


@EVERY_ENGINE
def test_fine_tuning_goes_on_from_a_personal_model_where_there_is_one(engine):
    simulation = play(small_simulation("fedrep", fine_tune=1, sample=1.0, engine=engine, **WHOLE), 2)
    simulation_without = play(small_simulation("fedrep", sample=1.0, engine=engine, **WHOLE), 2)
    for number, w in enumerate(personal_models(simulation_without)):
        expected = trained_by_hand(simulation, number, w, 1)
        assert torch.allclose(personal_models(simulation)[number], expected, atol=1e-6)


@EVERY_ENGINE
@pytest.mark.parametrize("text", ["fedavg", "ditto", "moon"])
def test_fine_tuning_leaves_no_trace_and_none_of_it_is_nothing(engine, text):
    states, rows = {}, {}
    for epochs in (0, 2):
        simulation = small_simulation(text, fine_tune=epochs, engine=engine)
        for _ in range(3):
            simulation.state, rows[epochs] = simulation.play_round()
        states[epochs] = simulation.state
    assert states[0].digest() == states[2].digest()
    assert ("personal" in rows[0]) == (text == "ditto")
    assert rows[2]["personal"]["count"] > 0
    for key in ("accuracy", "loss", "parties", "train_loss", "bytes_up", "bytes_down"):
        assert rows[0].get(key) == rows[2].get(key)


def test_fine_tuned_parties_fit_their_own_rows_better():
    """Not a law, but what tuning is for: the mean loss on own training rows falls."""
    simulation = play(small_simulation("fedavg", fine_tune=5), 3)
    task, before = simulation.task, simulation.state.server["w"]
    for number, tuned in enumerate(personal_models(simulation)):
        x, y = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[number].train))
        losses = [float(functional.cross_entropy(task.logits(w, Batch(x, y)), y)) for w in (before, tuned)]
        assert losses[1] < losses[0]


def test_fine_tuning_is_refused_where_the_algorithm_adapts_itself():
    with pytest.raises(UserError, match=r"per-fedavg.* adapts its models itself\. Leave --fine-tune 2 out\."):
        small_simulation("per-fedavg", fine_tune=2)


def test_fine_tuning_is_refused_where_there_is_no_model():
    with pytest.raises(UserError, match=r"f2u.* has no model .*Leave --fine-tune 1 out\."):
        small_simulation("f2u", fine_tune=1)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_nets_that_differ_are_tuned_each_for_itself(engine):
    nets = ["mlp(6,4)", "mlp(8)", "logistic"]
    fields = {"model": "|".join(nets), "engine": engine, "dtype": "float64", **WHOLE}
    simulation = play(small_simulation("fedmd", fine_tune=2, **fields), 1)
    for number, tuned in enumerate(personal_models(simulation)):
        state = simulation.state.parties[number]["w"]
        assert torch.allclose(tuned, trained_by_hand(simulation, number, state, 2, nets[number % 3]), atol=1e-10)


# --- adapt ---


@EVERY_ENGINE
def test_adapting_has_all_of_a_phase(engine):
    """Two phases, the second from where the first ended, each with its own work and part; nothing is kept."""
    probe(
        adapt=lambda self, task: (Phase("up", steps=2, trains="head"), Phase("down", steps=1, trains="body")),
        loss=lambda self, party, w, batch: party.steps * w.sum() * (1 if party.phase == "up" else -1),
        personal=lambda self, party: party.received["w"] * 0,
    )
    simulation = small_simulation(PROBE, optimiser="sgd", lr=0.5, engine=engine)
    head = simulation.task.slices["head"]
    for adapted in personal_models(simulation):
        assert torch.allclose(adapted[head], torch.full_like(adapted[head], -2 * 2 * 0.5))
        body = adapted[simulation.task.slices["body"]]
        assert torch.allclose(body, torch.full_like(body, 0.5))


def test_each_net_adapts_by_its_own_phases():
    probe(
        adapt=lambda self, task: (Phase(steps=1, trains="body.2" if "body.2" in task.slices else "head"),),
        loss=lambda self, party, w, batch: w.sum(),
        init_server=lambda self, task, w: {},  # nets that differ have no model that a server could keep
        init_party=lambda self, task, w: {"w": w * 0},
        start=lambda self, party: party.state["w"],
        send=lambda self, task, server: {},
        global_model=lambda self, task, server: None,
        personal=lambda self, party: party.state["w"],
    )
    simulation = small_simulation(PROBE, optimiser="sgd", lr=0.5, model="mlp(6,4)|mlp(8)")
    for number, adapted in enumerate(personal_models(simulation)):
        part = simulation.task_of(number).slices["head" if number % 2 else "body.2"]
        moved = adapted.nonzero()[:, 0].tolist()
        assert moved == list(range(part.start, part.stop))


def test_adapted_models_are_trained_in_blocks(monkeypatch):
    """However few are kept at a time, and in whatever order they are asked for, they are the same."""
    at_once = personal_models(play(small_simulation("fedavg", fine_tune=1), 1))
    monkeypatch.setattr(personal, "MOST_KEPT", 2 * len(at_once[0]))
    simulation = play(small_simulation("fedavg", fine_tune=1), 1)
    models = simulation.models(simulation.state)
    for number in (5, 0, 3, 1, 4, 2, 5):
        assert torch.allclose(models.personal(number)[0], at_once[number], atol=1e-7)


def test_without_a_model_of_ones_own_nothing_is_sent_for_evaluation():
    """An algorithm that writes its own ``round`` need not write ``send`` as well."""

    def play_round(self, task, server):
        replies = yield Ask("train", {"w": server["v"]})
        return {"v": server["v"] + replies.mean["delta"]}

    probe(
        init_server=lambda self, task, w: {"v": w},
        round=play_round,
        upload=Algorithm.upload,
        global_model=lambda self, task, server: server["v"],
    )
    accuracy = play(small_simulation(PROBE), 1).evaluated[1]["accuracy"]
    assert accuracy == play(small_simulation("fedavg"), 1).evaluated[1]["accuracy"]


# --- --newcomers ---


def test_newcomers_are_never_asked_and_count_nowhere():
    simulation = small_simulation("fedavg", newcomers=0.34, rounds=30)
    away = set(simulation.population.newcomers)
    assert len(away) == 2
    replies = recorded(simulation)
    rows = simulation.population.rows
    members = [k for k in range(6) if k not in away]
    for number in range(1, 31):
        cohort = simulation.cohort(number)
        assert not away & set(cohort)
        assert len(cohort) == 3  # 0.67 of four
        if number <= 5:
            simulation.state, _ = simulation.play_round()
            assert replies[-1].population == 4
            assert replies[-1].share == pytest.approx(rows[cohort].sum() / rows[members].sum())
    assert {k for number in range(1, 31) for k in simulation.cohort(number)} == set(members)


def test_newcomers_are_not_prepared_with():
    simulation = play(small_simulation("fedmd", newcomers=0.34), 2)
    assert not set(simulation.population.newcomers) & simulation.state.parties.keys()


@pytest.mark.parametrize("weights", ["size", "uniform"])
def test_scaffolds_c_stays_the_mean_of_the_members(weights):
    text = f"scaffold(weights={weights})"
    simulation = play(small_simulation(text, newcomers=0.34, dtype="float64"), 4)
    members = simulation.population.members
    own = {k: simulation.party_state(k)["c"] for k in members}
    weight = {k: float(simulation.population.rows[k]) if weights == "size" else 1.0 for k in members}
    mean = sum(weight[k] * own[k] for k in members) / sum(weight.values())
    assert torch.allclose(simulation.state.server["c"], mean, atol=1e-12)
    assert float(mean.norm()) > 1e-3


def test_newcomers_change_nothing_for_others_but_their_absence():
    """A run with newcomers is a run of the members alone."""
    with_them = play(small_simulation("fedavg", newcomers=0.34, sample=1.0, dtype="float64", **WHOLE), 2)
    by_hand = small_simulation("fedavg", sample=1.0, dtype="float64", **WHOLE)
    by_hand._participation = {(n, 0): with_them.population.members for n in (1, 2)}
    assert torch.equal(play(by_hand, 2).state.server["w"], with_them.state.server["w"])


def test_a_newcomer_is_tried_with_the_model_that_it_would_get():
    simulation = play(small_simulation("fedavg", newcomers=0.34, fine_tune=1, **WHOLE), 2)
    number = simulation.population.newcomers[0]
    expected = trained_by_hand(simulation, number, simulation.state.server["w"], 1)
    assert torch.allclose(personal_models(simulation)[number], expected, atol=1e-6)


def test_somebody_must_be_left_to_train():
    with pytest.raises(UserError, match=r"--newcomers 0\.99 leaves none of 6 parties to train\. Lower it\."):
        small_simulation("fedavg", newcomers=0.99)
    with pytest.raises(UserError, match=r"--newcomers 0\.05 of 6 parties is none\. Raise it, or leave it out\."):
        small_simulation("fedavg", newcomers=0.05)


def test_the_same_newcomers_for_every_algorithm_with_the_same_seed():
    away = {
        small_simulation(text, newcomers=0.34, seed=3).population.newcomers
        for text in ("fedavg", "scaffold", "moon")
    }
    assert len(away) == 1
    others = {small_simulation("fedavg", newcomers=0.34, seed=seed).population.newcomers for seed in range(8)}
    assert len(others) > 1
