"""What a protocol has a site say, learnt from a conversation that the site plays with itself; nothing is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from unalike.algorithms.protocol import SERVER, Arrays, Inbox, Me, Say, Turn
from unalike.federation.roles import the_server
from unalike.federation.row_turns import TurnWork
from unalike.own_code import explained
from unalike.rounds.conversation import InProcess, added, converse, role_random

ADDED, MAILED = "added", "mailed"
"""What a site says is added to what the others say, or is read as it is."""


class _Overheard(InProcess):
    """All roles in one process, with an ear on one of them."""

    def listen(self, number: int) -> Counter[tuple[str, str]]:
        """By way and name, how many numbers this role has said; it is counted on as turns are played."""
        self.number, self.heard = number, Counter[tuple[str, str]]()
        self._summing = self._sum
        return self.heard

    def turn(self, turn: Turn, inboxes: Mapping[int, Inbox]) -> Mapping[int, Say]:
        """Let every role with an inbox make its step, and count what one of them mails."""
        said = super().turn(turn, inboxes)
        for arrays in said.get(self.number, Say()).mail.values():
            self._count(MAILED, arrays)
        return said

    def _sum(self, turn: Turn, parts: Mapping[int, Arrays]) -> Arrays:
        self._count(ADDED, parts.get(self.number, {}))
        return added(parts)

    def _count(self, way: str, arrays: Arrays) -> None:
        for name, array in arrays.items():
            self.heard[way, name] += array.size


def said_in_rounds(work: TurnWork) -> list[tuple[bool, str, dict[str, int]]]:
    """What leaves a site before round 1, and in a round: whether once, which way, and by name how many numbers.

    All parties have this site's rows; how much is said may be another with those of the others.
    """
    seed, parties = work.spec.seed, work.me.terms.parties
    roles: dict[int, Me] = {SERVER: the_server(work.plan, work.schema)}
    for number in range(parties):
        roles[number] = replace(work.me, number=number, draw=role_random(seed, number), kept={})
    found = []
    with explained(work.protocol):
        states = {number: work.protocol.start(me) for number, me in roles.items()}
        for round in (0, 1):
            carrier = _Overheard(work.protocol, roles.values(), states)
            heard = carrier.listen(work.number)
            converse(carrier, roles, round)
            states = carrier.states
            for way in (ADDED, MAILED):
                sizes = {name: count for (how, name), count in sorted(heard.items()) if how == way}
                found += [(round == 0, way, sizes)] if sizes else []
    return found
