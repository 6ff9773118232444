"""A round of a protocol: mail is carried from role to role until nobody says anything more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol as Shape

import numpy as np

from unalike.algorithms.protocol import (
    SERVER,
    SUM,
    TYPES,
    Arrays,
    Inbox,
    Intent,
    Me,
    Protocol,
    Say,
    Turn,
    WrongMail,
    role_name,
)
from unalike.errors import UserError
from unalike.randomness import Purpose as Use
from unalike.randomness import stream

Layout = list[tuple[str, tuple[int, ...]]]
"""Names and shapes of what a party adds, by name."""
_KINDS = frozenset(map(np.dtype, TYPES))
MOST_TURNS = 100_000
"""A round that has more turns would never end."""


class MailCarrier(Shape):
    """How the turns of a round reach the roles: all in one process, or real sites behind messages."""

    def turn(self, turn: Turn, inboxes: Mapping[int, Inbox]) -> Mapping[int, Say]:
        """Let each role that has an inbox make its step, and bring back what it says.

        What parties say to be added comes back as what the server is to hear: under ``SUM`` in the answer, added
        and nothing else of it. A role's ``Say`` has no ``add`` any more.
        """
        ...


@dataclass
class Spoken:
    """What was said in a round: how many turns, bytes up and down by name, and the server's figures."""

    turns: int = 0
    up: dict[str, int] = field(default_factory=dict)
    down: dict[str, int] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)


def converse(
    carrier: MailCarrier,
    roles: Iterable[int],
    round: int,
    purpose: Intent = "train",
    record_of: Collection[int] = (SERVER,),
) -> Spoken:
    """Play one round: turn 0 wakes all roles, later turns those that have mail, until there is none.

    ``record_of``: the roles whose figures are for the round's record.
    """
    spoken = Spoken()
    inboxes: dict[int, dict[int, Arrays]] = {number: {} for number in sorted(roles)}
    while inboxes:
        if spoken.turns == MOST_TURNS:
            raise UserError(
                f"Round {round} has not ended after {MOST_TURNS:,} turns: a protocol must fall silent."
            )
        said = carrier.turn(Turn(round, spoken.turns, purpose), inboxes)
        inboxes = _delivered(said, spoken, record_of)
        spoken.turns += 1
    return spoken


def _delivered(
    said: Mapping[int, Say], spoken: Spoken, record_of: Collection[int]
) -> dict[int, dict[int, Arrays]]:
    """The inboxes of the next turn, by role and sender in order; the sum of what was added is the server's."""
    inboxes: dict[int, dict[int, Arrays]] = {}
    for sender in sorted(said):
        say = said[sender]
        if sender in record_of:
            spoken.figures |= {name: float(value) for name, value in say.figures.items()}
        for receiver, arrays in sorted(say.mail.items()):
            check_arrays(sender, arrays)
            inboxes.setdefault(receiver, {})[sender] = arrays
            if sender >= 0:
                _count(spoken.up, arrays)
            if receiver >= 0:  # mail between parties goes up, and down again
                _count(spoken.down, arrays)
    return {number: inboxes[number] for number in sorted(inboxes)}


def _count(counted: dict[str, int], arrays: Arrays) -> None:
    for name, array in arrays.items():
        counted[name] = counted.get(name, 0) + array.nbytes


def check_arrays(sender: int, arrays: Arrays) -> None:
    """Refuse arrays of types that no protocol may send."""
    for name, array in arrays.items():
        if isinstance(array, np.ndarray) and array.dtype in _KINDS:  # a name takes far longer to make
            continue
        if not isinstance(array, np.ndarray) or array.dtype.name not in TYPES:
            kind = array.dtype.name if isinstance(array, np.ndarray) else type(array).__name__
            raise WrongMail(sender, f"said {name!r} as {kind}. Mail is made of arrays of {', '.join(TYPES)}.")


def added(parts: Mapping[int, Arrays]) -> Arrays:
    """The sum of what parties add, in party order; all must add the same names, types and shapes."""
    layout = check_same({number: layout_of(number, part) for number, part in parts.items()})
    first, *others = (parts[number] for number in sorted(parts))
    total = {name: first[name].copy() for name, _ in layout}
    for part in others:
        for name in total:
            total[name] += part[name]
    return total


def check_same(layouts: Mapping[int, Layout]) -> Layout:
    """The layout of what all parties add; one that adds something else is refused."""
    first = min(layouts)
    for number in sorted(layouts):
        if layouts[number] != layouts[first]:
            raise WrongMail(number, f"adds {layouts[number]}, but party {first} adds {layouts[first]}.")
    return layouts[first]


def layout_of(number: int, arrays: Arrays) -> Layout:
    """Names and shapes of what a party adds, which must be int64."""
    for name, array in arrays.items():
        if array.dtype != np.int64:
            raise WrongMail(number, f"adds {name!r} as {array.dtype}. Only int64 is added.")
    return [(name, arrays[name].shape) for name in sorted(arrays)]


def role_secret(seed: int, number: int) -> Callable[[str, tuple[int, ...]], bytes]:
    """Where a role has its secrets from in a simulation, in which there is nothing to hide: the seed."""
    return lambda use, place: sha256(repr((seed, number, use, place)).encode()).digest()


def role_random(seed: int, number: int) -> Callable[[Use, tuple[int, ...]], np.random.Generator]:
    """Where a role has its random numbers from, given the seed that all know: the same wherever it is played."""
    return lambda use, place: stream(seed, use, number + 1, *place)


class Summing(Shape):
    """How what parties add becomes one sum: plainly, or so that no part of it is seen."""

    def __call__(self, turn: Turn, parts: Mapping[int, Arrays]) -> Arrays:
        """The sum of all parts."""
        ...


class InProcess:
    """All roles in one process, as in a simulation: a carrier that makes every step itself.

    States change as turns are played; whoever drives it takes them when the round is whole.
    """

    def __init__(
        self, protocol: Protocol, roles: Iterable[Me], states: Mapping[int, Arrays], summing: Summing | None = None
    ) -> None:
        self._protocol, self._roles = protocol, {me.number: me for me in roles}
        self._summing = summing or (lambda turn, parts: added(parts))
        self.states: dict[int, Arrays] = dict(states)
        self.bytes_added: dict[str, int] = {}
        """By name: how many bytes of integers parties have put into sums."""

    def step(self, number: int, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """Let one role make its step: what it keeps then, and what it says."""
        return self._protocol.step(self._roles[number], self.states[number], turn, inbox)

    def turn(self, turn: Turn, inboxes: Mapping[int, Inbox]) -> Mapping[int, Say]:
        """Let every role with an inbox make its step."""
        said: dict[int, Say] = {}
        parts: dict[int, dict[int, Arrays]] = {}
        for number in sorted(inboxes):
            if number not in self._roles:
                raise WrongMail(min(inboxes[number]), f"wrote to {role_name(number)}, which is not there.")
            self.states[number], say = self.step(number, turn, inboxes[number])
            said[number] = say
            if say.add is not None and number != SERVER:
                parts.setdefault(say.to, {})[number] = say.add
        for one in parts.values():
            for part in one.values():
                _count(self.bytes_added, part)
        if parts:
            said[SUM] = Say(mail={to: self._summing(turn, one) for to, one in sorted(parts.items())})
        return said
