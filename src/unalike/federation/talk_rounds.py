"""A protocol's rounds with real sites: a round that a site's restart broke is played again, to the same bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from unalike.algorithms.protocol import SERVER, Arrays, Intent, Me, Protocol
from unalike.errors import UserError
from unalike.federation.asking import Asking
from unalike.federation.conversing import LostPlace, SiteMail
from unalike.federation.mail import after
from unalike.federation.pairing import OCCASION
from unalike.federation.turns import PURPOSE
from unalike.rounds.conversation import Spoken, converse

MOST_TIMES = 10
"""How often in a row a round is played again because a site was started again within it."""
T = TypeVar("T")


@dataclass
class Conversation:
    """A protocol's run with real sites: the server's state, and what each was told until the last whole round.

    Nothing changes until a round is whole.
    """

    protocol: Protocol
    me: Me
    asking: Asking
    schema: str
    state: Arrays
    told: dict[int, bytes]

    def __post_init__(self) -> None:
        self.keys: dict[str, str] = {}
        """what each site has told as its key for sums in one trip"""

    def play(self, rounds: list[int]) -> tuple[Arrays, dict[int, bytes], list[Spoken]]:
        """The server's state and what sites were told after these rounds, one after the other, and what was said.

        Where a site was started again on the way, they are all played again: to the same bits.
        """

        def once() -> tuple[Arrays, dict[int, bytes], list[Spoken]]:
            state, told, spoken = self.state, self.told, []
            for round in rounds:
                carrier = self._carrier(state, told, self.keys)
                spoken.append(self._converse(carrier, round, "train"))
                carrier.whole(round)
                state, told = carrier.state, carrier.told
            return state, told, spoken

        return self.until_whole(once, f"round {rounds[-1]}")

    def predict(
        self,
        state: Arrays,
        told: Mapping[int, bytes],
        round: int,
        session: bytes,
        keys: dict[str, str],
        job: str = "",
    ) -> Spoken:
        """Have the sites predict by the model after a round, which they were told so much until; nothing is kept.

        The label holder has what is predicted. ``job``: which, if it is not to try the model on the run's rows.
        """
        told = {number: after(one, session) for number, one in told.items()}
        about = {PURPOSE: "predict"} | ({OCCASION: job} if job else {})
        return self._converse(self._carrier(state, told, keys, about), round, "predict")

    def until_whole(self, play: Callable[[], T], what: str) -> T:
        """What comes of a conversation, which is played again where a site was started again within it."""
        for _ in range(MOST_TIMES):
            try:
                return play()
            except LostPlace as lost:
                names = ", ".join(lost.names)
                self.asking.speaker.say(
                    f"{names} was started again within a round: {what} is played again from its beginning."
                )
        raise UserError(
            f"{names} was started again {MOST_TIMES} times within {what}. Look at what it prints, and run again."
        )

    def _carrier(
        self,
        state: Arrays,
        told: Mapping[int, bytes],
        keys: dict[str, str],
        about: Mapping[str, str] | None = None,
    ) -> SiteMail:
        return SiteMail(self.protocol, self.me, state, self.asking, self.schema, told, keys, about)

    def _converse(self, carrier: SiteMail, round: int, purpose: Intent) -> Spoken:
        terms = self.me.terms
        record_of = {SERVER} if terms.label_holder is None else {SERVER, terms.label_holder}
        return converse(carrier, [SERVER, *range(terms.parties)], round, purpose, record_of)
