"""A site's part in sums that hide it: which kind its plan has, with whose keys, and what it remembers of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unalike.channels import parse_channel
from unalike.channels.encrypted import Encrypted
from unalike.channels.masked import Masked
from unalike.federation.dealing import SiteKeys
from unalike.federation.envelope import Envelope, Refused
from unalike.federation.measuring import BITS
from unalike.federation.once import Once
from unalike.federation.pairing import GREET, KEY_FILE, SitePairs
from unalike.federation.plan import Plan
from unalike.federation.summing import Protection, SiteSum, VectorOf

TURN_BITS = 64
"""Of the words in which integers of a protocol are added under masks."""
Answer = tuple[dict[str, Any], bytes]
"""The header's own part of an answer, and its body."""


@dataclass
class SiteSums:
    """The sums that a site takes part in; ``roster`` gives the keys of all parties, once they are agreed on."""

    folder: Path
    name: str
    plan: Plan
    signer: bytes = field(repr=False)
    server: bytes
    once: Once
    roster: Callable[[], Mapping[str, bytes]]

    def __post_init__(self) -> None:
        self._sums: dict[str, SiteSum] = {}
        self.pairs: SitePairs | None = None
        """its part in sums of one trip, while there is a key for them"""

    def step(self, message: Envelope, vector: VectorOf) -> Answer:
        """A step of a sum in several trips; the site trains at the one that sends its vector."""
        hidden = parse_channel(self.plan.spec.channel).hidden
        sizes = self.plan.cohort, self.plan.needed(self.plan.cohort)
        if self.plan.one_trip is not None:
            raise Refused("by this site's plan hidden sums are made in one trip, with all who are asked")
        if self.plan.several_trips:  # of a conversation nobody may be missing
            sizes = len(self.plan.parties), len(self.plan.parties)
            summing = self._sum("turns", lambda: Protection(TURN_BITS), *sizes)
        elif isinstance(hidden, Masked):
            summing = self._sum("masked", lambda: Protection(hidden.bits), *sizes)
        elif isinstance(hidden, Encrypted):
            summing = self._sum("encrypted", lambda: Protection(context=self.keys().context()), *sizes)
        else:
            raise Refused("this site has not agreed to secure sums")
        return summing.answer(message, vector)

    def in_one_trip(self, message: Envelope, vector: VectorOf) -> Answer:
        """The site's key for sums in one trip, or what it adds to one."""
        pairs = self.paired()
        return pairs.greet() if message.kind == GREET else pairs.answer(message, vector)

    def paired(self) -> SitePairs:
        """The site's part in sums of one trip, where its plan has them."""
        masked = self.plan.one_trip
        if masked is None:
            raise Refused("this site has not agreed to sums in one trip")
        known = self.name, self.signer, self.roster(), self.server  # which looks at the others' own cards
        if self.pairs is None:
            self.pairs = SitePairs(self.folder, *known, masked.bits, self.plan.digest, self.once)
        return self.pairs

    def counts(self, message: Envelope, vector: VectorOf) -> Answer:
        """A step of the sum of counts with which sites are measured."""
        everybody = len(self.plan.parties)
        return self._sum("measure", lambda: Protection(BITS), everybody, everybody).answer(message, vector)

    def _sum(self, what: str, how: Callable[[], Protection], cohort: int, fewest: int) -> SiteSum:
        known = self.name, self.signer, self.roster(), self.server
        if what not in self._sums:
            self._sums[what] = SiteSum(*known, how(), cohort, fewest, self.once)
        return self._sums[what]

    def keys(self) -> SiteKeys:
        """The keys of encrypted sums."""
        if not isinstance(parse_channel(self.plan.spec.channel).hidden, Encrypted):
            raise Refused("this federation's plan has no encrypted channel")
        path = self.folder / "keys" / "sum.key"
        return SiteKeys(path, self.name, self.signer, self.roster(), self.plan.digest)

    def take_keys(self, act: Callable[[SiteKeys], Answer]) -> Answer:
        """Deal or take new keys, which are for new sums."""
        answer = act(self.keys())
        self._sums.pop("encrypted", None)
        return answer

    def end(self) -> None:
        """Forget the key of masks: who steals it later could open what was recorded."""
        self.pairs = None
        (self.folder / KEY_FILE).unlink(missing_ok=True)
