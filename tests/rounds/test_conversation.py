"""Mail goes from role to role until nobody says anything: who is called, in which order, and what is counted."""

import numpy as np
import pytest

from unalike.algorithms.protocol import NOTHING, SERVER, SUM, Me, Protocol, PublicTerms, Say, WrongMail, want
from unalike.errors import UserError
from unalike.rounds import conversation
from unalike.rounds.conversation import InProcess, added, converse, role_random

TERMS = PublicTerms(parties=3, rounds=2, seed=5, model=None, features=1, classes=2)


class Script(Protocol):
    """Does what it is told: by role and turn."""

    def __init__(self, lines):
        self.lines, self.called = lines, []

    def step(self, me, state, turn, inbox):
        self.called.append((turn.number, me.number, {sender: sorted(mail) for sender, mail in inbox.items()}))
        return {"turns": state["turns"] + 1}, self.lines.get((turn.number, me.number), NOTHING)


def played(lines, **more):
    script = Script(lines)
    roles = [Me(TERMS, number, None, role_random(5, number)) for number in (SERVER, 0, 1, 2)]
    states = {me.number: {"turns": np.zeros(1, np.int64)} for me in roles}
    carrier = InProcess(script, roles, states, **more)
    return script, carrier, converse(carrier, [me.number for me in roles], 1)


def one(name, value=1, dtype=np.int64):
    return {name: np.full(2, value, dtype)}


def test_all_wake_once_and_then_only_who_has_mail():
    script, carrier, spoken = played({(0, 1): Say(mail={2: one("a")}), (1, 2): Say(mail={SERVER: one("b")})})
    assert [call[:2] for call in script.called] == [(0, SERVER), (0, 0), (0, 1), (0, 2), (1, 2), (2, SERVER)]
    assert spoken.turns == 3
    assert {number: int(state["turns"][0]) for number, state in carrier.states.items()} == {
        SERVER: 2,
        0: 1,
        1: 1,
        2: 2,
    }


def test_mail_comes_by_sender_in_order_and_sums_to_the_server_alone():
    lines = {(0, k): Say(mail={1: one(f"from {k}")}, add=one("n", k)) for k in (2, 0, SERVER)}
    script, carrier, _ = played(lines)
    inboxes = {number: inbox for turn, number, inbox in script.called if turn == 1}
    assert inboxes == {SERVER: {SUM: ["n"]}, 1: {SERVER: ["from -1"], 0: ["from 0"], 2: ["from 2"]}}
    assert list(inboxes[1]) == [SERVER, 0, 2]
    assert carrier.bytes_added == {"n": 2 * 16}, "what the server says to be added is nobody's"


def test_bytes_are_counted_by_name_and_way():
    lines = {
        (0, 0): Say(mail={SERVER: one("up"), 1: one("across")}),
        (0, SERVER): Say(mail={0: one("down"), 1: one("down")}, figures={"loss": 0.5}),
    }
    _, _, spoken = played(lines)
    assert (spoken.up, spoken.down, spoken.figures) == (
        {"up": 16, "across": 16},
        {"across": 16, "down": 32},
        {"loss": 0.5},
    ), "mail between parties goes up, and down again"


def test_figures_of_a_party_are_not_kept():
    assert played({(0, 1): Say(figures={"secret": 1.0})})[2].figures == {}


def test_a_sum_is_exact_and_wraps_as_masks_do():
    parts = {k: {"n": np.array([2**62, k])} for k in range(3)}
    assert added(parts)["n"].tolist() == [3 * 2**62 - 2**64, 3]
    assert parts[0]["n"].tolist() == [2**62, 0], "nobody's own part is changed"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({0: one("n"), 1: one("m")}, "Party 1 adds"),
        ({0: one("n"), 2: {"n": np.zeros(3, np.int64)}}, "Party 2 adds"),
        ({0: one("n"), 1: one("n", dtype=np.float64)}, "Party 1 adds 'n' as float64"),
    ],
)
def test_what_cannot_be_added_is_the_fault_of_one(parts, message):
    with pytest.raises(WrongMail, match=message):
        added(parts)


@pytest.mark.parametrize("wrong", [np.zeros(2, np.complex64), np.array(["a"]), [1, 2]])
def test_mail_is_made_of_plain_arrays(wrong):
    with pytest.raises(WrongMail, match="Party 2 said 'x' as"):
        played({(0, 2): Say(mail={SERVER: {"x": wrong}})})


def test_mail_to_nobody_is_refused_by_its_senders_name():
    with pytest.raises(WrongMail, match="Party 0 wrote to Party 7, which is not there"):
        played({(0, 0): Say(mail={7: one("x")})})


def test_who_never_falls_silent_is_stopped(monkeypatch):
    monkeypatch.setattr(conversation, "MOST_TURNS", 20)
    lines = {(turn, 0): Say(mail={0: one("x")}) for turn in range(99)}
    with pytest.raises(UserError, match="Round 1 has not ended after 20 turns"):
        played(lines)


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [
        ("int64", (3,), r"said 'x' as int64 \(2,\), it must be int64 \(3,\)"),
        ("int64", (None, 1), "said 'x'"),
        ("float32", (2,), "said 'x' as int64 .2,., it must be float32"),
    ],
)
def test_want_names_the_sender(dtype, shape, message):
    inbox = {0: one("x")}
    assert want(inbox, 0, "x", "int64", (None,)) is inbox[0]["x"]
    with pytest.raises(WrongMail, match=f"Party 0 {message}") as raised:
        want(inbox, 0, "x", dtype, shape)
    assert raised.value.sender == 0
    with pytest.raises(WrongMail, match="Party 1 was to say 'x' and did not"):
        want(inbox, 1, "x", "int64")


def test_random_numbers_are_a_roles_own_and_come_again():
    draws = {(n, p): role_random(5, n)("batches", (p,)).integers(2**60) for n in (SERVER, 0, 1) for p in (1, 2)}
    assert len(set(draws.values())) == 6
    assert role_random(5, 1)("batches", (2,)).integers(2**60) == draws[1, 2]
    assert role_random(6, 1)("batches", (2,)).integers(2**60) != draws[1, 2]
