"""What an ask says beside its kind: which rows are measured, who is asked; and exchanges before round 1."""

import pytest
import torch

from tests.helpers import EVERY_ENGINE, PROBE, probe, recorded
from unalike.algorithms import Ask, Phase
from unalike.errors import UserError
from unalike.rounds import local
from unalike.rounds.state import State
from unalike.runs.small import play, small_simulation

EVERYBODY = {"sample": 1.0, "held_out": 0.0}
PRIVATE = ["masked", "encrypted", "clip(1.0)+gauss(0.5)"]


# --- rows ---


def measuring(rows):
    """A probe that measures the mean row and the mean place of the rows that it sees."""

    def rounds(self, task, server):
        yield Ask("measure", {"w": server["w"]}, rows=rows)
        return server

    return probe(
        round=rounds,
        init_party=lambda self, task, w: {"x": w.new_zeros(5), "index": w.new_zeros(())},
        measure=lambda self, party, batch: {
            "x": batch.mean(batch.x),
            "index": batch.mean(batch.index.to(batch.x.dtype)),
        },
        report=lambda self, party: ({}, party.measured),
    )


@EVERY_ENGINE
@pytest.mark.parametrize("rows", ["train", "validation", "public"])
def test_the_rows_that_are_measured(engine, rows):
    measuring(rows)
    simulation = play(small_simulation(PROBE, **EVERYBODY, validation=0.4, engine=engine, dtype="float64"), 1)
    federation = simulation.federation
    for number, state in simulation.state.parties.items():
        x = simulation.task.public.x
        if rows != "public":
            own = getattr(federation.parties[number], rows)
            x, _ = federation.train.take(torch.from_numpy(own))
        assert torch.allclose(state["x"], x.mean(dim=0), atol=1e-12)
        assert float(state["index"]) == pytest.approx((len(x) - 1) / 2)


@EVERY_ENGINE
@pytest.mark.parametrize("rows", ["train", "public"])
def test_so_it_is_in_blocks(engine, rows, monkeypatch):
    monkeypatch.setattr(local, "MEASURE_ROWS", 3)
    test_the_rows_that_are_measured(engine, rows)


@EVERY_ENGINE
def test_rows_that_are_not_there(engine):
    measuring("validation")
    with pytest.raises(UserError, match=r"Party \d has no validation rows to measure\. Use --validation"):
        play(small_simulation(PROBE, **EVERYBODY, validation=0.0, engine=engine), 1)
    measuring("public")
    with pytest.raises(UserError, match=r"trains or measures on public rows\. Give some with --public\."):
        play(small_simulation(PROBE, **EVERYBODY, public=0.0, engine=engine), 1)


# --- to ---


def asking(*to):
    """A probe with an exchange for each of ``to``, in which parties count how often they were asked."""

    def rounds(self, task, server):
        for numbers in to:
            yield Ask("train", {"w": server["w"]}, to=numbers)
        return server

    return probe(
        round=rounds,
        init_party=lambda self, task, w: {"asked": w.new_zeros(())},
        upload=lambda self, party, w: ({"w": w}, {"asked": party.state["asked"] + 1}),
    )


@EVERY_ENGINE
def test_those_who_are_not_asked_stay_in_the_round(engine):
    asking((4, 0), None, (5,))
    simulation = small_simulation(PROBE, sample=1.0, engine=engine)
    replies = recorded(simulation)
    state, row = simulation.play_round()
    assert [each.size for each in replies] == [2, 6, 1]
    rows = simulation.population.rows
    assert replies[0].share == pytest.approx((rows[4] + rows[0]) / rows.sum())
    assert {k: int(v["asked"]) for k, v in state.parties.items()} == {0: 2, 1: 1, 2: 1, 3: 1, 4: 2, 5: 2}
    assert row["bytes_down"] == row["bytes_up"] == 9 * simulation.task.size * 4


def test_those_who_are_not_in_the_cohort_are_not_asked():
    asking((0, 1, 2, 3, 4, 5, 99))
    simulation = small_simulation(PROBE)
    state, _ = simulation.play_round()
    assert sorted(state.parties) == simulation.cohort(1)


def test_nobody_is_asked():
    asking((7, 8))
    with pytest.raises(UserError, match=r"asks the parties \[7, 8\], none of whom takes part.* Use --sample 1\."):
        play(small_simulation(PROBE), 1)


@pytest.mark.parametrize("channel", PRIVATE)
def test_single_parties_cannot_be_asked_where_they_are_hidden(channel):
    asking((0, 1))
    with pytest.raises(UserError, match=r"asks single parties, whom a sum .* hide\. Leave --channel .* out"):
        play(small_simulation(PROBE, sample=1.0, channel=channel), 1)


# --- prepare ---


def preparing(**methods):
    """A probe whose server counts the parties that it has asked before round 1, and in rounds."""

    def prepare(self, task, server):
        replies = yield Ask("measure", {"w": server["w"]})
        yield Ask("train", {"w": server["w"]})
        return {**server, "before": server["before"] + replies.sum["one"].sum()}

    def fold(self, task, server, replies):
        return {**server, "w": server["w"] + replies.mean["delta"]}

    own = {
        "plain": frozenset({"one"}),
        "init_server": lambda self, task, w: {"w": w, "before": w.new_zeros(())},
        "init_party": lambda self, task, w: {"trained": w.new_zeros(2)},
        "prepare": prepare,
        "measure": lambda self, party, batch: {"one": torch.ones(2, dtype=batch.x.dtype)},
        "report": lambda self, party: ({"one": party.measured["one"]}, party.state),
        "upload": lambda self, party, w: (
            {"delta": w - party.received["w"]},
            {"trained": party.state["trained"] + torch.ones(2, dtype=w.dtype)},
        ),
        "fold": fold,
    }
    return probe(**own | methods)


@EVERY_ENGINE
def test_prepare_is_played_once_with_all_parties_and_counted_in_round_one(engine):
    preparing()
    simulation = small_simulation(PROBE, engine=engine)
    rows = []
    for _ in range(3):
        simulation.state, row = simulation.play_round()
        rows.append(row)
    assert float(simulation.state.server["before"]) == 6 * 2
    trained = {k: int(v["trained"][0]) for k, v in simulation.state.parties.items()}
    took = [number for round in (1, 2, 3) for number in simulation.cohort(round)]
    assert trained == {k: 1 + took.count(k) for k in range(6)}
    model = simulation.task.size * 4
    assert rows[0]["traffic"] == {
        "up": {"one": 6 * 2 * 4, "delta": (6 + 4) * model},
        "down": {"w": (6 + 6 + 4) * model},
    }
    assert rows[1]["traffic"] == rows[2]["traffic"] == {"up": {"delta": 4 * model}, "down": {"w": 4 * model}}


@EVERY_ENGINE
def test_a_run_that_is_cut_after_round_one_does_not_prepare_again(engine):
    preparing()
    whole = play(small_simulation(PROBE, engine=engine), 3)
    first = play(small_simulation(PROBE, engine=engine), 1)
    second = small_simulation(PROBE, engine=engine)
    second.state = State.of(1, {name: value.clone() for name, value in first.state.tensors().items()})
    assert play(second, 2).state.digest() == whole.state.digest()


def test_what_prepares_has_phases_of_its_own():
    """The steps of round 0, then of rounds 1 and 2."""
    preparing(
        phases=lambda self, task, round: (Phase("round", steps=round + 1),),
        upload=lambda self, party, w: (
            {"delta": w - party.received["w"]},
            {"trained": 10 * party.state["trained"] + party.steps},
        ),
    )
    simulation = play(small_simulation(PROBE, engine="sequential", sample=1.0), 2)
    assert all(int(v["trained"][0]) == 123 for v in simulation.state.parties.values())


def test_the_accountant_counts_what_prepares():
    """Under noise, one exchange before round 1 costs what one more round of one exchange costs."""

    def prepare(self, task, server):
        yield Ask("train", {"w": server["w"]})
        return server

    probe(
        prepare=prepare,
        upload=lambda self, party, w: ({"delta": w - party.received["w"]}, party.state),
    )
    fields = {"sample": 1.0, "channel": "clip(1.0)+gauss(2.0)", "engine": "sequential", "rounds": 4}
    simulation = small_simulation(PROBE, **fields)
    plain = small_simulation("fedavg", **fields)
    ours, theirs = [], []
    for run, epsilons in ((simulation, ours), (plain, theirs)):
        for _ in range(4):
            run.state, row = run.play_round()
            epsilons.append(row["epsilon"])
    assert ours[:3] == pytest.approx(theirs[1:])
    assert ours[0] > theirs[0]
    again = small_simulation(PROBE, **fields)
    again.state = State.of(4, {name: value.clone() for name, value in simulation.state.tensors().items()})
    one, other = (run.play_round()[1]["epsilon"] for run in (again, simulation))
    assert one == other


@pytest.mark.parametrize("channel", PRIVATE)
def test_prepare_needs_everybody_on_a_private_channel(channel):
    preparing()
    with pytest.raises(UserError, match=r"prepares with all parties.* Use --sample 1, or leave --channel out\."):
        small_simulation(PROBE, channel=channel)
    small_simulation(PROBE, channel=channel, sample=1.0)


def test_prepare_must_keep_the_servers_state():
    def prepare(self, task, server):
        yield Ask("train", {"w": server["w"]})
        return {**server, "more": server["w"]}

    probe(prepare=prepare)
    with pytest.raises(UserError, match="changed the server's state"):
        play(small_simulation(PROBE), 1)


# --- offers ---


@EVERY_ENGINE
def test_an_offer_looks_at_all_training_rows_at_once(engine, monkeypatch):
    """Whole rows come out as they are, to the bit, however many a measuring pass would take at a time."""
    monkeypatch.setattr(local, "MEASURE_ROWS", 3)

    def rounds(self, task, server):
        replies = yield Ask("offer", {"w": server["w"]}, phase="show")
        return {"w": server["w"], "sum": replies.sum["row"]}

    def offer(self, party, batch):
        assert party.phase == "show"
        return {"row": batch.x[-1]}, {"x": batch.x[-1], "index": batch.index[-1], "key": party.normal(2)}

    probe(
        plain=frozenset({"row"}),
        init_server=lambda self, task, w: {"w": w, "sum": w.new_zeros(5)},
        init_party=lambda self, task, w: {"x": w.new_zeros(5), "index": torch.tensor(0), "key": w.new_zeros(2)},
        round=rounds,
        offer=offer,
    )
    simulation = play(small_simulation(PROBE, **EVERYBODY, engine=engine), 1)
    federation, total = simulation.federation, torch.zeros(5)
    for number, state in simulation.state.parties.items():
        rows = federation.parties[number].train
        last, _ = federation.train.take(torch.from_numpy(rows[-1:]))
        assert torch.equal(state["x"], last[0])
        assert int(state["index"]) == len(rows) - 1
        total += state["x"]
    assert torch.allclose(simulation.state.server["sum"], total)


def test_an_offer_is_counted_and_can_be_masked():
    probe(
        plain=frozenset({"rows"}),
        round=lambda self, task, server: _offered(server),
        init_server=lambda self, task, w: {"w": w, "rows": w.new_zeros(())},
        offer=lambda self, party, batch: ({"rows": party.size / 100}, {}),
    )
    for channel in (None, "masked"):
        simulation = small_simulation(PROBE, **EVERYBODY, channel=channel)
        state, row = simulation.play_round()
        rows = sum(len(party.train) for party in simulation.federation.parties)
        assert float(state.server["rows"]) == pytest.approx(rows / 100, abs=1e-2)
        assert row["traffic"]["up"]


def _offered(server):
    replies = yield Ask("offer", {"w": server["w"]})
    return {"w": server["w"], "rows": replies.sum["rows"]}
