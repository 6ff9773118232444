"""Things that single-step, single-exchange, small-party tests do not notice."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tests.contract import paper_algorithms  # noqa: F401  (registers the algorithms that are played here)
from tests.helpers import NormBody, use_algorithm
from unalike.algorithms import Algorithm, Ask, algorithm
from unalike.algorithms.checked import checked
from unalike.engines.several import WithFallback
from unalike.engines.vectorised import Vectorised, cannot_vectorise
from unalike.errors import UserError
from unalike.models import Batch, Net, Task
from unalike.models.model import register_model
from unalike.rounds.evaluation import evaluate
from unalike.rounds.state import State
from unalike.runs.outcome import outcome
from unalike.runs.rules import Diverged
from unalike.runs.simulation import Simulation
from unalike.runs.small import play, small_dataset, small_simulation
from unalike.runs.spec import RunSpec

ENGINES = pytest.mark.parametrize("engine", ["sequential", "vectorised"])


@algorithm("test-two-turns")
class TwoTurns(Algorithm):
    """The second exchange reads what the first one left in the state."""

    plain = frozenset({"seen", "size", "round"})

    def init_server(self, task, w):
        return {"w": w, "seen": w.sum() * 0, "round": w.sum() * 0, "size": w.sum() * 0}

    def send(self, task, server):
        return {"w": server["w"]}

    def init_party(self, task, w):
        return {"turns": w.sum() * 0}

    def upload(self, party, w):
        return {"delta": w - party.received["w"]}, {"turns": party.state["turns"] + 1}

    def measure(self, party, batch):
        return {"size": batch.mean(batch.x).sum()}

    def report(self, party):
        turns = party.state["turns"]
        upload = {"seen": turns, "size": party.measured["size"], "round": turns * 0 + party.round}
        return upload, {"turns": turns + 10}

    def round(self, task, server):
        replies = yield Ask("train", self.send(task, server))
        server = self.fold(task, server, replies)
        seen = yield Ask("measure", self.send(task, server))
        assert replies.population == seen.population == task.population == 6
        return server | {key: seen.sum[key] for key in ("seen", "size", "round")}


@ENGINES
def test_the_second_exchange_starts_from_the_firsts_state(engine):
    simulation = small_simulation("test-two-turns", engine=engine, sample=0.5)
    for number in (1, 2, 3):
        counts = {k: float(simulation.party_state(k)["turns"]) for k in simulation.cohort(number)}
        simulation.state, row = simulation.play_round()
        assert float(simulation.state.server["seen"]) == sum(turns + 1 for turns in counts.values())
        assert float(simulation.state.server["round"]) == 3 * number
        weights = simulation.task.size * 4
        assert row["bytes_up"] == 3 * weights + 3 * 3 * 4  # both exchanges count
        assert row["bytes_down"] == 2 * 3 * weights
        assert np.isfinite(row["train_loss"])  # a measuring exchange does not overwrite it
        for k, turns in counts.items():  # one from training, ten from measuring
            assert float(simulation.party_state(k)["turns"]) == turns + 11


@ENGINES
@pytest.mark.parametrize("most", [7, 16, 1024])
def test_measuring_in_parts_gives_the_mean_over_all_rows(engine, most, monkeypatch):
    monkeypatch.setattr("unalike.rounds.local.MEASURE_ROWS", most)
    simulation = small_simulation("test-two-turns", engine=engine, sample=1.0, dtype="float64", public=0)
    expected = sum(
        simulation.federation.dataset.x[p.train].mean(axis=0).sum() for p in simulation.federation.parties
    )
    play(simulation, 1)
    assert float(simulation.state.server["size"]) == pytest.approx(expected, rel=1e-6)


def test_evaluation_in_parts_is_evaluation(monkeypatch):
    simulation = play(small_simulation("fedavg", validation=0.2), 1)
    whole = evaluate(simulation.federation, simulation.models(simulation.state))
    monkeypatch.setattr("unalike.rounds.local.MEASURE_ROWS", 7)
    parts = evaluate(simulation.federation, simulation.models(simulation.state))
    assert parts["loss"] == pytest.approx(whole["loss"], rel=1e-6)
    assert parts["accuracy"] == whole["accuracy"]
    assert parts["parties"]["each"] == whole["parties"]["each"]


def by_hand(task, w, x, y):
    layers = task.parameters.unflatten(w)
    hidden = torch.from_numpy(x)
    for i in (0, 2):
        hidden = torch.relu(hidden @ layers[f"body.{i}.weight"].T + layers[f"body.{i}.bias"])
    logits = hidden @ layers["head.weight"].T + layers["head.bias"]
    return float((logits.argmax(1) == torch.from_numpy(y)).double().mean())


def test_personal_figures_come_from_each_partys_own_trained_head():
    fields = {"held_out": 0.3, "validation": 0.2, "epochs": 20, "sample": 1.0}
    simulation = play(small_simulation("fedper", **fields), 3)
    task, state, data = simulation.task, simulation.state, simulation.federation.dataset
    figures = evaluate(simulation.federation, simulation.models(state))
    right = rows = 0
    for number, party in enumerate(simulation.federation.parties):
        w = torch.cat([state.server["w"], simulation.party_state(number)["own"]])
        if len(party.held_out):
            expected = by_hand(task, w, data.x[party.held_out], data.y[party.held_out])
            assert figures["personal"]["each"][number] == pytest.approx(expected)
        right += by_hand(task, w, data.x[party.validation], data.y[party.validation]) * len(party.validation)
        rows += len(party.validation)
    assert figures["validation_accuracy"] == pytest.approx(right / rows)  # what is deployed selects the round


def test_a_rounds_figures_are_those_of_the_state_it_leaves():
    simulation = small_simulation("fedper", held_out=0.3, validation=0.2, epochs=20, lr=0.2)
    for _ in range(3):
        after, row = simulation.play_round()
        simulation.state = after
        figures = evaluate(simulation.federation, simulation.models(after))
        assert row["personal"]["mean"] == figures["personal"]["mean"]
        assert row["validation_loss"] == figures["validation_loss"]


@ENGINES
def test_train_loss_is_the_mean_over_steps(engine):
    fields = {"sample": 1.0, "optimiser": "sgd", "lr": 1e-12, "epochs": 3, "batch_size": 1, "public": 0}
    simulation = small_simulation("fedavg", engine=engine, **fields)
    losses, sizes = [], []
    for party in simulation.federation.parties:
        batch = Batch(*simulation.federation.train.take(torch.from_numpy(party.train)))
        losses.append(simulation.task.loss(simulation.initial, batch).item())
        sizes.append(len(party.train))
    assert simulation.play_round()[1]["train_loss"] == pytest.approx(np.average(losses, weights=sizes), rel=1e-4)


def test_seeds_make_runs_different():
    one, other = (small_simulation("fedavg", seed=seed, public=0) for seed in (0, 1))
    assert not torch.equal(one.initial, other.initial)
    assert any(
        not np.array_equal(a.held_out, b.held_out)
        for a, b in zip(one.federation.parties, other.federation.parties, strict=True)
    )
    large = [Task(lambda: Net(nn.Identity(), nn.Linear(3, 2)), seed=seed).initial() for seed in (0, 2**32 - 1)]
    assert not torch.equal(*large)
    with pytest.raises(UserError, match="seed"):
        RunSpec(seed=2**32)


def test_ties_are_broken_by_the_earlier_round_whatever_the_test_says():
    simulation = small_simulation("fedavg")
    base = {"validation_loss": 0.0, "train_loss": 0.0, "bytes_up": 1, "bytes_down": 2, "seconds": 0.5}
    rows = [
        base | {"round": number, "validation_accuracy": 0.8, "accuracy": test, "loss": 1 - test}
        for number, test in ((1, 0.2), (2, 0.9), (3, 0.5))
    ]
    assert outcome(simulation, rows)["selected"]["round"] == 1


def test_running_statistics_live_on_and_are_used_in_evaluation():
    data = small_dataset()
    data = replace(data, x=data.x * 5 + 3, x_test=data.x_test * 5 + 3)
    fields = {"partition": "natural", "model": "test-norm-body", "epochs": 5, "batch_size": 64, "validation": 0}
    simulation = Simulation(RunSpec(**fields, held_out=0), data=data)
    first = play(simulation, 1).state
    second = play(simulation, 1).state
    assert not torch.equal(first.buffers, second.buffers)
    net = NormBody().build((5,), 3).eval()
    net.load_state_dict(simulation.task.named(second.server["w"], second.buffers))
    expected = (net(torch.from_numpy(data.x_test))[0].argmax(1) == torch.from_numpy(data.y_test)).double().mean()
    figures = evaluate(simulation.federation, simulation.models(second))
    assert figures["accuracy"] == pytest.approx(expected.item())
    fresh = replace(simulation.models(second), buffers=simulation.task.initial_buffers())
    assert evaluate(simulation.federation, fresh)["loss"] != pytest.approx(figures["loss"], rel=1e-3)
    mean = second.buffers[: simulation.task.buffers.sizes[0]]  # running means, after ten updates of momentum 0.1
    assert (mean.abs() > 0.1).any()


def test_running_statistics_go_on_from_round_to_round():
    """With weights that stand still, m updates of momentum 0.1 bring them to 1 - 0.9^m of the mean."""
    fields = {"partition": "natural", "model": "test-norm-body", "epochs": 5, "batch_size": 64, "validation": 0}
    simulation = Simulation(RunSpec(**fields, held_out=0, lr=1e-12), data=small_dataset())
    count = simulation.task.buffers.sizes[0]
    first = play(simulation, 1).state.buffers[:count]
    second = play(simulation, 1).state.buffers[:count]
    assert torch.allclose(second / first, torch.full((count,), (1 - 0.9**10) / (1 - 0.9**5)), rtol=1e-3)


@register_model("test-dropout")
class DropoutNet:
    """Draws random numbers while it trains."""

    def build(self, shape, classes):
        return Net(nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.ReLU()), nn.Linear(8, classes))


def test_dropout_draws_from_the_runs_own_streams():
    digests = []
    for start in (1, 2):
        torch.manual_seed(start)
        simulation = small_simulation("fedavg", model="test-dropout")
        digests.append(play(simulation, 2).state.digest())
    assert digests[0] == digests[1]
    cut = small_simulation("fedavg", model="test-dropout")
    first = play(small_simulation("fedavg", model="test-dropout"), 1).state
    cut.state = State.of(1, first.tensors())
    assert play(cut, 1).state.digest() == digests[0]


@algorithm("test-grows")
class Grows(Algorithm):
    """A state key that init_party did not announce."""

    def upload(self, party, w):
        return {"delta": w - party.received["w"]}, {"last": w}


@algorithm("test-nan-at-home")
class NanAtHome(Algorithm):
    """Breaks only what the party keeps."""

    def init_party(self, task, w):
        return {"own": w}

    def upload(self, party, w):
        return {"delta": w - party.received["w"]}, {"own": w / 0 * 0}


@ENGINES
def test_what_a_party_keeps_is_checked(engine):
    with pytest.raises(UserError, match="init_party must give all keys"):
        play(small_simulation("test-grows", engine=engine), 1)
    with pytest.raises(Diverged, match="party 0's own"):
        play(small_simulation("test-nan-at-home", engine=engine, sample=1.0), 1)


@pytest.mark.parametrize(
    ("fold", "message"),
    [
        (lambda self, task, server, replies: None, "dict of named tensors, such as .*, got None"),
        (lambda self, task, server, replies: {"w": 3}, "got {'w': a int}"),
        (lambda self, task, server, replies: {"v": server["w"]}, "Keep keys and shapes"),
        (lambda self, task, server, replies: {"w": server["w"][:3]}, "Keep keys and shapes"),
        (
            lambda self, task, server, replies: {"w": server["w"].double()},
            r"server's w from torch.float32 to torch.float64. Keep types: w.to\(server\['w'\].dtype\)",
        ),
    ],
)
def test_what_fold_returns_is_checked(fold, message):
    simulation = small_simulation("fedavg")
    use_algorithm(simulation, checked(type("Wrong", (Algorithm,), {"fold": fold})()))
    with pytest.raises(UserError, match=message):
        simulation.play_round()


@algorithm("test-branches-when-measuring")
class BranchesWhenMeasuring(TwoTurns):
    """Trains in a stack, but cannot be measured in one."""

    def measure(self, party, batch):
        return {"size": batch.mean(batch.x).sum() if batch.x.sum() > -1e9 else party.size}


def test_fallback_is_tried_for_each_kind_of_exchange_and_hides_nothing_later():
    said = []
    simulation = small_simulation("test-branches-when-measuring")
    simulation.engine = WithFallback(Vectorised(), said.append)
    play(simulation, 2)
    assert len(said) == 1
    assert simulation.engine.name == "sequential"
    simulation = small_simulation("fedavg")
    play(simulation, 1)

    def branches(self, party, w, grad):
        return grad if grad.norm() > 0 else grad * 2

    use_algorithm(simulation, type("Late", (Algorithm,), {"correct": branches})())
    with pytest.raises(UserError, match=r"Late.correct failed .*branches on a tensor"):
        simulation.play_round()


def test_an_outlier_of_one_party_does_not_reach_another_through_padding():
    data = small_dataset()
    data.x[0] = 3e38  # the first row of party 0
    deltas = {}
    for engine in ("sequential", "vectorised"):
        spec = RunSpec(partition="natural", model="mlp(6,4)", epochs=1, batch_size=8, engine=engine, seed=2)
        simulation = Simulation(spec, data=data)
        cohort = [1, 2, 3, 4, 5]
        simulation.cohort = lambda number, cohort=cohort: cohort
        deltas[engine] = simulation.play_round()[0].server["w"]
    assert torch.allclose(deltas["sequential"], deltas["vectorised"], atol=1e-5)


def test_recurrent_nets_and_tracked_norms_are_recognised():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(5, 4, batch_first=True)

        def forward(self, x):
            return self.rnn(x[:, None])[0][:, -1]

    assert "LSTM" in cannot_vectorise(Task(lambda: Net(Recurrent(), nn.Linear(4, 2))))
    tracked = Task(lambda: Net(nn.Sequential(nn.InstanceNorm1d(4, track_running_stats=True)), nn.Linear(4, 2)))
    assert "statistics" in cannot_vectorise(tracked)
    assert cannot_vectorise(Task(lambda: Net(nn.Sequential(nn.LayerNorm(4)), nn.Linear(4, 2)))) is None


def test_digests_tell_names_shapes_and_owners_apart():
    def digest(**parts):
        return State(1, parts["server"], torch.zeros(0), parts.get("parties", {})).digest()

    zero = torch.zeros(2)
    digests = {
        digest(server={"w": zero}),
        digest(server={"v": zero}),
        digest(server={"w": zero.double()[:1]}),
        digest(server={"w": zero.view(2, 1)}),
        digest(server={"w": zero}, parties={3: {"c": zero}}),
        digest(server={"w": zero}, parties={4: {"c": zero}}),
    }
    assert len(digests) == 6
