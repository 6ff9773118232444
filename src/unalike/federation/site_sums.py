"""A site's part in sums that hide it: which kind its plan has, with whose keys, and what it remembers of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unalike.channels import parse_channel
from unalike.channels.encrypted import Encrypted
from unalike.channels.masked import Masked
from unalike.federation.boxes import SiteBoxes
from unalike.federation.dealing import SiteKeys
from unalike.federation.envelope import Envelope, Refused
from unalike.federation.letters import Letters
from unalike.federation.measuring import BITS
from unalike.federation.once import Once
from unalike.federation.pairing import GREET, SitePairs, key_file, occasion_of
from unalike.federation.plan import Plan
from unalike.federation.summing import Protection, SiteSum, VectorOf

MOST_BITS = 64
"""Of the words in which whole numbers are added under masks where no channel says how many."""
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
        self.pairs: dict[str, SitePairs] = {}
        """its keys with the others, for the run and by job beside it, while there are any"""

    def step(self, message: Envelope, vector: VectorOf) -> Answer:
        """A step of a sum in several trips; the site trains at the one that sends its vector."""
        hidden = parse_channel(self.plan.spec.channel).hidden
        sizes = self.plan.cohort, self.plan.needed(self.plan.cohort)
        if self.plan.one_trip is not None:
            raise Refused("by this site's plan hidden sums are made in one trip, with all who are asked")
        if self.plan.several_trips:  # of a conversation nobody may be missing
            sizes = len(self.plan.parties), len(self.plan.parties)
            summing = self._sum("turns", lambda: Protection(MOST_BITS), *sizes)
        elif isinstance(hidden, Masked):
            summing = self._sum("masked", lambda: Protection(hidden.bits), *sizes)
        elif isinstance(hidden, Encrypted):
            summing = self._sum("encrypted", lambda: Protection(context=self.keys().context()), *sizes)
        else:
            raise Refused("this site has not agreed to secure sums")
        return summing.answer(message, vector)

    def in_one_trip(self, message: Envelope, vector: VectorOf) -> Answer:
        """The site's key for sums in one trip and for boxes, or what it adds to a sum."""
        if message.kind == GREET:
            return self.paired(occasion_of(message)).greet()
        if self.plan.one_trip is None:
            raise Refused("this site has not agreed to sums in one trip")
        return self.paired().answer(message, vector)

    def paired(self, occasion: str = "") -> SitePairs:
        """The site's keys with the others, where its plan has sums in one trip or mail from site to site."""
        masked, columns = self.plan.one_trip, self.plan.splits_columns
        if masked is None and not columns:
            raise Refused("this site has not agreed to sums in one trip")
        if occasion and not columns:
            raise Refused("this site's plan has no jobs in which sites write to each other")
        known = self.name, self.signer, self.roster(), self.server  # which looks at the others' own cards
        if occasion not in self.pairs:
            bits = MOST_BITS if masked is None else masked.bits
            made = SitePairs(self.folder, *known, bits, self.plan.digest, self.once, occasion)
            self.pairs[occasion] = made
        return self.pairs[occasion]

    def boxes(self, message: Envelope, session: bytes) -> SiteBoxes:
        """What opens and seals mail from site to site, with the keys that come with a message."""
        shared = self.paired(occasion_of(message)).shared(message)
        return self._boxes(shared, session)

    def letters(self, message: Envelope, session: bytes) -> Letters:
        """What opens and seals mail and sums between sites in a conversation, with the keys of a message."""
        pairs = self.paired(occasion_of(message))
        shared = pairs.shared(message)
        return Letters(self._boxes(shared, session), pairs, shared, self.plan.parties)

    def _boxes(self, shared: Mapping[str, bytes], session: bytes) -> SiteBoxes:
        if set(shared) != set(self.plan.parties) - {self.name}:
            raise Refused("it does not have the keys of all sites for their mail to each other")
        keys = {self.plan.number(name): key for name, key in shared.items()}
        return SiteBoxes(keys, self.plan.number(self.name), session)

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

    def end(self, occasion: str = "") -> None:
        """Forget the key of masks and boxes: who steals it later could open what was recorded."""
        self.pairs.pop(occasion, None)
        (self.folder / key_file(occasion)).unlink(missing_ok=True)
