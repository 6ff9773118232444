"""How parties agree on where columns are cut into bins: by counts that are only ever added.

Every float32 has a place among all of them, a whole number of 32 bits. Parties first count their values by the
upper 9 bits (sign and power of two), then, only inside buckets that many rows share, by 4 bits more, three times:
four sums. A cut is an edge of such buckets or lies in the empty space between two, so it is nobody's value, and
it is the same whoever holds which row. A bucket that few rows share is never looked into, and bins that few rows
share are merged with a neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unalike.trees.cuts import Cuts

FIRST: Final = 9
"""Bits of a place that are counted first: the sign and the power of two."""
MORE: Final = 4
"""Bits by which a bucket is divided when it is looked into."""
DIVISIONS: Final = 3
"""How often buckets are divided: 21 of 32 bits are the most that is ever counted of a value."""
MISSING: Final = 1 << FIRST
"""In first counts: the place of missing values, after all buckets."""

Ints = NDArray[np.int64]


def places(x: NDArray[Any]) -> Ints:
    """The place of each number among all float32: it rises with the number. Missing values have one beyond all.

    What is infinite counts as the greatest number.
    """
    most = np.finfo(np.float32).max
    with np.errstate(over="ignore"):
        numbers = np.clip(np.asarray(x).astype(np.float32), -most, most) + np.float32(0)  # no -0
    bits = numbers.view(np.uint32).astype(np.int64)
    found = np.where(bits >> 31, 0xFFFFFFFF - bits, bits + 0x80000000)
    return np.where(np.isnan(numbers), MISSING << (32 - FIRST), found)


def number_at(place: Ints) -> NDArray[np.float32]:
    """The float32 at each place: the inverse of :func:`places`."""
    bits = np.where(place >= 0x80000000, place - 0x80000000, 0xFFFFFFFF - place)
    return bits.astype(np.uint32).view(np.float32)


@dataclass(frozen=True, eq=False)
class Buckets:
    """Rows by column and range of places: ``low`` is where a bucket begins, ``bits`` how many bits it fixes.

    Sorted by column, then by place.
    """

    column: Ints
    low: Ints
    bits: Ints
    rows: Ints

    @property
    def high(self) -> Ints:
        """Where each bucket ends: the first place after it."""
        return self.low + (1 << (32 - self.bits))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The buckets as arrays by name."""
        return {"column": self.column, "low": self.low, "bits": self.bits, "rows": self.rows}

    def where(self, chosen: NDArray[Any]) -> Buckets:
        """Only those buckets that are chosen, by a mask or by their numbers."""
        return Buckets(self.column[chosen], self.low[chosen], self.bits[chosen], self.rows[chosen])

    def to_divide(self, bins: int, least_rows: int) -> NDArray[np.int64]:
        """The numbers of buckets to look into: of each column the fullest 2 x ``bins`` that could be two bins.

        Where fewer than twice ``least_rows`` rows share a bucket, a cut inside it would leave too few on one side.
        Only buckets that were made by the last division are divided again.
        """
        newest = self.bits == self.bits.max(initial=FIRST)
        order = np.lexsort((self.low, -self.rows, self.column))
        order = order[(newest & (self.rows >= 2 * least_rows))[order]]
        first = np.searchsorted(self.column[order], self.column[order])
        return np.sort(order[np.arange(len(order)) - first < 2 * bins])

    def divided(self, chosen: NDArray[np.int64], counts: Ints) -> Buckets:
        """The buckets after those that were chosen are divided; ``counts`` are the rows in each of their parts."""
        bits = np.repeat(self.bits[chosen] + MORE, 1 << MORE)
        parts = np.tile(np.arange(1 << MORE, dtype=np.int64), len(chosen)) << (32 - bits)
        fine = Buckets(
            np.repeat(self.column[chosen], 1 << MORE),
            np.repeat(self.low[chosen], 1 << MORE) + parts,
            bits,
            counts.reshape(-1),
        )
        rest = self.where(~np.isin(np.arange(len(self.rows)), chosen))
        fine = fine.where(fine.rows > 0)
        both = [np.concatenate(pair) for pair in zip(rest.arrays().values(), fine.arrays().values(), strict=True)]
        return Buckets(*both).where(np.lexsort((both[1], both[0])))


def first_buckets(counts: Ints) -> Buckets:
    """The buckets that first counts [columns, MISSING + 1] show to have rows; missing values are in none."""
    column, place = np.nonzero(counts[:, :MISSING])
    bits = np.full(len(column), FIRST, np.int64)
    return Buckets(column, place << (32 - FIRST), bits, counts[column, place])


def first_counts(x: Any) -> Ints:
    """How many values of each column lie in each of the first buckets, and how many are missing."""
    width = MISSING + 1
    counts = np.zeros((x.shape[1], width), np.int64)
    for column, found, absent in _columns(x):
        counts[column] = np.bincount(found >> (32 - FIRST), minlength=width)
        counts[column, _ZERO >> (32 - FIRST)] += absent
    return counts


def fine_counts(x: Any, column: Ints, low: Ints, bits: int) -> Ints:
    """How many values lie in each part of the buckets that begin at ``low``, which fix so many bits."""
    counts = np.zeros((len(low), 1 << MORE), np.int64)
    below = 32 - bits - MORE
    ends = np.searchsorted(column, np.arange(x.shape[1] + 1))
    for number, found, absent in _columns(x):
        begin, end = int(ends[number]), int(ends[number + 1])
        if begin == end:
            continue
        values = np.append(found, _ZERO)
        times = np.ones(len(values), np.int64)
        times[-1] = absent
        asked = low[begin:end]
        bucket = np.clip(np.searchsorted(asked, values, side="right") - 1, 0, None)
        part = (values - asked[bucket]) >> below
        inside = (part >= 0) & (part < 1 << MORE)
        slot = (bucket[inside] << MORE) + part[inside]
        counts[begin:end] = (
            np.bincount(slot, times[inside], minlength=(end - begin) << MORE)
            .astype(np.int64)
            .reshape(end - begin, -1)
        )
    return counts


_ZERO: Final = 0x80000000
"""The place of the number 0."""


def _columns(x: Any) -> Any:
    """Each column's number, the places of its values, and how many more are 0 because a sparse matrix has none."""
    if hasattr(x, "tocsc"):
        by_column = x.tocsc()
        for column in range(x.shape[1]):
            values = by_column.data[by_column.indptr[column] : by_column.indptr[column + 1]]
            yield column, places(values), x.shape[0] - len(values)
    else:
        for column in range(x.shape[1]):
            yield column, places(x[:, column]), 0


def fills(cuts: Cuts, missing: Ints, buckets: Buckets, least_rows: int) -> NDArray[np.float32]:
    """For each column the number that missing values count as, where they are too few for a bin of their own.

    It lies in the fullest bin. NaN where no value is missing, or where enough are.
    """
    found = np.full(cuts.features, np.nan, np.float32)
    for column in np.flatnonzero((missing > 0) & (missing < least_rows)):
        own = buckets.where(buckets.column == column)
        values = cuts.of_feature(int(column))
        bins = np.searchsorted(values, number_at(own.low), side="right")
        fullest = int(np.argmax(np.bincount(bins, own.rows, minlength=len(values) + 1)))
        if not len(values):
            found[column] = 0
        else:
            found[column] = values[fullest - 1] if fullest else np.nextafter(values[0], np.float32(-np.inf))
    return found


def cuts_between(buckets: Buckets, features: int, bins: int, least_rows: int) -> Cuts:
    """Cuts that divide each column into at most so many bins of about as many rows, each of at least the least.

    A bucket that has as many rows as a bin should have is a bin of its own. A cut is the edge between two buckets,
    or the middle of the empty space between them.
    """
    ends = np.searchsorted(buckets.column, np.arange(features + 1))
    high = buckets.high
    found = []
    for column in range(features):
        begin, end = int(ends[column]), int(ends[column + 1])
        last = begin + _bin_ends(buckets.rows[begin:end], bins, least_rows)
        below = number_at(high[last]).astype(np.float64)
        above = number_at(buckets.low[last + 1]).astype(np.float64)
        found.append(((below + above) / 2).astype(np.float32))
    starts = np.concatenate([[0], np.cumsum([len(values) for values in found])]).astype(np.int64)
    return Cuts(np.concatenate([*found, np.zeros(0, np.float32)]), starts)


def _bin_ends(rows: Ints, bins: int, least_rows: int) -> Ints:
    """The numbers of the buckets that are the last of their bin, but for the last bin's."""
    rest, left = int(rows.sum()), bins
    heavy = rows * bins >= rest
    left -= int(heavy.sum())
    rest -= int(rows[heavy].sum())
    ends: list[int] = []
    inside = 0
    for number, count in enumerate(rows.tolist()[:-1]):
        inside += count
        share = rest / max(left, 1)
        if heavy[number] or inside >= share or (heavy[number + 1] and inside >= share / 2):
            ends.append(number)
            if not heavy[number]:
                left -= 1
                rest -= inside
            inside = 0
    return _merged(rows, ends[: bins - 1], least_rows)


def _merged(rows: Ints, ends: list[int], least_rows: int) -> Ints:
    """These ends of bins without those that leave a bin with fewer rows than the least."""
    total = np.concatenate([[0], np.cumsum(rows)])
    kept: list[int] = []
    before = 0
    for end in ends:
        if total[end + 1] - before >= least_rows:
            kept.append(end)
            before = int(total[end + 1])
    while kept and total[-1] - total[kept[-1] + 1] < least_rows:
        kept.pop()
    return np.array(kept, np.int64)


def own_cuts(x: Any, bins: int, least_rows: int) -> Cuts:
    """The cuts of rows that lie at one place: those that parties would agree on if they had them together."""
    return own_agreement(x, bins, least_rows)[0]


def own_agreement(x: Any, bins: int, least_rows: int) -> tuple[Cuts, NDArray[np.float32]]:
    """The same cuts, and the numbers that missing values count as where they are too few (:func:`fills`)."""
    counts = first_counts(x)
    buckets = first_buckets(counts)
    for division in range(DIVISIONS):
        chosen = buckets.to_divide(bins, least_rows)
        bits = FIRST + division * MORE
        buckets = buckets.divided(chosen, fine_counts(x, buckets.column[chosen], buckets.low[chosen], bits))
    cuts = cuts_between(buckets, x.shape[1], bins, least_rows)
    return cuts, fills(cuts, counts[:, MISSING], buckets, least_rows)
