"""Steps 1 to 3 of the federated CDF: parties say which values they have, the server answers with common bins.

Yan et al. 2023 (FHE-FCDF), figure 4. The *support* of a party are the names of its labels, or the range of each
feature; the *distribution policy* is the union of all supports, on which every party then counts its rows.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from secrets import SystemRandom
from typing import Any, Literal, get_args

import numpy as np

from unalike.data.dataset import Array
from unalike.errors import UserError, unknown
from unalike.measure import wire
from unalike.secure.crypto.bfv import HALF, MOST_ENTRIES
from unalike.secure.policy import MOST_PARTIES, Protect

Of = Literal["labels", "features"]
Weighting = Literal["rows", "parties"]
Values = Mapping[str, int] | Array
"""What a party has: how many rows of each label, or its features, [rows, dimensions]."""
SCALE = 2**16
"""A party's CDF is rounded to multiples of 1 / SCALE where all parties weigh the same."""
DEFAULT_BINS = 64
MOST_BINS = 4096
_MOST_PLAIN = 2**53
_STEPS = 16  # a step is the power of two below a sixteenth of the range


@dataclass(frozen=True)
class Support:
    """What a party tells the server of its variable: label names, or a lower and upper bound of each dimension.

    Bounds are below the least and above the greatest value by one to two steps, where a step is a thirty-second to
    a sixteenth of the range (of the value itself, where there is only one), drawn at random: no row's own value is
    sent. The least value is then known to within a step, not better; of whole numbers in a short range, or if it
    is drawn anew for the same rows again and again, that can be enough to tell it.
    """

    labels: tuple[str, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def to_bytes(self) -> bytes:
        """The message to the server."""
        return wire.pack(self)

    @staticmethod
    def from_bytes(raw: bytes, party: str) -> Support:
        """Read the message of ``party``, who is named if it is not one."""
        sender = named(party)
        found = wire.unpack(raw, Support, sender)
        labels = wire.names(found["labels"], sender)
        low, high = wire.ranges(found["low"], found["high"], sender)
        if bool(labels) == bool(low):
            raise UserError(f"{sender} sent a support that is neither labels nor ranges.")
        return Support(labels, low, high)


@dataclass(frozen=True)
class DistributionPolicy:
    """What all parties count on; public.

    labels: in order: by number where all of them are numbers, else by name. Or
    low, high, bins: bin j of a dimension has the values from low + j (high - low) / bins to below the next edge;
    values outside go to the first and the last bin.
    weighting: "rows", all rows weigh the same and the global CDF is that of the pooled rows; "parties", all
    parties weigh the same and it is the mean of their CDFs, as in the paper, each rounded to multiples of
    1 / ``scale``.
    most_rows: how many rows a party may have, so that the sum cannot exceed what encryption can hold.
    """

    parties: int
    weighting: Weighting
    most_rows: int
    scale: int
    labels: tuple[str, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    bins: int = 0

    @property
    def of(self) -> Of:
        """Whether labels or features are counted."""
        return "labels" if self.labels else "features"

    @property
    def dimensions(self) -> int:
        """How many CDFs there are: one of labels, or one for each feature."""
        return 1 if self.labels else len(self.low)

    @property
    def points(self) -> int:
        """In how many points each CDF is known; in the last it is 1."""
        return len(self.labels) or self.bins

    @property
    def length(self) -> int:
        """Entries of a party's vector: the CDFs without their last point, then the number of rows."""
        return self.dimensions * (self.points - 1) + 1

    @property
    def bound(self) -> int:
        """No entry of the sum over all parties is larger."""
        return self.parties * max(self.most_rows, self.scale if self.weighting == "parties" else 0)

    def edges(self, dimension: int) -> Array:
        """Where the bins of one feature begin and end: one number more than there are bins."""
        low, high = self.low[dimension], self.high[dimension]
        return low + (high - low) * np.arange(self.bins + 1) / self.bins

    def to_bytes(self) -> bytes:
        """The message to all parties."""
        return wire.pack(self)

    @staticmethod
    def from_bytes(raw: bytes) -> DistributionPolicy:
        """The policy in the server's message; one that makes no sense is refused."""
        server = "The server"
        found = wire.unpack(raw, DistributionPolicy, server)
        labels = wire.names(found["labels"], server)
        low, high = wire.ranges(found["low"], found["high"], server)
        if found["weighting"] not in ("rows", "parties") or bool(labels) == bool(low):
            raise UserError("The server sent a distribution policy that cannot be read.")
        policy = DistributionPolicy(
            parties=wire.whole(found["parties"], 1, MOST_PARTIES, "parties", server),
            weighting=found["weighting"],
            most_rows=wire.whole(found["most_rows"], 1, _MOST_PLAIN, "rows", server),
            scale=wire.whole(found["scale"], 1, SCALE, "parts of a CDF", server),
            labels=labels,
            low=low,
            high=high,
            bins=wire.whole(found["bins"], 2 if low else 0, MOST_BINS if low else 0, "bins", server),
        )
        finite = all(math.isfinite(above - below) for below, above in zip(low, high, strict=True))
        if policy.length > MOST_ENTRIES or not finite:
            raise UserError("The server sent a distribution policy with more bins, or wider ones, than can be.")
        return policy


def support_of(party: str, values: Values, rng: Random | None = None) -> Support:
    """Step 1, a party: its labels, or the range of each of its features, widened at random.

    rng: by default the operating system's. To announce the same ranges again, seed one with a secret of your own.
    """
    if isinstance(values, Mapping):
        labels = tuple(sorted(label for label, count in values.items() if count > 0))
        if not labels:
            raise no_rows(party)
        return Support(labels=labels)
    values = checked_features(party, values)
    rng = rng or SystemRandom()
    ranges = [_outward(low, high, rng) for low, high in zip(values.min(axis=0), values.max(axis=0), strict=True)]
    return Support(low=tuple(low for low, _ in ranges), high=tuple(high for _, high in ranges))


def agree(
    supports: Mapping[str, Support],
    *,
    weighting: Weighting = "rows",
    bins: int = DEFAULT_BINS,
    protect: Protect = "fhe+masks",
    reach: int = 0,
) -> DistributionPolicy:
    """Steps 2 and 3, the server: the union of all supports.

    reach: how far noise may take an entry of one party.
    """
    if weighting not in get_args(Weighting):
        raise unknown("weighting", str(weighting), get_args(Weighting))
    if not 2 <= bins <= MOST_BINS:
        raise UserError(f"The number of bins must be from 2 to {MOST_BINS}, got {bins}. Use {DEFAULT_BINS}.")
    if not supports:
        raise UserError("There are no parties to measure. Give at least three.")
    room = HALF // len(supports) - reach
    if room < 1:
        raise UserError(f"{len(supports)} parties with this much noise exceed the modulus. Use less noise.")
    terms: dict[str, Any] = {
        "parties": len(supports),
        "weighting": weighting,
        "most_rows": _MOST_PLAIN // len(supports) - reach if protect == "none" else room,
        "scale": min(SCALE, 1 << (room.bit_length() - 1)),  # the same in all modes: so are the degrees
    }
    first = next(iter(supports))
    for party, support in supports.items():
        if len(support.low) != len(supports[first].low):
            raise UserError(
                f"{named(party)} has {len(support.low)} feature(s), {named(first).lower()} has "
                f"{len(supports[first].low)}. All parties must measure the same variable."
            )
    if supports[first].labels:
        union = {label for support in supports.values() for label in support.labels}
        return DistributionPolicy(labels=in_order(union), **terms)
    low, high = (np.array([getattr(support, side) for support in supports.values()]) for side in ("low", "high"))
    lowest, highest = low.min(axis=0), high.max(axis=0)
    with np.errstate(over="ignore"):
        if not np.isfinite(highest - lowest).all():
            raise UserError("A feature's range exceeds what floating point can hold. Scale the features first.")
    return DistributionPolicy(low=tuple(lowest.tolist()), high=tuple(highest.tolist()), bins=bins, **terms)


def in_order(labels: Sequence[str] | set[str]) -> tuple[str, ...]:
    """The one order of labels: by number where all of them are numbers or ranges (``31 to 59``), else by name."""
    try:
        numbers = {label: float(label.partition(" to ")[0]) for label in labels}
    except ValueError:
        return tuple(sorted(labels))
    if not all(map(math.isfinite, numbers.values())):
        return tuple(sorted(labels))
    return tuple(sorted(labels, key=lambda label: (numbers[label], label)))


def named(party: str) -> str:
    """A party in an error message: Party 3, Party 'oslo'."""
    return party.capitalize() if party.lower().startswith("party ") else f"Party {party!r}"


def no_rows(party: str) -> UserError:
    """The error for a party that has nothing to count."""
    return UserError(f"{named(party)} has no rows, so no distribution. Leave it out.")


def checked_features(party: str, values: Array) -> Array:
    """A party's features as [rows, dimensions] floating point, all of them finite."""
    if values.ndim != 2 or not values.shape[1]:
        raise UserError(f"{named(party)}'s features must have the shape [rows, dimensions], got {values.shape}.")
    if not len(values):
        raise no_rows(party)
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise UserError(
            f"{named(party)} has {values[row, column]} in row {row}, feature {column}. Remove or fill it first."
        )
    return values.astype(np.float64, copy=False)


def _outward(low: float, high: float, rng: Random) -> tuple[float, float]:
    """A wider range: on either side by one step, and by a random part of another."""
    low, high = float(low), float(high)
    if not math.isfinite(high - low):
        raise UserError("A feature's range exceeds what floating point can hold. Scale the features first.")
    size = (high - low or abs(high) or 1.0) / _STEPS
    step = 2.0 ** math.floor(math.log2(size)) if size else 0.0
    step = max(step, 4 * math.ulp(max(abs(low), abs(high))))
    most = sys.float_info.max
    return max(low - step * (1 + rng.random()), -most), min(high + step * (1 + rng.random()), most)
