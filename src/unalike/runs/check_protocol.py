"""``check_protocol``: what every protocol must hold, whatever it trains.

Run it on a protocol of your own: ``check_protocol("my-protocol")``. It plays a few rounds between six small
parties, and raises AssertionError with one line that says which promise of the contract is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unalike.algorithms import ALGORITHMS
from unalike.algorithms.protocol import SERVER, Arrays, Inbox, Me, Protocol, Say, Turn, WrongMail, role_name
from unalike.data import Dataset
from unalike.errors import UserError
from unalike.rounds.conversation import InProcess, converse
from unalike.rounds.state import State
from unalike.runs.check_columns import check_predicted
from unalike.runs.conversing import Conversing
from unalike.runs.meaning import protocol_of
from unalike.runs.row_cast import APART, MERGED, RowCast
from unalike.runs.small import ROUNDS, small_dataset
from unalike.runs.spec import RunSpec

MODELS_TRIED = {"trees": "trees(depth=2, bins=8, least_rows=2, columns=0.7)"}
"""Settings under which six small parties have something to say to each other."""


def check_protocol(
    text: str, say: Callable[[str], None] = print, *, data: Dataset | None = None, **fields: Any
) -> None:
    """Check the protocol that ``text`` describes; ``fields`` change the spec it is tried with.

    ``data``: other rows than the small ones of this package. ``say`` gets one line where everything holds.
    """
    algorithms: Any = ALGORITHMS
    part = algorithms.build(text)
    if not isinstance(part, Protocol):
        raise UserError(f"{text} is no protocol. Use check_algorithm.")
    assert algorithms.build(algorithms.describe(part)) == part, f"{text}: its text does not give it back"

    def small(**more: Any) -> Conversing:
        return small_conversing(text, data, **{**fields, **more})

    check_steps(text, small)
    check_order(text, small)
    check_resumed(text, small)
    cast = small().cast
    if isinstance(cast, RowCast) and part.only_sums and not cast.why_apart():
        check_merged(text, small)
        check_short_cut(text, small)
    if part.splits == "columns":
        played = small()
        play(played)
        check_predicted(text, played)
    say(
        f"{text} holds the contract: steps are pure, the order of mail does not matter, wrong mail is refused by "
        "its sender's name, a resumed run has the same bits, and so have short cuts."
    )


Small = Callable[..., Conversing]


def small_conversing(text: str, data: Dataset | None = None, **fields: Any) -> Conversing:
    """Six unequal parties that play a protocol, one after the other; three where each has other columns."""
    protocol: Any = ALGORITHMS.build(text)
    model = protocol.models[0]
    partition = "natural" if protocol.splits == "rows" else f"vertical({protocol.most_parties or 3})"
    usual = {"partition": partition, "rounds": ROUNDS, "held_out": 0.2, "seed": 3, "engine": APART}
    spec = RunSpec.from_mapping(
        usual | {"algorithm": text, "model": MODELS_TRIED.get(model, model), "validation": 0.2} | fields
    )
    found = protocol_of(spec.algorithm, str(spec.model))
    assert found is not None
    return Conversing(spec, found, data=data or small_dataset(), say=lambda line: None)


def play(played: Conversing, rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Play some rounds, as far as there are any; their records without what differs from time to time."""
    rows = []
    for _ in range(rounds):
        if played.stopped is None:
            played.state, row = played.play_round()
            rows.append({key: value for key, value in row.items() if key != "seconds"})
    return rows


# What each check does.


def check_steps(text: str, small: Small) -> None:
    """Steps are pure, change nothing that they are given, and refuse wrong mail by its sender's name."""
    played = small()
    states = _states(played)
    for round in range(ROUNDS + 1):
        carrier = _Watching(text, played, states)
        converse(carrier, played.roles, round)
        states = carrier.states
        if round in (0, 1, 2):  # later ones are alike
            for moment in carrier.moments:
                _check_wrong_mail(text, played, moment)
        if round and played.protocol.finished(states[SERVER]) is not None:
            return


def check_order(text: str, small: Small) -> None:
    """The bits do not depend on whose mail is read first."""
    straight, reversed_ = small(), small()
    play(straight)
    states = _states(reversed_)
    for round in range(straight.state.round + 1):
        carrier = _Backwards(reversed_.protocol, reversed_.roles.values(), states)
        converse(carrier, reversed_.roles, round)
        states = carrier.states
    wrong = _difference(_states(straight), states)
    assert not wrong, f"{text}: {wrong} depends on whose mail is read first. Read mail in the order of numbers."


def check_resumed(text: str, small: Small) -> None:
    """A run that goes on from what was saved after any round has the same bits and the same figures."""
    whole = small()
    rows = play(whole)
    for stop in range(1, whole.state.round):
        first, then = small(), small()
        play(first, stop)
        then.state = State.of(stop, {name: value.clone() for name, value in first.state.tensors().items()})
        again = play(then, ROUNDS - stop)
        wrong = _difference(_states(whole), _states(then))
        assert not wrong, (
            f"{text}: after a stop in round {stop}, {wrong} is another one. Something that a later round needs is "
            "in no state: keep it in what start gives; me.remember is for what can be made again."
        )
        assert _plain(rows[stop:]) == _plain(again), (
            f"{text}: after a stop in round {stop} there are other figures"
        )


def check_merged(text: str, small: Small) -> None:
    """Where the server hears sums alone, one party with all rows gives it the same state."""
    apart, merged = small(), small(engine=MERGED)
    play(apart)
    for _ in range(apart.state.round):
        merged.state, _ = merged.play_round()
    wrong = _difference({SERVER: _states(apart)[SERVER]}, {SERVER: _states(merged)[SERVER]})
    assert not wrong, (
        f"{text}: one party with all rows gives {wrong} another value. Add whole numbers alone, and decide by "
        "their sums; or say only_sums = False."
    )


def check_short_cut(text: str, small: Small) -> None:
    """A whole round in one go leaves what the conversation leaves, and counts what it says."""
    played = small(engine=MERGED)
    states = _states(played)
    for round in range(ROUNDS + 1):
        carrier = InProcess(played.protocol, played.roles.values(), states)
        spoken = converse(carrier, played.roles, round)
        short = played.protocol.whole_round(played.roles[0], states[SERVER], states[0], round)
        if short is not None:
            wrong = _difference(carrier.states, dict(zip((SERVER, 0), short, strict=True)))
            assert not wrong, f"{text}: whole_round leaves {wrong} as the conversation of round {round} does not"
            counted = played.protocol.said(played.roles[0], short[0], round)
            up = dict(spoken.up)
            for name, size in carrier.bytes_added.items():
                up[name] = up.get(name, 0) + size
            assert counted in (None, (up, spoken.down)), (
                f"{text}: said counts {counted} bytes in round {round}, the conversation {(up, spoken.down)}"
            )
        states = carrier.states


# How they look.


@dataclass(frozen=True, eq=False)
class _Moment:
    """A step that was made: by whom, when, on what, and with what outcome."""

    me: Me
    turn: Turn
    state: Arrays
    inbox: Inbox
    outcome: str


class _Watching(InProcess):
    """Makes every step twice, the second time with nothing remembered, on arrays that cannot be written to."""

    def __init__(self, text: str, played: Conversing, states: Mapping[int, Arrays]) -> None:
        super().__init__(played.protocol, played.roles.values(), states)
        self._text, self._played = text, played
        self.moments: list[_Moment] = []

    def step(self, number: int, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """The step, and what is wrong with it."""
        me, state = self._played.roles[number], self.states[number]
        who = f"{role_name(number)}'s step in turn {turn.number} of round {turn.round}"
        before = _bytes_of(state, Say(mail=inbox))
        held, given = _held(state), {sender: _held(arrays) for sender, arrays in inbox.items()}
        try:
            after = self._played.protocol.step(me, held, turn, given)
            again = self._played.protocol.step(_fresh(me), held, turn, given)
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise AssertionError(f"{self._text}: {who} writes to an array that it was given. Copy it.") from None
        assert _bytes_of(held, Say(mail=given)) == before, f"{self._text}: {who} changes what it was given"
        outcome = _bytes_of(*after)
        assert _bytes_of(*again) == outcome, (
            f"{self._text}: {who}, made again with nothing remembered, gives something else. Random numbers come "
            "from me.random, what is kept is in the state."
        )
        self.moments.append(_Moment(me, turn, state, inbox, outcome))
        return after


class _Backwards(InProcess):
    """Carries the mail of later senders first, and lets later roles speak first."""

    def step(self, number: int, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """The step, with its mail in the other order."""
        other = {sender: dict(reversed(arrays.items())) for sender, arrays in reversed(list(inbox.items()))}
        return super().step(number, turn, other)


def _check_wrong_mail(text: str, played: Conversing, moment: _Moment) -> None:
    """Mail of another type or shape, or that is missing, is the sender's fault, unless nobody reads it."""
    for sender, name, inbox in _spoilt(moment.inbox):
        who = f"{role_name(moment.me.number)} in turn {moment.turn.number} of round {moment.turn.round}"
        try:
            found = _bytes_of(*played.protocol.step(_fresh(moment.me), moment.state, moment.turn, inbox))
        except WrongMail as error:
            if error.sender == sender:
                continue
            raise AssertionError(f"{text}: {who} blames {role_name(error.sender)} for {name!r}") from error
        except Exception as error:
            raise AssertionError(
                f"{text}: {who} fails on a wrong {name!r} of {role_name(sender)}, with {type(error).__name__}: "
                f"{error}. Read mail with want."
            ) from error
        assert found == moment.outcome, (
            f"{text}: {who} takes a wrong {name!r} of {role_name(sender)}. Read mail with want, and say its shape."
        )


def _spoilt(inbox: Inbox) -> Iterator[tuple[int, str, Inbox]]:
    """Inboxes in which one array has another type or shape, or is not there."""
    for sender, arrays in inbox.items():
        for name, array in arrays.items():
            other = np.float32 if array.dtype != np.float32 else np.float64
            longer = (
                np.concatenate([array, array[-1:]]) if array.ndim and len(array) else np.zeros((2, 2, 2, 2, 2))
            )
            for wrong in (array.astype(other), longer.astype(array.dtype)):
                yield sender, name, {**inbox, sender: {**arrays, name: wrong}}
            yield sender, name, {**inbox, sender: {key: each for key, each in arrays.items() if key != name}}


def _fresh(me: Me) -> Me:
    """The same role with nothing remembered."""
    return replace(me, kept={})


def _held(arrays: Arrays) -> Arrays:
    """The same arrays, which nobody can write to."""
    views = {name: array.view() for name, array in arrays.items()}
    for view in views.values():
        view.flags.writeable = False
    return views


def _bytes_of(state: Arrays, say: Say) -> str:
    """All that a step leaves, as one text that is equal for equal bytes."""
    said = {f"to {number}": arrays for number, arrays in say.mail.items()} | {"add": say.add or {}}
    parts = {"state": state, **said}
    return repr(
        [
            (whom, name, array.dtype, array.shape, hash(array.tobytes()))
            for whom, arrays in sorted(parts.items())
            for name, array in sorted(arrays.items())
        ]
    )


def _states(played: Conversing) -> dict[int, Arrays]:
    """What all roles keep, as arrays."""
    state = played.state
    kept = {SERVER: state.server, **state.parties}
    return {role: {name: value.numpy() for name, value in own.items()} for role, own in kept.items()}


def _difference(one: Mapping[int, Arrays], other: Mapping[int, Arrays]) -> str:
    """The first array that differs between what roles keep, in words."""
    for role in sorted(one.keys() | other.keys()):
        own, theirs = one.get(role, {}), other.get(role, {})
        for name in sorted(own.keys() | theirs.keys()):
            pair = [_bytes_of({name: found[name]} if name in found else {}, Say()) for found in (own, theirs)]
            if pair[0] != pair[1]:
                return f"{role_name(role)}'s {name!r}"
    return ""


def _plain(rows: list[dict[str, Any]]) -> str:
    """Records as one text, in which NaN is equal to itself."""
    return repr(rows)
