"""IFCA, HypCluster and FedFMC's fork: planted groups are found, and each cluster is trained by its members."""

import pytest
import torch

from tests.algorithms.clustered.planted import (
    GROUPS,
    SIGNS,
    centres,
    group_means,
    members,
    opposed,
    quadratics,
    rounds_from,
)
from tests.helpers import ENGINES, EVERY_ENGINE, federation_of, one_round, recorded
from unalike.algorithms import FedAvg, FedFmc, HypCluster, Ifca
from unalike.channels.rules import FEWEST_HIDDEN
from unalike.errors import UserError
from unalike.rounds.judging import judge
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation
from unalike.scores import choose

NEAR = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
ONE_CLUSTER = ["ifca(clusters=1)", "hypcluster(clusters=1)", "fedfmc(clusters=1)"]


@EVERY_ENGINE
@pytest.mark.parametrize("text", ONE_CLUSTER)
def test_one_cluster_is_fedavg_to_the_bit(engine, text):
    one = play(small_simulation(text, engine=engine), 3).state
    average = play(small_simulation("fedavg", engine=engine), 3).state
    assert torch.equal(one.server["w"][0], average.server["w"])


@ENGINES
@pytest.mark.parametrize("algorithm", [Ifca(3), HypCluster(3), FedFmc(3, every=3)], ids=["ifca", "hyp", "fork"])
def test_planted_groups_are_found_exactly(engine, algorithm):
    models, states = rounds_from(algorithm, NEAR, 60, engine=engine)
    assert members(states) == list(GROUPS)
    assert torch.allclose(models, group_means(), atol=1e-9)


@ENGINES
def test_a_model_moves_by_the_mean_of_its_members_and_an_empty_cluster_keeps_its_model(engine):
    """One step of rate 0.5 goes half way; no party is near the third model."""
    start = torch.stack([NEAR[0], NEAR[1], torch.tensor([0.0, -90.0], dtype=torch.float64)])
    models, states = rounds_from(Ifca(3), start, 1, engine=engine, work=LocalWork(8, steps=1))
    chosen = torch.tensor(members(states))
    nearest = ((centres()[:, None] - start[None]) ** 2).sum(dim=2).argmin(dim=1)
    assert torch.equal(chosen, nearest)
    weights = torch.tensor([4, 2, 6, 8, 3, 5, 1], dtype=torch.float64)
    for cluster in (0, 1):
        own = chosen == cluster
        middle = weights[own] @ centres()[own] / weights[own].sum()
        assert torch.allclose(models[cluster], (start[cluster] + middle) / 2, atol=1e-12)
    assert torch.equal(models[2], start[2])


@ENGINES
def test_gradients_are_summed_over_members_and_divided_by_all(engine):
    """The paper's step: theta_j - gamma / m sum_i s_ij g_i; here rows count, as they do in FedAvg."""
    work = LocalWork(2, epochs=3)  # batches are not used
    models, states = rounds_from(Ifca(3, option="gradient"), NEAR, 1, engine=engine, work=work, lr=0.3)
    assert members(states) == list(GROUPS)
    weights = torch.tensor([4, 2, 6, 8, 3, 5, 1], dtype=torch.float64)
    for cluster in range(3):
        own = torch.tensor(GROUPS) == cluster
        gradients = weights[own] @ (NEAR[cluster] - centres()[own])
        assert torch.allclose(models[cluster], NEAR[cluster] - 0.3 * gradients / weights.sum(), atol=1e-12)


@ENGINES
def test_gradients_find_planted_groups_too(engine):
    models, states = rounds_from(Ifca(3, option="gradient"), NEAR, 60, engine=engine, lr=2.0)
    assert members(states) == list(GROUPS)
    assert torch.allclose(models, group_means(), atol=1e-6)


@ENGINES
def test_one_cluster_of_gradients_is_fedavg_with_one_step_over_all_rows(engine):
    how = {"engine": engine, "work": LocalWork(8, steps=1), "lr": 0.2}
    models, _ = rounds_from(Ifca(1, option="gradient"), NEAR[:1], 3, **how)
    average, _ = rounds_from(FedAvg(), NEAR[0], 3, **how)
    assert torch.allclose(models[0], average, atol=1e-12)


@ENGINES
def test_all_training_rows_choose(engine):
    """Most batches, and the first block of rows that is looked at, would choose the other model."""
    near, far = [1.0, 0.0, 1.0], [-30.0, 0.0, 1.0]
    federation = federation_of(quadratics().task, [[near] * 1050 + [far] * 50])
    start = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    work = LocalWork(8, steps=1)
    _, states = rounds_from(Ifca(2), start, 1, federation=federation, work=work, engine=engine)
    assert members(states) == [1]


def test_held_out_and_validation_rows_do_not_choose():
    """Party 0's training rows are of one kind and all its other rows of the other."""
    simulation = opposed("ifca", models=(1, -1), held_out=0.3, validation=0.3)
    party, rows = simulation.federation.parties[0], simulation.federation.train
    for others in (party.held_out, party.validation):
        rows.y[others] = 1 - rows.y[others]
    play(simulation, 1)
    assert simulation.state.parties[0]["member"].tolist() == [1, 0]
    assert torch.equal(simulation.models(simulation.state).personal(0)[0], simulation.state.server["w"][0])


def test_the_fork_chooses_at_times_only():
    """The models change places after round 1: who stays with a choice now trains the other model."""
    swapped = NEAR[[1, 0, 2]]
    algorithm, states = FedFmc(3, every=3), rounds_from(FedFmc(3, every=3), NEAR, 1)[1]
    how = {"work": LocalWork(8, epochs=1), "lr": 0.1}
    for number, expected in ((2, GROUPS), (3, GROUPS), (4, [(1, 0, 2)[g] for g in GROUPS])):
        one_round(algorithm, quadratics(), {"w": swapped}, states, number=number, **how)
        assert members(states) == list(expected)


def test_who_first_comes_between_forks_chooses_then():
    algorithm, states = FedFmc(3, every=5), rounds_from(FedFmc(3, every=5), NEAR, 1, cohort=[0])[1]
    one_round(algorithm, quadratics(), {"w": NEAR}, states, work=LocalWork(8, epochs=1), lr=0.1, number=2)
    assert members(states) == list(GROUPS)


def test_models_start_apart():
    """The first from the run's initial weights; without a difference all parties would choose the same."""
    simulation = small_simulation("ifca(clusters=3)")
    w = simulation.state.server["w"]
    assert torch.equal(w[0], simulation.initial)
    assert min(float((w[a] - w[b]).norm()) for a, b in ((0, 1), (0, 2), (1, 2))) > 0.1


# --- what is evaluated ---


@pytest.mark.parametrize(
    "fields", [{}, {"engine": "vectorised"}, {"fine_tune": 1}, {"fine_tune": 1, "engine": "vectorised"}]
)
@pytest.mark.parametrize("text", ["ifca", "ifca(option=gradient)"])
def test_newcomers_and_parties_that_were_never_asked_get_the_right_model(text, fields):
    simulation = play(opposed(text, models=(0.1, -0.1), newcomers=0.25, sample=0.5, lr=0.5, **fields), 2)
    assert len(simulation.federation.population.newcomers) == 2
    assert len(simulation.state.parties) < 8
    personal, server = simulation.models(simulation.state).personal, simulation.state.server["w"]
    for number, sign in enumerate(SIGNS):
        gaps = (server - personal(number)[0]).norm(dim=1)
        assert int(gaps.argmin()) == sign
        assert (gaps[sign] == 0) == ("fine_tune" not in fields)
    figures = simulation.figures(simulation.state)
    assert figures["newcomers"]["worst"] > 0.9
    assert figures["loss"] is None  # there is no one model for all


def test_an_ensemble_is_the_mean_of_what_the_models_predict():
    simulation = play(opposed("ifca(tried=ensemble)", models=(1, -2)), 1)
    models, rows = simulation.models(simulation.state), simulation.federation.parties[3].held_out
    x, y = simulation.federation.train.take(torch.from_numpy(rows))
    nets = [simulation.task.named(w, simulation.state.buffers) for w in simulation.state.server["w"]]
    each = [(x @ net["head.weight"].T + net["head.bias"]).softmax(dim=1) for net in nets]
    mean = (each[0] + each[1]) / 2
    assert models.personal(3)[0].shape == simulation.state.server["w"].shape
    scores = [choose("accuracy", "classification"), choose("brier", "classification")]
    judged = judge(
        simulation.task, *models.personal(3), simulation.federation.train, torch.from_numpy(rows), scores
    )
    assert torch.allclose(judged.table[:, 0].float(), -mean.gather(1, y[:, None])[:, 0].log(), atol=1e-6)
    assert torch.equal(judged.table[:, 1] == 1, mean.argmax(dim=1) == y)
    assert torch.allclose(judged.table[:, 2:].float(), mean, atol=1e-6)
    assert simulation.figures(simulation.state)["personal"]["count"] == 8


def test_the_mean_of_all_models_is_the_global_one_too():
    simulation = play(opposed("ifca(tried=mean)", models=(1, -2)), 1)
    models, mean = simulation.models(simulation.state), simulation.state.server["w"].mean(dim=0)
    assert torch.equal(models.global_model, mean)
    assert torch.equal(models.personal(3)[0], mean)


def test_an_ensemble_cannot_be_tuned():
    with pytest.raises(UserError, match=r"An ensemble is several nets.*Leave --fine-tune out"):
        play(opposed("ifca(tried=ensemble)", fine_tune=1), 1)


# --- what others may see ---


@pytest.mark.parametrize("channel", ["masked", "encrypted"])
@pytest.mark.parametrize("option", ["model", "gradient"])
def test_a_cluster_of_few_is_never_opened_where_single_uploads_are_hidden(option, channel):
    signs, whole = (0, 0, 0, 0, 1, 1), {"batch_size": 100}
    hidden = opposed(f"ifca(option={option})", signs, models=(1, -1), channel=channel, **whole)
    seen, before = recorded(hidden), hidden.state.server["w"]
    play(hidden, 2)
    for counted, summed in (seen[:2], seen[2:]):
        assert counted.sum["members"].tolist() == [4, 2]
        assert torch.equal(summed.weighted_sums["delta"][1], torch.zeros_like(before[1], dtype=torch.float64))
    assert torch.equal(hidden.state.server["w"][1], before[1])
    assert [int(hidden.state.parties[k]["member"].argmax()) for k in range(6)] == list(signs)
    plain = play(opposed(f"ifca(option={option})", signs, models=(1, -1), **whole), 2)
    assert torch.allclose(hidden.state.server["w"][0], plain.state.server["w"][0], atol=1e-5)
    assert (plain.state.server["w"][1] - before[1]).norm() > 0.001


def test_a_cluster_is_hidden_by_as_many_as_any_sum():
    assert Ifca().least == FEWEST_HIDDEN


def test_as_many_must_be_there_as_least_says():
    signs = (0, 0, 0, 0, 1, 1, 1)
    for least, opened in ((3, True), (4, False)):
        hidden = opposed(f"ifca(least={least})", signs, models=(1, -1), channel="masked")
        before = hidden.state.server["w"]
        moved = (play(hidden, 1).state.server["w"] - before).norm(dim=1) > 0
        assert moved.tolist() == [True, opened]


def test_more_must_be_there_where_parties_may_be_missing():
    hidden = opposed("ifca", (0, 0, 0, 0, 1, 1, 1), models=(1, -1), channel="masked")
    assert hidden.task.least_opened == 3
    hidden.task.least_opened = 4  # as with a quorum of six of seven sites
    refused = ""
    try:
        play(hidden, 1)
    except UserError as error:
        refused = str(error)
    assert refused.startswith("Ifca.least must be >= 4 where so many parties may be missing")


def test_noise_is_refused():
    with pytest.raises(UserError, match=r"ifca.* divides by sums that --channel clip.*gauss.* adds noise to"):
        small_simulation("ifca", channel="clip(1.0)+gauss(0.5)")


def test_messages_are_sums():
    simulation = small_simulation("ifca(clusters=3)", sample=1.0)
    assert not simulation.algorithm.needs_each
    _, row = simulation.play_round()
    size = simulation.task.size
    assert row["traffic"]["down"] == {"w": 6 * 3 * size * 4}
    assert row["traffic"]["up"] == {"delta": 6 * 3 * size * 4, "share": 6 * 3 * 4}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("ifca(clusters=0)", r"Ifca\.clusters must be >= 1, got 0\. Try 2"),
        ("hypcluster(least=2)", r"HypCluster\.least must be >= 3, got 2.*Leave it out"),
        ("fedfmc(every=0)", r"FedFmc\.every must be >= 1, got 0\. Use 1"),
        ("ifca(option=both)", "option"),
        ("ifca(clusters=7)", r"Ifca\.clusters must be at most the number of parties, 6, got 7\. Lower it"),
        ("ifca(clusters=1000000000)", r"Ifca\.clusters must be at most the number of parties, 6"),
        ("groups(clusters=7)", r"Groups\.clusters must be at most the number of parties, 6, got 7"),
    ],
)
def test_bad_parameters_are_refused(text, line):
    with pytest.raises(UserError, match=line):
        small_simulation(text)
