"""Layers of one's own: what stays at home, what travels, and what each paper's choice of layers comes to."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.helpers import EVERY_ENGINE, LayerNormBody, Quadratics, federation_of, rounds_by_hand
from unalike.algorithms import ALGORITHMS, FedAvg, FedPer, FedRep, Partial
from unalike.engines.vectorised import Vectorised
from unalike.errors import UserError
from unalike.models import MODELS, Net, Task
from unalike.models.model import register_model
from unalike.rounds.optimisers import Sgd
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

NORM = {"model": "test-norm-body", "batch_size": 64}
WHOLE = {"sample": 1.0, "optimiser": "sgd", "dtype": "float64", "batch_size": 64, "validation": 0.0, "public": 0}
assert LayerNormBody  # the nets of the helpers are registered


def owns(states):
    """The parties' own parts as a stack."""
    return torch.stack([states[k]["own"] for k in sorted(states)])


# --- the limits ---


@EVERY_ENGINE
def test_with_nothing_own_it_is_fedavg_to_the_bit(engine):
    for fields in ({"engine": engine}, {**NORM, "engine": engine}):
        own, average = (play(small_simulation(text, **fields), 3) for text in ("partial(own=())", "fedavg"))
        assert own.state.server_digest() == average.state.server_digest()
        assert torch.equal(own.models(own.state).global_model, average.models(average.state).global_model)


@EVERY_ENGINE
def test_with_everything_own_it_is_training_alone(engine):
    """Full passes of plain SGD: what one net comes to that knows of nobody else."""
    fields = WHOLE | {"dtype": "float32"} if engine == "compiled" else WHOLE
    simulation = play(small_simulation("partial(own=(body, head))", **fields, engine=engine), 3)
    _, row = simulation.play_round()
    assert row["traffic"] == {"up": {"delta": 0}, "down": {"w": 0}}
    for number, party in enumerate(simulation.federation.parties):
        x, y = simulation.federation.train.take(torch.from_numpy(party.train))
        net = MODELS.build("mlp(6,4)").build((5,), 3).to(simulation.task.dtype)
        net.load_state_dict(simulation.task.named(simulation.initial, simulation.task.initial_buffers()))
        optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
        for _ in range(6):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x)[0], y).backward()
            optimiser.step()
        expected = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
        assert torch.allclose(simulation.state.parties[number]["own"], expected, atol=1e-6)


# --- the base acts on the shared part alone ---


class Apart(Task):
    """Rows are (c, a): a/2 ||w - c||^2, whose weights have two names and nothing to do with each other."""

    def __init__(self, own, shared):
        class Body(nn.Linear):
            def forward(self, x):
                return x[..., :-1]

        super().__init__(
            lambda: Net(Body(shared, 1, bias=False), nn.Linear(own, 1, bias=False)), dtype=torch.float64
        )

    loss = Quadratics.loss


CENTRES, CURVATURES = [[1.0, 2.0, 4.0], [-1.0, 0.5, 1.0], [3.0, -2.0, 0.0]], [0.5, 1.0, 2.0]
BASES = [
    "fedavg", "fedprox(mu=0.5)", "scaffold", "scaffold(weights=uniform, server_lr=0.5)", "fednova", "fedavgm",
    "fedadam", "fedadagrad", "fedyogi",
]  # fmt: skip


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("own_epochs", [None, 1])
def test_the_shared_part_is_the_bases_and_the_own_one_is_trained_alone(base, own_epochs):
    """Coordinates that have nothing to do with each other: each part is as if the other were not there."""
    rows = np.concatenate([CENTRES, np.array(CURVATURES)[:, None]], axis=1)
    sizes, how = (4, 8, 2), {"work": LocalWork(4, epochs=1), "lr": 0.1, "optimiser": Sgd(momentum=0.5)}
    how["cohort_of"] = lambda round: (0, 1) if round % 2 else (0, 2)
    whole = federation_of(Apart(1, 2), [[row] * n for row, n in zip(rows, sizes, strict=True)])
    part = federation_of(Quadratics(2), [[row[[0, 1, 3]]] * n for row, n in zip(rows, sizes, strict=True)])
    algorithm = Partial(own_epochs=own_epochs, base=ALGORITHMS.build(base))
    *_, (server, states) = rounds_by_hand(algorithm, whole, rounds=6, **how)
    *_, (expected, kept) = rounds_by_hand(ALGORITHMS.build(base), part, rounds=6, **how)
    for key, value in expected.items():
        assert torch.allclose(server[key], value, atol=1e-13), key
    for party, state in kept.items():
        assert all(torch.allclose(states[party][key], value, atol=1e-13) for key, value in state.items())
    alone = federation_of(Quadratics(1), [[row[[2, 3]]] * n for row, n in zip(rows, sizes, strict=True)])
    for party, asked in ((0, 6), (1, 3), (2, 3)):
        how["cohort_of"] = lambda round, party=party: (party,)
        *_, (end, _) = rounds_by_hand(FedAvg(), alone, rounds=asked, start=whole.task.initial()[2:], **how)
        assert torch.allclose(states[party]["own"], end["w"], atol=1e-13)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fedper(base=moon)", "FedPer.base must train one model by FedAvg's loss, got Moon"),
        ("fedrep(base=ditto)", "got Ditto"),
        ("fedper(base=scaffold(option=i))", "FedPer.base must train at once, got Scaffold, which does measure"),
        ("fedper(base=qfedavg)", "got QFedAvg"),
        ("fedper(0)", "FedPer.layers must be at least 1, got 0"),
        ("fedper(3)", "FedPer.layers must be below 3, .* got 3: nothing would be shared"),
        ("lg-fedavg(3)", "LgFedAvg.layers must be below 3"),
        ("lg-fedavg(0)", "LgFedAvg.layers must be at least 1"),
        ("fedrep(head_epochs=0)", "FedRep.head_epochs must be at least 1"),
        ("fedrep(body_epochs=0)", "FedRep.body_epochs must be at least 1"),
        ("fedrep(layers=0)", "FedRep.layers must be at least 1"),
        ("fedbn(adapt_epochs=0)", "FedBn.adapt_epochs must be at least 1"),
        ("fedbabu(adapt_epochs=0)", "FedBabu.adapt_epochs must be at least 1"),
        ("partial(own_epochs=0)", "Partial.own_epochs must be at least 1"),
        ("partial(shared_epochs=2)", "Partial.shared_epochs needs own_epochs"),
        ("partial(own='body.9')", "part of the net"),
    ],
)
def test_bad_settings_are_refused(text, message):
    with pytest.raises(UserError, match=message):
        small_simulation(text)


# --- what stays at home ---


@pytest.mark.parametrize(
    ("text", "own", "model"),
    [
        ("fedper", ("head",), "mlp(6,4)"),
        ("fedper(2)", ("body.2", "head"), "mlp(6,4)"),
        ("lg-fedavg", ("body.0", "body.2"), "mlp(6,4)"),
        ("lg-fedavg(1)", ("body.0",), "mlp(6,4)"),
        ("fedrep(2)", ("head",), "mlp(6,4)"),
        ("fedrep(2, layers=2)", ("body.2", "head"), "mlp(6,4)"),
        ("fedbn", ("body.1",), "test-layer-norm"),
        ("partial(own=('body.0.bias', 'head.weight'))", ("body.0.bias", "head.weight"), "mlp(6,4)"),
    ],
)
def test_own_layers_differ_between_parties_and_only_the_others_travel(text, own, model):
    simulation = small_simulation(text, sample=1.0, model=model)
    task = simulation.task
    places = task.positions(*own)
    others = sorted(set(range(task.size)) - set(places.tolist()))
    _, row = play(simulation, 1).play_round()
    travels = len(others) * 4 * 6
    assert row["traffic"] == {"up": {"delta": travels}, "down": {"w": travels}}
    assert row["accuracy"] is None
    state, models = simulation.state, simulation.models(simulation.state)
    for number in range(6):
        w, _ = models.personal(number)
        assert torch.equal(w[places], state.parties[number]["own"])
        assert torch.equal(w[others], state.server["w"])
        assert w[places].ne(simulation.initial[places]).any()
    assert owns(state.parties).std(dim=0).gt(0).any()


@EVERY_ENGINE
@pytest.mark.parametrize("optimiser", ["sgd(momentum=0.9, weight_decay=0.1)", "adam(weight_decay=0.1)"])
def test_what_is_frozen_keeps_its_bits(engine, optimiser):
    """FedBABU's head through all of training; the body while a newcomer of either tunes its head."""
    simulation = play(small_simulation("fedbabu", sample=1.0, optimiser=optimiser, engine=engine), 2)
    body, head = (simulation.task.slices[part] for part in ("body", "head"))
    assert simulation.state.server["w"].ne(simulation.initial[body]).any()
    for state in simulation.state.parties.values():
        assert torch.equal(state["own"], simulation.initial[head])
    for text in ("fedbabu", "fedrep(2)"):
        fields = {"optimiser": optimiser, "engine": engine, "newcomers": 0.34}
        simulation = play(small_simulation(text, **fields), 1)
        models, w = simulation.models(simulation.state), simulation.state.server["w"]
        for number in range(6):
            tuned, _ = models.personal(number)
            assert torch.equal(tuned[body], w)
        new = next(number for number in range(6) if number not in simulation.state.parties)
        assert models.personal(new)[0][head].ne(simulation.initial[head]).any()


@EVERY_ENGINE
def test_newcomers_train_their_own_part_on_the_shared_one(engine):
    fields = WHOLE | {"dtype": "float32"} if engine == "compiled" else WHOLE
    for text, everybody in (("fedper(adapt_epochs=3)", False), ("fedper(adapt_epochs=3, adapt_all=true)", True)):
        simulation = play(small_simulation(text, **fields, newcomers=0.34, engine=engine), 2)
        state, task, head = simulation.state, simulation.task, simulation.task.slices["head"]
        models = simulation.models(state)
        for number in range(6):
            own = state.parties[number]["own"] if number in state.parties else simulation.initial[head]
            x, y = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[number].train))
            net = MODELS.build("mlp(6,4)").build((5,), 3).to(task.dtype)
            net.load_state_dict(task.named(torch.cat([state.server["w"], own]), state.buffers))
            optimiser = torch.optim.SGD(net.head.parameters(), lr=0.05)
            for _ in range(3 if everybody or number not in state.parties else 0):
                optimiser.zero_grad()
                nn.functional.cross_entropy(net(x)[0], y).backward()
                optimiser.step()
            expected = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
            assert torch.allclose(models.personal(number)[0], expected, atol=1e-6)


# --- FedRep ---


class Planted(Task):
    """Rows are (x, y) with y = h . (B x): a linear body, a linear head, squared error."""

    def __init__(self, features, rank):
        class Body(nn.Linear):
            def forward(self, x):
                return super().forward(x[..., :-1])

        def net():
            return Net(Body(features, rank, bias=False), nn.Linear(rank, 1, bias=False))

        super().__init__(net, dtype=torch.float64)

    def loss(self, w, batch, track=True):
        return batch.mean((self.logits(w, batch)[..., 0] - batch.x[..., -1]) ** 2)


def distance_to(plane, body):
    """The sine of the largest angle between the plane and that of the body's rows."""
    own = torch.linalg.qr(body.T)[0]
    return float(torch.linalg.matrix_norm(own - plane @ (plane.T @ own), ord=2))


def test_fedrep_finds_a_planted_subspace_that_fedavg_does_not():
    rng = np.random.default_rng(0)
    plane = np.linalg.qr(rng.normal(size=(10, 2)))[0]
    rows = []
    for _ in range(20):
        x = rng.normal(size=(40, 10))
        rows.append(np.concatenate([x, x @ plane @ rng.normal(size=(2, 1))], axis=1))
    federation = federation_of(Planted(10, 2), rows)
    start, ends = federation.task.initial(), {}
    for algorithm, rounds in ((FedRep(head_epochs=10, body_epochs=1), 100), (FedAvg(), 60)):
        how = {"start": start, "work": LocalWork(40, epochs=1), "lr": 0.1, "engine": Vectorised()}
        *_, (server, _) = rounds_by_hand(algorithm, federation, rounds=rounds, **how)
        ends[type(algorithm)] = distance_to(torch.from_numpy(plane), server["w"][:20].reshape(2, 10))
    assert distance_to(torch.from_numpy(plane), start[:20].reshape(2, 10)) > 0.5
    assert ends[FedRep] < 1e-6
    assert ends[FedAvg] > 0.5


def test_fedreps_work_is_its_own_whatever_the_runs_is():
    one, other = (play(small_simulation("fedrep(3)", epochs=epochs), 2).state.digest() for epochs in (1, 5))
    assert one == other


# --- FedBN ---


@register_model("test-nameless-norm")
class Nameless:
    """Batch norm in a layer whose name says nothing of it."""

    def build(self, shape, classes):
        body = nn.Sequential()
        for name, layer in (("widen", nn.Linear(5, 4)), ("tidy", nn.BatchNorm1d(4)), ("bend", nn.ReLU())):
            body.add_module(name, layer)
        return Net(body, nn.Linear(4, classes))


@pytest.mark.parametrize("model", ["test-norm-body", "test-nameless-norm"])
def test_fedbns_scales_shifts_and_statistics_stay_at_home(model):
    simulation = small_simulation("fedbn", **NORM | {"model": model}, sample=1.0)
    norm = simulation.task.positions("norm")
    assert len(norm) == 8  # four scales, four shifts
    _, row = play(simulation, 1).play_round()
    shared = (simulation.task.size - 8) * 4 * 6
    assert row["traffic"] == {"up": {"delta": shared}, "down": {"w": shared}}
    state, models = simulation.state, simulation.models(simulation.state)
    assert torch.equal(state.buffers, simulation.task.initial_buffers())
    for stays in (state.own_buffers, {k: v["own"] for k, v in state.parties.items()}):
        assert sorted(stays) == list(range(6))
        assert (stays[0] != stays[1]).any()
    w, statistics = models.personal(4)
    assert torch.equal(w[norm], state.parties[4]["own"])
    assert torch.equal(statistics, state.own_buffers[4])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fedper", r"FedPer shares some layers of a net, but this one has a single layer"),
        ("fedrep", r"FedRep shares some layers of a net, but this one has a single layer"),
        ("lg-fedavg", r"LgFedAvg keeps body at home, but this net has no such weights"),
        ("fedbabu", r"FedBabu trains the body alone, but that of this net has no weights to train"),
    ],
)
def test_nets_without_a_body_are_refused(text, problem):
    with pytest.raises(UserError, match=rf"{problem}.*Choose another --model"):
        small_simulation(text, model="logistic")


@pytest.mark.parametrize("model", ["mlp(6,4)", "logistic"])
def test_fedbn_refuses_nets_that_do_not_normalise(model):
    with pytest.raises(UserError, match=r"no such weights to train.*Choose another --model, such as resnet18"):
        small_simulation("fedbn", model=model)


@pytest.mark.parametrize(
    ("text", "stay"),
    [("lg-fedavg", True), ("fedper", False), ("fedper(2)", True), ("partial(own='body.0')", False)],
)
def test_statistics_stay_with_the_layers_that_have_them(text, stay):
    simulation = play(small_simulation(text, **NORM, sample=1.0), 1)
    assert bool(simulation.state.own_buffers) == stay
    assert torch.equal(simulation.state.buffers, simulation.task.initial_buffers()) == stay


def test_a_newcomer_of_fedbn_gathers_statistics_of_its_own_rows():
    simulation = play(small_simulation("fedbn(adapt_epochs=40)", **NORM, newcomers=0.34, optimiser="sgd"), 1)
    new = next(number for number in range(6) if number not in simulation.state.parties)
    w, statistics = simulation.models(simulation.state).personal(new)
    x, _ = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[new].train))
    named = simulation.task.named(w, statistics)
    before = x @ named["body.0.weight"].T + named["body.0.bias"]
    assert torch.allclose(named["body.1.running_mean"], before.mean(dim=0), atol=0.05)


# --- FedBABU ---


@EVERY_ENGINE
def test_fedbabus_global_model_is_the_shared_body_with_the_initial_head(engine):
    simulation = play(small_simulation("fedbabu", engine=engine), 2)
    body, head = (simulation.task.slices[part] for part in ("body", "head"))
    w = simulation.models(simulation.state).global_model
    assert torch.equal(w[body], simulation.state.server["w"])
    assert torch.equal(w[head], simulation.initial[head])


@pytest.mark.parametrize("tunes", ["head", "all"])
def test_fedbabu_tunes_before_use(tunes):
    simulation = play(small_simulation(f"fedbabu(tunes={tunes}, adapt_epochs=3)", **WHOLE), 2)
    state, task = simulation.state, simulation.task
    shared, models = simulation.models(state).global_model, simulation.models(state)
    for number in range(6):
        x, y = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[number].train))
        net = MODELS.build("mlp(6,4)").build((5,), 3).to(task.dtype)
        net.load_state_dict(task.named(shared, state.buffers))
        optimiser = torch.optim.SGD((net.head if tunes == "head" else net).parameters(), lr=0.05)
        for _ in range(3):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x)[0], y).backward()
            optimiser.step()
        expected = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
        assert torch.allclose(models.personal(number)[0], expected, atol=1e-10)


def test_presets_are_choices_of_partial():
    for preset, free in (
        ("fedper", "partial"),
        ("fedrep(3)", "partial(own_epochs=3, shared_epochs=1)"),
        ("lg-fedavg", "partial(own=body)"),
    ):
        one, other = (play(small_simulation(text), 3).state.digest() for text in (preset, free))
        assert one == other
    assert FedPer().overrides("personal")
