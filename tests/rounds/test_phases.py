"""Phases of local training: their work, their batches, what is kept between them, and what moves in them."""

import pytest
import torch
from torch import nn

from tests.helpers import ENGINES as HERE
from tests.helpers import EVERY_ENGINE, PROBE, probe, quadratic_federation, rounds_by_hand
from unalike.algorithms import Algorithm, Phase
from unalike.engines.compiled.library import Kernel
from unalike.errors import UserError
from unalike.models import Net, noise
from unalike.models.model import register_model
from unalike.randomness import stream
from unalike.rounds.optimisers import register_optimiser
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

MOST = 64
"""More rows than any party of the small simulation has."""


def counting(*phases, **methods):
    """A probe whose vector counts rows: at the end, -w / lr has 1 / n for each batch of n that a row was in.

    The state keeps the vector of the first phase, that of the last one, and the steps of both.
    """

    def init_party(self, task, w):
        return {key: w.new_zeros(MOST) for key in ("first", "last")} | {"steps": w.new_zeros(2)}

    def keep(self, party, w):
        return {
            **party.state,
            "first": w,
            "steps": party.state["steps"] + torch.stack([party.steps, 0 * party.steps]),
        }

    def upload(self, party, w):
        steps = party.state["steps"] + torch.stack([0 * party.steps, party.steps])
        return {}, {**party.state, "last": w, "steps": steps}

    own = {
        "phases": lambda self, task, round: phases,
        "init_party": init_party,
        "start": lambda self, party: torch.zeros(MOST, dtype=party.task.dtype),
        "loss": lambda self, party, w, batch: batch.mean(w[batch.index]),
        "keep": keep,
        "upload": upload,
    }
    return probe(**own | methods)


def counted(engine="sequential", rounds=1, **fields):
    """The simulation of the probe, and what its parties keep after some rounds."""
    settings = {"sample": 1.0, "optimiser": "sgd", "lr": 1.0, "dtype": "float64", "engine": engine}
    simulation = play(small_simulation(PROBE, **settings | fields), rounds)
    return simulation, simulation.state.parties


def sizes(simulation):
    """By party, its training rows."""
    return {k: len(party.train) for k, party in enumerate(simulation.federation.parties)}


@EVERY_ENGINE
def test_each_phase_has_its_own_work(engine):
    counting(Phase("first", epochs=3), Phase("last", steps=5))
    simulation, states = counted(engine, dtype="float32", epochs=2, batch_size=8)
    for number, rows in sizes(simulation).items():
        assert states[number]["steps"].tolist() == [3 * -(-rows // 8), 5]
        assert float(-states[number]["first"].sum()) == pytest.approx(3 * -(-rows // 8), rel=1e-5)
        assert float(-states[number]["last"].sum()) == pytest.approx(5, rel=1e-5)


def test_a_phase_without_work_of_its_own_has_the_runs():
    counting(Phase("first"), Phase("last", epochs=1))
    _, states = counted(epochs=None, steps=7)
    assert all(state["steps"][0] == 7 for state in states.values())


@EVERY_ENGINE
def test_batch_index_is_the_place_among_the_partys_rows(engine):
    counting(Phase(epochs=2))
    simulation, states = counted(engine, batch_size=MOST)
    for number, rows in sizes(simulation).items():
        expected = torch.zeros(MOST, dtype=torch.float64)
        expected[:rows] = 2 / rows
        assert torch.allclose(-states[number]["last"], expected, atol=1e-12)


@EVERY_ENGINE
def test_the_batches_of_the_last_phase_are_those_of_a_training_of_one(engine):
    """And each phase, party and round has an order of its own."""
    fields = {"epochs": None, "steps": 1, "batch_size": 8}
    counting(Phase("first"), Phase("last"))
    simulation, both = counted(engine, rounds=2, **fields)
    counting(Phase())
    _, alone = counted(engine, rounds=2, **fields)
    for number, rows in sizes(simulation).items():
        plan = LocalWork(8, steps=1).plan(rows, stream(simulation.spec.seed, "batches", 2, number, 0))
        expected = torch.zeros(MOST, dtype=torch.float64)
        expected[plan[0]] = 1 / len(plan[0])
        assert torch.allclose(-both[number]["last"], expected, atol=1e-12)
        assert torch.equal(both[number]["last"], alone[number]["last"])
        if rows > 16:
            assert (both[number]["first"] != both[number]["last"]).any()


@pytest.mark.parametrize("threads", [1, 3])
def test_what_layers_draw_in_the_last_phase_is_as_in_a_training_of_one(threads):
    """So dropout does not make the shared model depend on a personal one that is trained before it."""
    register_model("test-drops")(type("Drops", (), {"build": drops, "__doc__": "A net with dropout."}))
    forget = {"keep": lambda self, party, w: party.state}  # a first phase that leaves nothing but its draws
    whole = {"fold": Algorithm.fold, "upload": Algorithm.upload, **forget}
    ends = []
    for phases in ((Phase(),), (Phase("first", steps=3), Phase()), (Phase("first", steps=5), Phase())):
        probe(phases=lambda self, task, round, phases=phases: phases, **whole)
        simulation = small_simulation(PROBE, model="test-drops", engine="sequential", threads=threads)
        ends.append(play(simulation, 2).state.server["w"])
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])


def drops(self, shape, classes):
    return Net(nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5)), nn.Linear(8, classes))


@EVERY_ENGINE
def test_phases_on_public_rows(engine):
    counting(Phase("first", epochs=1, rows="public"), Phase("last", epochs=1))
    simulation, states = counted(engine, batch_size=MOST)
    rows = len(simulation.federation.public)
    for state in states.values():
        assert torch.allclose(-state["first"][:rows], torch.full((rows,), 1 / rows).double(), atol=1e-12)
        assert not state["first"][rows:].any()


def test_public_rows_must_be_there():
    counting(Phase(rows="public"))
    with pytest.raises(UserError, match=r"trains or measures on public rows\. Give some with --public"):
        counted(public=0.0)


class Twice(Algorithm):
    """Two phases, the second of which goes on where the first ended."""

    def phases(self, task, round):
        return Phase("one", steps=1), Phase("two", steps=1)

    def init_party(self, task, w):
        return {"w": w}

    def start(self, party):
        return party.received["w"] if party.phase == "one" else party.state["w"]

    def keep(self, party, w):
        return {"w": w}


@HERE
def test_what_a_phase_keeps_the_next_one_starts_from_with_new_momentum(engine):
    """Two steps in two phases of one are plain gradient descent, whatever the momentum."""
    from unalike.rounds.optimisers import Sgd

    federation = quadratic_federation([[1.0, 2.0]], [0.5], [4])
    how = {"work": LocalWork(4, steps=9), "lr": 0.1, "optimiser": Sgd(momentum=0.9), "engine": engine}
    ((server, states),) = rounds_by_hand(Twice(), federation, rounds=1, **how)
    centre = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert torch.allclose(server["w"], centre * (1 - 0.95**2), atol=1e-14)
    assert torch.allclose(states[0]["w"], centre * 0.05, atol=1e-14)


@EVERY_ENGINE
@pytest.mark.parametrize(
    ("part", "model"),
    [
        ("head", "mlp(6,4)"),
        ("body", "mlp(6,4)"),
        ("body.2", "mlp(6,4)"),
        ("head.bias", "mlp(6,4)"),
        ("norm", "test-layer-norm"),
    ],
)
def test_only_the_named_part_moves(engine, part, model):
    """To the bit, under weight decay, momentum, a proximal and a linear term."""
    probe(
        phases=lambda self, task, round: (Phase(trains=part),),
        proximal=lambda self, party: (0.5, party.received["w"] + 1),
        linear=lambda self, party: torch.ones_like(party.received["w"]),
        fold=lambda self, task, server, replies: {"w": server["w"] + replies.mean["delta"]},
        upload=lambda self, party, w: ({"delta": w - party.received["w"]}, party.state),
    )
    optimiser = "sgd(momentum=0.9, weight_decay=0.1)"
    before = small_simulation(PROBE, engine=engine, optimiser=optimiser, model=model)
    after = play(before, 2).state.server["w"]
    moved = torch.zeros(before.task.size, dtype=torch.bool)
    if part == "norm":
        moved[torch.cat([torch.arange(s.start, s.stop) for s in [before.task.slices["body.1"]]])] = True
    else:
        moved[before.task.slices[part]] = True
    assert torch.equal(after[~moved], before.initial[~moved])
    assert (after[moved] != before.initial[moved]).all()


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_what_a_phase_freezes_stays_under_an_optimiser_that_shrinks_weights_itself(engine):
    whole = {"fold": Algorithm.fold, "upload": Algorithm.upload}
    probe(phases=lambda self, task, round: (Phase(trains="head"),), **whole)
    simulation = play(small_simulation(PROBE, engine=engine, optimiser="test-shrinks"), 2)
    body, head = (simulation.task.slices[part] for part in ("body", "head"))
    assert torch.equal(simulation.state.server["w"][body], simulation.initial[body])
    assert not torch.equal(simulation.state.server["w"][head], simulation.initial[head])


@register_optimiser("test-shrinks")
class Shrinks:
    """Gradient descent with decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101)."""

    weight_decay: float = 0.0

    def init(self, w):
        return {}

    def step(self, w, grad, slots, lr, step):
        w.mul_(1 - lr / 2).sub_(grad, alpha=lr)

    def step_sum(self, steps):
        return steps


def test_a_part_that_is_not_there():
    counting(Phase(trains="tail"))
    with pytest.raises(UserError, match=r"a part of the net.*trains='tail'"):
        counted()
    with pytest.raises(UserError, match=r"Unknown part of the net 'haed'\. Did you mean 'head'"):
        small_simulation("fedavg").task.positions("haed")


@HERE
@pytest.mark.parametrize("mu", [torch.tensor([0.5, 3.0]), torch.tensor(2.0), 2.0])
def test_a_proximal_term_with_a_strength_for_each_weight(engine, mu):
    """a/2 (w - c)^2 + mu_i/2 (w - z)^2 has its minimum at (a c + mu z) / (a + mu)."""
    strength = mu.double() if isinstance(mu, torch.Tensor) else mu

    class Pulled(Algorithm):
        def proximal(self, party):
            return strength, party.received["w"] + 1

    federation = quadratic_federation([[1.0, 2.0]], [0.5], [4])
    how = {"work": LocalWork(4, steps=400), "lr": 0.1, "engine": engine}
    ((server, _),) = rounds_by_hand(Pulled(), federation, rounds=1, **how)
    centre = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert torch.allclose(server["w"], (0.5 * centre + strength) / (0.5 + strength), atol=1e-10)


def test_strengths_that_the_kernels_do_not_read_run_step_by_step():
    whole = {"fold": Algorithm.fold, "upload": Algorithm.upload}
    probe(proximal=lambda self, party: (torch.arange(party.task.size) % 3, party.received["w"] + 0.1), **whole)
    ends = [play(small_simulation(PROBE, engine=engine), 2) for engine in ("sequential", "compiled")]
    assert torch.allclose(ends[0].state.server["w"], ends[1].state.server["w"], atol=1e-5)


@pytest.mark.parametrize("kind", ["vector", "0-d", "number"])
def test_the_kernels_run_such_a_term_whole(monkeypatch, kind):
    strengths = {
        "vector": lambda w: torch.linspace(0, 2, len(w)),
        "0-d": lambda w: torch.tensor(1.5),
        "number": lambda w: 1.5,
    }
    probe(
        proximal=lambda self, party: (strengths[kind](party.received["w"]), party.received["w"] + 0.1),
        fold=Algorithm.fold,
        upload=Algorithm.upload,
    )
    calls, train = [], Kernel.train
    monkeypatch.setattr(Kernel, "train", lambda *given: calls.append(1) or train(*given))
    ends = [play(small_simulation(PROBE, engine=engine), 2) for engine in ("sequential", "vectorised", "compiled")]
    assert len(calls) == (8 if ends[2].engine.name == "compiled" else 0)
    for end in ends[1:]:
        assert torch.allclose(end.state.server["w"], ends[0].state.server["w"], atol=1e-5)
    assert not torch.equal(ends[0].state.server["w"], ends[0].initial)


def drawing(*phases):
    """A probe whose vectors are the sums of what ``batch.normal`` gives in the steps of a phase."""
    return counting(
        *phases, loss=lambda self, party, w, batch: w[:4].dot(batch.normal(4)) + w[4:6].dot(batch.normal(2, 1))
    )


@EVERY_ENGINE
def test_batch_normal_is_a_new_draw_in_each_step_and_phase(engine):
    drawn = {}
    for steps in (1, 2):
        drawing(Phase("first", steps=steps), Phase("last", steps=steps))
        simulation, drawn[steps] = counted(engine)
    for number in range(6):
        key = int(stream(simulation.spec.seed, "noise", 1, number, 0).integers(-(2**63), 2**63))
        by_step = [noise.normal(noise.key_of_step(torch.tensor(key), s), 4, 0, torch.float64) for s in (0, 1)]
        assert torch.allclose(-drawn[1][number]["last"][:4], by_step[0], atol=1e-12)
        assert torch.allclose(-drawn[2][number]["last"][:4], sum(by_step), atol=1e-12)
        assert (drawn[2][number]["last"][:4] != 2 * drawn[1][number]["last"][:4]).all()  # a new draw
    seen = [float(state[key][i]) for state in drawn[1].values() for key in ("first", "last") for i in range(6)]
    assert len(set(seen)) == 6 * 2 * 6  # parties, phases, and draws within a step


def test_batch_normal_changes_with_the_round_and_is_standard_normal():
    drawing(Phase(steps=1))
    values = []
    for rounds in (1, 2, 3):
        _, states = counted(rounds=rounds)
        values.append(torch.stack([state["last"][:4] for state in states.values()]))
    assert (values[0] != values[1]).all()
    assert (values[1] != values[2]).all()
    many = noise.normal(noise.key_of_step(torch.tensor(5), 3), 20_000, 0, torch.float64)
    assert abs(float(many.mean())) < 0.03
    assert float(many.std()) == pytest.approx(1, abs=0.03)


def test_batch_normal_is_there_in_training_only():
    from unalike.algorithms import Ask

    def rounds(self, task, server):
        yield Ask("measure", {"w": server["w"]})
        return server

    probe(round=rounds, measure=lambda self, party, batch: {"x": batch.normal(2)})
    for engine in ("sequential", "vectorised", "compiled"):
        with pytest.raises(
            UserError, match=r"batch\.normal is there in training only\. Elsewhere use party\.normal"
        ):
            play(small_simulation(PROBE, engine=engine), 1)


@EVERY_ENGINE
def test_batch_step_counts_the_steps_of_a_phase(engine):
    counting(
        Phase("first", steps=4), Phase("last", steps=3), loss=lambda self, party, w, batch: w[batch.step] * 1.0
    )
    _, states = counted(engine)
    for state in states.values():
        assert (-state["first"][:6]).tolist() == [1, 1, 1, 1, 0, 0]
        assert (-state["last"][:6]).tolist() == [1, 1, 1, 0, 0, 0]


# --- own and public rows together ---


@EVERY_ENGINE
def test_own_and_public_rows_are_seen_together_and_told_apart(engine):
    counting(Phase("first", epochs=1), Phase("last", epochs=1, rows="own+public"))
    simulation, states = counted(engine, dtype="float32", batch_size=MOST)
    public = len(simulation.federation.public)
    for number, own in sizes(simulation).items():
        seen = -states[number]["last"]
        assert torch.count_nonzero(-states[number]["first"]) == own
        assert torch.nonzero(seen).flatten().tolist() == list(range(own + public))
        assert torch.allclose(seen[: own + public], torch.full((), 1 / (own + public)))


@EVERY_ENGINE
@pytest.mark.parametrize("rows", ["public", "own+public"])
def test_a_share_of_the_public_rows_is_a_partys_for_good(engine, rows):
    counting(Phase("first", epochs=1, rows=rows, share=0.5), Phase("last", epochs=1, rows=rows, share=0.5))
    simulation, states = counted(engine, dtype="float32", batch_size=MOST)
    public, found = len(simulation.federation.public), []
    for number, rows_of_its_own in sizes(simulation).items():
        own = rows_of_its_own if "own" in rows else 0
        first, last = (torch.nonzero(states[number][key]).flatten() for key in ("first", "last"))
        assert torch.equal(first, last)
        given = [place - own for place in first.tolist() if place >= own]
        assert len(given) == round(public / 2)
        assert max(given) < public
        found.append(given)
    assert len({tuple(given) for given in found}) > 1


@EVERY_ENGINE
def test_joined_rows_hold_what_their_places_say(engine):
    """Every row is looked up again by its place, among the party's own rows or the public ones."""

    def loss(self, party, w, batch):
        public = (batch.index >= party.size).to(w.dtype)
        return w.sum() * 0 + batch.mean(w[:5] * batch.x).sum() + w[5] * batch.mean(public)

    probe(
        phases=lambda self, task, round: (Phase("both", epochs=1, rows="own+public"),),
        init_party=lambda self, task, w: {"w": w.new_zeros(6)},
        start=lambda self, party: torch.zeros(6, dtype=party.task.dtype),
        loss=loss,
        upload=lambda self, party, w: ({}, {"w": w}),
    )
    simulation, states = counted(engine, dtype="float32", batch_size=MOST)
    federation = simulation.federation
    for number, state in states.items():
        own, _ = federation.train.take(torch.from_numpy(federation.parties[number].train))
        public = simulation.task.public.x
        both = torch.cat([own, public])
        expected = torch.cat([both.mean(dim=0), torch.tensor([len(public) / len(both)])])
        assert torch.allclose(-state["w"], expected, atol=1e-5)


@pytest.mark.parametrize("share", [0.0, -1, 1.5])
def test_a_share_that_is_none_is_refused(share):
    counting(Phase("first", rows="public", share=share))
    with pytest.raises(UserError, match=r"must return a tuple of one Phase or more.*share above 0"):
        counted()


# --- parts of a party's own rows ---


@EVERY_ENGINE
def test_parts_of_own_rows_are_dealt_once_and_for_all(engine):
    """Each row is in one part of a deal; parts are even; another deal is another one; rounds change nothing."""
    first, last = Phase("first", epochs=1, part=(0, 2, 0)), Phase("last", epochs=1, part=(1, 2, 0))
    counting(first, last)
    simulation, states = counted(engine, dtype="float32", batch_size=MOST)
    counting(Phase("first", epochs=1, part=(0, 2, 1)), last)
    _, others = counted(engine, dtype="float32", batch_size=MOST)
    differ = 0
    for number, own in sizes(simulation).items():
        one, two = (torch.nonzero(states[number][key]).flatten().tolist() for key in ("first", "last"))
        assert sorted(one + two) == list(range(own))
        assert len(one) == (own + 1) // 2
        assert torch.equal(states[number]["last"], others[number]["last"])
        differ += not torch.equal(states[number]["first"], others[number]["first"])
    assert differ > 1


def test_parts_are_the_same_in_another_round_and_never_empty():
    counting(Phase("first", part=(0, 2, 0)))
    simulation, _ = counted("sequential")
    worker = simulation.crew.worker(0)
    assert [len(worker.dealt((which, 7, 0), 3)) for which in range(7)] == [1] * 7
    assert {int(worker.dealt((which, 7, 0), 3)[0]) for which in range(3, 6)} == {0, 1, 2}
    found = [simulation.crew.worker(5).dealt((1, 3, 2), 40).tolist() for _ in range(2)]
    assert found[0] == found[1] == sorted(found[0])


@pytest.mark.parametrize(
    "phase",
    [Phase(part=(2, 2, 0)), Phase(part=(0, 2, -1)), Phase(part=(0, 2)), Phase(part=(0, 2, 0), rows="public")],
)
def test_a_part_that_is_none_is_refused(phase):
    counting(phase)
    with pytest.raises(UserError, match=r"must return a tuple of one Phase or more.*part \(i, n, deal\)"):
        counted()
