"""A payload of which every party gets a row of its own."""

import pytest
import torch

from tests.helpers import EVERY_ENGINE, PROBE, probe
from unalike.algorithms import Ask, ByParty
from unalike.algorithms.contract import sent_to
from unalike.errors import UserError
from unalike.rounds.gather import traffic
from unalike.rounds.ledger import Ledger
from unalike.runs.small import play, small_simulation

WHICH = [2, 0, 1, 2, 0, 2]
VALUES = torch.arange(12.0).reshape(3, 4)


def receiving(kind="train", which=WHICH, **methods):
    """A probe that keeps what it was sent: a row of its own, and what everybody gets."""

    def rounds(self, task, server):
        yield Ask(kind, self.send(task, server))
        return server

    own = {
        "init_party": lambda self, task, w: {"row": torch.zeros(4), "all": torch.zeros(2)},
        "send": lambda self, task, server: {
            "row": ByParty(VALUES, torch.tensor(which)),
            "all": torch.tensor([7.0, 8.0]),
            "w": server["w"],
        },
        "round": rounds,
        "measure": lambda self, party, batch: {"sum": party.received["row"] + party.received["all"].sum()},
        "upload": lambda self, party, w: ({}, {key: party.received[key] for key in ("row", "all")}),
        "report": lambda self, party: ({}, {"row": party.measured["sum"], "all": party.received["all"]}),
    }
    return probe(**own | methods)


@EVERY_ENGINE
@pytest.mark.parametrize("kind", ["train", "measure", "measure+train", "train+measure"])
def test_each_party_has_its_own_row_and_what_everybody_gets(engine, kind):
    receiving(kind)
    state = play(small_simulation(PROBE, engine=engine, sample=1.0), 1).state
    for number, which in enumerate(WHICH):
        expected = VALUES[which] + (15 if kind == "measure" else 0)
        assert torch.allclose(state.parties[number]["row"], expected)
        assert state.parties[number]["all"].tolist() == [7, 8]


@EVERY_ENGINE
def test_rows_reach_start_loss_and_the_declared_terms(engine):
    """A party pulled hard to its own row ends there, wherever it is in a stack."""
    probe(
        init_party=lambda self, task, w: {"end": w},
        send=lambda self, task, server: {
            "z": ByParty(torch.arange(6)[:, None].div(10).expand(6, 79), torch.arange(6))
        },
        start=lambda self, party: party.received["z"] - 1,
        proximal=lambda self, party: (100.0, party.received["z"]),
        upload=lambda self, party, w: ({}, {"end": w}),
        personal=lambda self, party: party.received["z"],
    )
    fields = {"optimiser": "sgd", "lr": 0.009, "epochs": None, "steps": 60, "sample": 1.0, "engine": engine}
    simulation = play(small_simulation(PROBE, **fields), 1)
    models = simulation.models(simulation.state)
    for number in range(6):
        row = torch.full((79,), number / 10)
        assert torch.allclose(simulation.state.parties[number]["end"], row, atol=0.04)
        assert torch.allclose(models.personal(number)[0], row)


def test_an_order_holds_nothing_of_what_others_are_sent():
    receiving()
    simulation = small_simulation(PROBE)
    payload = simulation.algorithm.send(simulation.task, simulation.state.server)
    order = simulation.order(Ask("train", payload), 3, 1, Ledger(simulation.state.buffers))
    assert set(order.payload) == {"row", "all", "w"}
    assert torch.equal(order.payload["row"], VALUES[2])
    assert torch.equal(sent_to(payload, 4)["row"], VALUES[0])


def test_bytes_are_those_of_a_row():
    receiving()
    simulation = small_simulation(PROBE)
    _, row = simulation.play_round()
    size = simulation.task.size
    assert row["traffic"]["down"] == {"row": 4 * 4 * 4, "all": 4 * 2 * 4, "w": 4 * size * 4}
    assert traffic({"row": ByParty(VALUES, torch.tensor(WHICH))}, None, 20) == {"row": 20 * 4 * 4}


@pytest.mark.parametrize(
    "which", [[0, 1], [0] * 7, [3] * 6, [-1] * 6, [0.0] * 6, [[0]] * 6], ids=lambda which: str(which)[:12]
)
def test_rows_that_cannot_be(which):
    receiving(which=which)
    with pytest.raises(UserError, match=r"Probe\.send .*must return a dict.*ByParty\(values, which\)"):
        play(small_simulation(PROBE), 1)

    def rounds(self, task, server):
        yield Ask("train", {"w": ByParty(server["w"].expand(3, -1), torch.tensor(which))})
        return server

    probe(round=rounds)
    with pytest.raises(UserError, match=r"Probe\.round .*must yield an Ask whose payload is .*ByParty"):
        play(small_simulation(PROBE), 1)
