"""A party's rows by bin, in few places: the most frequent bin of a column is left out, columns share a place.

Where two columns are never off their most frequent bin in the same row, as those of a coded category, they share
a place. A row is then a few numbers of slots, however many columns it has. What was left out is found again by
subtraction, which is exact in integers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError
from unalike.trees.cuts import Cuts

MOST_PLACES_TRIED: Final = 64
"""How many places are looked at for a column before it gets one of its own."""


@dataclass(frozen=True, eq=False)
class Binned:
    """Rows by bin: ``codes[row, place]`` names a slot of this party's own short histogram, from ``base[place]``.

    Column ``j`` is in place ``place[j]``. Its ``used[j]`` slots begin at ``first[j]``, ascending by bin: those
    that occur, without the most frequent one, ``default[j]``. ``slot_bin`` is each slot's bin, ``slot_full`` its
    place in the full histogram. ``base[k]`` is the first slot of place ``k``, for "every column on its default",
    which stands for no bin (-1 in both); behind the last place it is the number of slots.
    """

    cuts: Cuts
    codes: NDArray[Any]
    columns: NDArray[Any]
    """The codes by place, [places, rows]."""
    place: NDArray[np.int32]
    first: NDArray[np.int32]
    used: NDArray[np.int32]
    default: NDArray[np.int32]
    base: NDArray[np.int32]
    slot_bin: NDArray[np.int32]
    slot_full: NDArray[np.int64]
    kept: dict[str, Any] = field(default_factory=dict, repr=False)
    """What the compiled core keeps from one tree to the next."""

    @property
    def rows(self) -> int:
        """The number of rows that are binned."""
        return len(self.codes)

    @property
    def places(self) -> int:
        """How many numbers a row is."""
        return int(self.codes.shape[1])

    @property
    def slots(self) -> int:
        """The length of the short histogram."""
        return len(self.slot_bin)

    def bins(self, feature: int, rows: NDArray[Any] | slice = slice(None)) -> NDArray[np.int32]:
        """The bins of one column for some rows, or all."""
        place = self.place[feature]
        codes = self.columns[place][rows].astype(np.int64) + self.base[place]
        first, used = int(self.first[feature]), int(self.used[feature])
        own = (codes >= first) & (codes < first + used)
        found = self.slot_bin[np.where(own, codes, 0)]
        return np.where(own, found, self.default[feature]).astype(np.int32)


def bin_rows(x: Any, cuts: Cuts) -> Binned:
    """Rows by bin; ``x`` is dense, or a scipy sparse matrix, whose absent entries are 0 (not missing)."""
    if x.ndim != 2 or x.shape[1] != cuts.features:
        raise UserError(f"trees: rows have shape {x.shape}, the cuts are of {cuts.features} columns.")
    columns = _sparse_columns(x, cuts) if hasattr(x, "tocsc") else _dense_columns(x, cuts)
    return _bundled(columns, x.shape[0], cuts)


def bins_of(values: NDArray[Any], cuts: NDArray[np.float32]) -> NDArray[np.int32]:
    """The bin of each value of a column: the number of cuts not above it; missing values have the last."""
    values = values.astype(np.float32, copy=False)
    bins = np.searchsorted(cuts, values, side="right").astype(np.int32)
    bins[np.isnan(values)] = len(cuts) + 1
    return bins


_Column = tuple[int, NDArray[np.int64], NDArray[np.int32]]  # the default bin, the other rows, their bins


def _dense_columns(x: NDArray[Any], cuts: Cuts) -> list[_Column]:
    found = []
    for feature in range(cuts.features):
        bins = bins_of(x[:, feature], cuts.of_feature(feature))
        default = int(np.argmax(np.bincount(bins, minlength=1)))
        others = np.flatnonzero(bins != default)
        found.append((default, others, bins[others]))
    return found


def _sparse_columns(x: Any, cuts: Cuts) -> list[_Column]:
    x = x.tocsc(copy=True)
    x.sum_duplicates()
    found = []
    for feature in range(cuts.features):
        part = slice(x.indptr[feature], x.indptr[feature + 1])
        bins, rows = bins_of(x.data[part], cuts.of_feature(feature)), x.indices[part].astype(np.int64)
        absent = int(bins_of(np.zeros(1), cuts.of_feature(feature))[0])
        counts = np.bincount(bins, minlength=absent + 1)
        counts[absent] += x.shape[0] - len(rows)
        default = int(np.argmax(counts))
        if default != absent:
            full = np.full(x.shape[0], absent, np.int32)
            full[rows] = bins
            bins, rows = full, np.arange(x.shape[0])
        others = bins != default
        found.append((default, rows[others], bins[others]))
    return found


def _by_zero(columns: list[_Column], rows: int, cuts: Cuts) -> list[_Column]:
    """Columns of two bins with that of 0 left out, though it may be the rarer one.

    Of a coded category, one column may be 1 in most rows; left out at 0 it never meets the others.
    """
    found = []
    for feature, (default, others, bins) in enumerate(columns):
        zero = int(bins_of(np.zeros(1), cuts.of_feature(feature))[0])
        if len(bins) and default != zero and (bins == zero).all():
            mask = np.ones(rows, bool)
            mask[others] = False
            others = np.flatnonzero(mask)
            found.append((zero, others, np.full(len(others), default, np.int32)))
        else:
            found.append((default, others, bins))
    return found


def _shared_places(columns: list[_Column], rows: int) -> NDArray[np.int32]:
    """The place of each column: the fullest column first, each to the first place with room and no conflict.

    Where a place's codes can be numbers of one byte, they are.
    """
    widths = [len(np.unique(column[2])) for column in columns]
    most = 255 if max(widths, default=0) <= 255 else 2**16 - 1
    place = np.zeros(len(columns), np.int32)
    taken: list[NDArray[np.uint8]] = []
    counts: list[int] = []
    slots: list[int] = []
    for feature in sorted(range(len(columns)), key=lambda f: (-len(columns[f][1]), f)):
        mine = np.zeros(rows, bool)
        mine[columns[feature][1]] = True
        packed, count = np.packbits(mine), len(columns[feature][1])
        for k in range(max(0, len(taken) - MOST_PLACES_TRIED), len(taken)):
            fits = counts[k] + count <= rows and slots[k] + widths[feature] <= most
            if fits and not np.any(taken[k] & packed):
                taken[k] |= packed
                counts[k] += count
                slots[k] += widths[feature]
                place[feature] = k
                break
        else:
            place[feature] = len(taken)
            taken.append(packed)
            counts.append(count)
            slots.append(widths[feature])
    return place


def _bundled(columns: list[_Column], rows: int, cuts: Cuts) -> Binned:
    place, columns = min(
        ((_shared_places(form, rows), form) for form in (columns, _by_zero(columns, rows, cuts))),
        key=lambda pair: pair[0].max(initial=0),
    )
    places = int(place.max()) + 1 if len(place) else 0
    first, used, base = (np.zeros(n, np.int32) for n in (len(columns), len(columns), places + 1))
    slot_bin: list[int] = []
    slot_full: list[int] = []
    tables = []
    for k in range(places):
        base[k] = len(slot_bin)
        slot_bin.append(-1)
        slot_full.append(-1)
        for feature in np.flatnonzero(place == k):
            bins = np.unique(columns[feature][2])
            first[feature], used[feature] = len(slot_bin), len(bins)
            slot_bin.extend(bins)
            slot_full.extend(cuts.offsets[feature] + bins)
            tables.append((feature, bins))
    base[places] = len(slot_bin)
    codes = np.zeros((rows, places), np.uint8 if np.diff(base).max(initial=0) <= 256 else np.uint16)
    for feature, bins in tables:
        _, others, own = columns[feature]
        codes[others, place[feature]] = first[feature] - base[place[feature]] + np.searchsorted(bins, own)
    default = np.array([column[0] for column in columns], np.int32)
    # A little longer than it is: the compiled core reads four bytes at a time.
    by_place = np.zeros(codes.size + 4, codes.dtype)[: codes.size].reshape(places, rows)
    by_place[:] = codes.T
    return Binned(
        cuts,
        codes,
        by_place,
        place,
        first,
        used,
        default,
        base,
        np.array(slot_bin, np.int32),
        np.array(slot_full, np.int64),
    )
