"""Every registered protocol holds the second contract, and ``check_protocol`` notices one that breaks it."""

import numpy as np
import pytest

from tests.runs.toy_protocol import ToyProtocol, ToyQuick
from unalike import check_algorithm, check_protocol
from unalike.algorithms import ALGORITHMS, algorithm
from unalike.algorithms.protocol import NOTHING, SERVER, SUM, Protocol, Say, want
from unalike.errors import UserError

SILENT = {"say": lambda line: None}
REGISTERED = [
    entry.name
    for entry in ALGORITHMS
    if issubclass(entry.cls, Protocol) and entry.cls.__module__.startswith(("unalike.", "tests.runs."))
]
VARIANTS = {
    "patience": "trees(depth=2, bins=8, least_rows=2, patience=1)",
    "leaves": "trees(depth=3, grow=leaves, leaves=4, least_rows=1, bins=8)",
    "drawn rows": "trees(depth=2, bins=8, least_rows=2, rows=0.6)",
}


QUICK = {"secureboost": "secureboost(bits=512)"}
"""Keys that protect nobody, and are made in no time."""


@pytest.mark.parametrize("name", REGISTERED)
def test_holds_the_contract(name, monkeypatch):
    monkeypatch.setattr("unalike.algorithms.vertical.secureboost.SecureBoost.least_bits", 512)
    check_protocol(QUICK.get(name, name), **SILENT)


@pytest.mark.parametrize("variant", VARIANTS)
def test_so_do_other_trees(variant):
    check_protocol("histogram", model=VARIANTS[variant], **SILENT)


def test_a_line_says_what_holds():
    said = []
    check_protocol("toy-perceptron", said.append)
    assert len(said) == 1
    assert "holds the contract" in said[0]


def test_each_check_is_for_its_own_contract():
    with pytest.raises(UserError, match=r"histogram is a protocol\. Use check_protocol"):
        check_algorithm("histogram")
    with pytest.raises(UserError, match=r"fedavg is no protocol\. Use check_algorithm"):
        check_protocol("fedavg")


# Each of these breaks one promise.

_CALLS = []


class WritesToItsState(ToyProtocol):
    """Changes what it was given."""

    def step(self, me, state, turn, inbox):
        if me.number != SERVER and turn.round and turn.number:
            state["w"] += want(inbox, SERVER, "step", "int64", state["w"].shape)
            return state, NOTHING
        return super().step(me, state, turn, inbox)


class DrawsOutside(ToyProtocol):
    """Has its random numbers from elsewhere."""

    def gradient(self, me, state):
        _CALLS.append(1)
        return super().gradient(me, state) + len(_CALLS)


class RemembersForGood(ToyProtocol):
    """Keeps in memory what belongs into a state."""

    def gradient(self, me, state):
        found = super().gradient(me, state) + me.kept.get("rounds", 0)
        me.kept["rounds"] = me.kept.get("rounds", 0) + 1
        return found


class ReadsBlindly(ToyProtocol):
    """Takes whatever comes."""

    def step(self, me, state, turn, inbox):
        if me.number != SERVER and turn.round and turn.number:
            return {"w": (state["w"] + inbox[SERVER]["step"][: len(state["w"])]).astype(np.int64)}, NOTHING
        return super().step(me, state, turn, inbox)


class AnyShape(ToyProtocol):
    """Looks at the type alone."""

    def lead(self, me, state, turn, inbox):
        if turn.round == 0 and SUM in inbox:
            return {**state, "rows": want(inbox, SUM, "rows", "int64").sum(keepdims=True)}, NOTHING
        return super().lead(me, state, turn, inbox)


class BlamesOthers(ToyProtocol):
    """Says that the server was wrong, whoever it was."""

    def lead(self, me, state, turn, inbox):
        if turn.round == 0 and SUM in inbox:
            return {**state, "rows": want({SERVER: inbox[SUM]}, SERVER, "rows", "int64", (1,))}, NOTHING
        return super().lead(me, state, turn, inbox)


class FirstComeFirst(ToyProtocol):
    """Weighs mail by the order in which it comes."""

    only_sums = False

    def step(self, me, state, turn, inbox):
        if turn.round and me.number != SERVER and turn.number == 0:
            return state, Say(mail={SERVER: {"gradient": self.gradient(me, state)}})
        if turn.round and me.number == SERVER and turn.number:
            shape = state["steps"].shape[1:]
            parts = [want(inbox, sender, "gradient", "int64", shape) for sender in inbox]
            total = sum(part * (number + 1) for number, part in enumerate(parts))
            return super().step(me, state, turn, {SUM: {"gradient": total}})
        return super().step(me, state, turn, inbox)


class CountsParties(ToyProtocol):
    """Says that it hears sums alone, and looks at how many parties there are."""

    def lead(self, me, state, turn, inbox):
        after, say = super().lead(me, state, turn, inbox)
        return {**after, "rows": after["rows"] + me.terms.parties}, say


class WrongShortCut(ToyQuick):
    """Steps further than its conversation does."""

    def whole_round(self, me, server, party, round):
        after, kept = super().whole_round(me, server, party, round)
        return after, ({"w": kept["w"] + 1} if round == 2 else kept)


class Miscounts(ToyQuick):
    """Counts too few bytes."""

    def said(self, me, server, round):
        up, down = super().said(me, server, round)
        return up, {name: size - 8 for name, size in down.items()}


BROKEN = {
    WritesToItsState: "writes to an array that it was given",
    DrawsOutside: "made again with nothing remembered, gives something else",
    RemembersForGood: "made again with nothing remembered, gives something else",
    ReadsBlindly: "fails on a wrong 'step' of The server, with KeyError",
    AnyShape: "takes a wrong 'rows' of The sum",
    BlamesOthers: "blames The server for 'rows'",
    FirstComeFirst: "depends on whose mail is read first",
    CountsParties: "one party with all rows gives The server's 'rows' another value",
    WrongShortCut: "whole_round leaves Party 0's 'w'",
    Miscounts: "said counts",
}


@pytest.mark.parametrize("cls", BROKEN, ids=lambda cls: cls.__name__)
def test_a_broken_promise_is_noticed(cls, monkeypatch):
    monkeypatch.setattr(ALGORITHMS, "_entries", dict(ALGORITHMS._entries))
    algorithm("broken-protocol")(cls)
    with pytest.raises(AssertionError, match=BROKEN[cls]):
        check_protocol("broken-protocol", **SILENT)


def test_a_state_that_grows_is_noticed(monkeypatch):
    class Grows(ToyProtocol):
        """Keeps more and more."""

        def lead(self, me, state, turn, inbox):
            after, say = super().lead(me, state, turn, inbox)
            return {**after, "rows": np.concatenate([after["rows"], after["rows"]])} if turn.round else after, say

    monkeypatch.setattr(ALGORITHMS, "_entries", dict(ALGORITHMS._entries))
    algorithm("broken-protocol")(Grows)
    with pytest.raises((UserError, AssertionError), match="rows"):
        check_protocol("broken-protocol", **SILENT)
