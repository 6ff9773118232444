"""The splits that a holder of columns offers, and the encrypted sums of the rows that each would send left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unalike.secure.crypto.integers import Number, inverse, number
from unalike.trees.bins import Binned
from unalike.trees.grow import Growing, histograms

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Splits in the order in which trees of one place prefer them, among equals: by column, then by bin.

    Rows in ``bin`` or a lower one go left, missing ones where ``missing_left`` says. Those that cannot leave a row
    on each side are not there.
    """

    feature: Ints
    bin: Ints
    missing_left: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.feature)

    @classmethod
    def of(cls, binned: Binned, allowed: NDArray[np.bool_]) -> Candidates:
        """The splits of these rows on the columns that are allowed."""
        found: list[tuple[int, int, bool]] = []
        for feature in np.flatnonzero(allowed).tolist():
            cuts = len(binned.cuts.of_feature(feature))
            gaps = has_missing(binned, feature)
            found += [(feature, bin, False) for bin in range(cuts + gaps)]
            found += [(feature, bin, True) for bin in range(cuts - 1, -1, -1) if gaps]
        table = np.array(found, np.int64).reshape(-1, 3)
        return cls(table[:, 0], table[:, 1], table[:, 2] > 0)

    def sums(self, binned: Binned, hist: Ints) -> Ints:
        """What goes left by each candidate, of a full histogram [slots, channels] in the clear."""
        offsets = binned.cuts.offsets
        running = np.concatenate([np.zeros_like(hist[:1]), np.cumsum(hist, axis=0)])
        begin, end = offsets[self.feature], offsets[self.feature + 1]
        left = running[begin + self.bin + 1] - running[begin]
        missing = np.where(self.missing_left[:, None], hist[end - 1], 0)
        return np.asarray(left + missing, np.int64)

    def counts(self, binned: Binned, growing: Growing, nodes: NDArray[np.int32]) -> Ints:
        """How many rows of some nodes each candidate sends left, [nodes, candidates]."""
        none = np.zeros(binned.rows, np.int32)
        found = [histograms(binned, none, none, growing, np.array([node]), 3)[0, :, 2:] for node in nodes]
        return np.array([self.sums(binned, hist) for hist in found], np.int64).reshape(len(nodes), len(self))

    def products(self, binned: Binned, short: list[Number], total: Number, modulus: Number) -> list[Number]:
        """What goes left by each candidate, of the products of ciphertexts by slot and that of all rows."""
        found: list[Number] = []
        for feature in np.unique(self.feature).tolist():
            own = np.flatnonzero(self.feature == feature)
            sums = _running(binned, feature, short, total, modulus)
            gap = len(binned.cuts.of_feature(feature)) + 1
            for place in own.tolist():
                left = sums[int(self.bin[place])]
                found.append(left * sums[gap] % modulus if self.missing_left[place] else left)
        return found


def has_missing(binned: Binned, feature: int) -> bool:
    """Whether a value of this column is missing in these rows."""
    gap = len(binned.cuts.of_feature(feature)) + 1
    first, used = int(binned.first[feature]), int(binned.used[feature])
    return bool(binned.default[feature] == gap or (binned.slot_bin[first : first + used] == gap).any())


def _running(binned: Binned, feature: int, short: list[Number], total: Number, modulus: Number) -> list[Number]:
    """The products up to and with each bin of a column, and last that of the missing bin alone.

    The most frequent bin is what is left of the total when all others are divided out: one inverse a column.
    """
    first, used = int(binned.first[feature]), int(binned.used[feature])
    cuts = len(binned.cuts.of_feature(feature))
    by_bin = dict(zip(binned.slot_bin[first : first + used].tolist(), short[first : first + used], strict=True))
    others = number(1)
    for value in by_bin.values():
        others = others * value % modulus
    by_bin[int(binned.default[feature])] = total * inverse(others, modulus) % modulus
    found, running = [], number(1)
    for bin in range(cuts + 1):
        if bin in by_bin:
            running = running * by_bin[bin] % modulus
        found.append(running)
    return [*found, by_bin.get(cuts + 1, number(1))]


def slot_products(binned: Binned, values: list[Number], modulus: Number, rows: NDArray[np.int32]) -> list[Number]:
    """The product of the rows' ciphertexts in each slot of the short histogram.

    Rows on the most frequent bin of all columns of a place are left out. Several places are gone through at once,
    in cells of all their codes together, where that takes fewer multiplications.
    """
    short = [number(1)] * binned.slots
    mine = [values[row] for row in rows.tolist()]
    codes = {place: binned.columns[place][rows].astype(np.int64) for place in range(binned.places)}
    for group in _groups(binned, codes):
        joint = np.zeros(len(rows), np.int64)
        for place in group:
            joint = joint * int(binned.base[place + 1] - binned.base[place]) + codes[place]
        cells, which = np.unique(joint, return_inverse=True)
        found = [number(1)] * len(cells)
        begin = int(cells[0] == 0) if len(cells) else 0
        for cell, value in zip(which.tolist(), mine, strict=True):
            if cell >= begin:
                found[cell] = found[cell] * value % modulus
        for place in reversed(group):
            width = int(binned.base[place + 1] - binned.base[place])
            slots, cells = (cells % width) + binned.base[place], cells // width
            for slot, value in zip(slots.tolist(), found, strict=True):
                if slot != binned.base[place]:
                    short[slot] = short[slot] * value % modulus
    return short


def _groups(binned: Binned, codes: dict[int, Ints]) -> list[list[int]]:
    """Places that are gone through at once: one is added where all its cells cost less than its rows."""
    groups: list[list[int]] = []
    size, cells, cost = 0, 1, 0.0
    rows = len(next(iter(codes.values()))) if codes else 0
    widths = np.diff(binned.base)
    for place in sorted(codes, key=lambda k: (int(widths[k]), k)):
        own = int(np.count_nonzero(codes[place]))
        both = cells * int(widths[place])
        together = min(rows, size + own) + min(both, rows) * (len(groups[-1]) + 1 if groups else 1)
        if groups and together < cost + own:
            groups[-1].append(place)
            size, cells, cost = min(rows, size + own), both, float(together)
        else:
            groups.append([place])
            size, cells, cost = own, int(widths[place]), float(own)
    return groups
