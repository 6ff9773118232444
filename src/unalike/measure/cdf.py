"""Step 4 of the federated CDF: each party counts its rows on the common bins; and back from counts to CDFs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unalike.data.dataset import Array
from unalike.errors import UserError
from unalike.measure.support import DistributionPolicy, Values, checked_features, named, no_rows
from unalike.secure.errors import ProtocolError


@dataclass(frozen=True, eq=False)
class Cdf:
    """Cumulative distributions on the policy's points, [dimensions, points].

    cumulative: how many rows come up to each point; the last point of each dimension has them all. With the
    weighting "parties" these are the parts of ``scale`` that were counted instead of rows.
    """

    cumulative: Array
    rows: int

    @cached_property
    def values(self) -> Array:
        """The share of rows up to each point: of labels, with this label or an earlier one; the last is 1."""
        values: Array = self.cumulative / self.cumulative[..., -1:]
        return values

    @cached_property
    def pdf(self) -> Array:
        """The share of rows at each point, from whole counts: the order of labels does not change a bit of it."""
        shares: Array = np.diff(self.cumulative, axis=-1, prepend=0) / self.cumulative[..., -1:]
        return shares


def count(policy: DistributionPolicy, party: str, values: Values) -> NDArray[np.int64]:
    """Step 4, a party: its cumulative counts, without the last point of each dimension, then its number of rows.

    With the weighting "parties" the counts are divided by the rows and rounded to multiples of 1 / ``scale``.
    """
    table = _label_table(policy, party, values) if policy.labels else _feature_table(policy, party, values)
    rows = int(table[0].sum())
    if rows == 0:
        raise no_rows(party)
    if rows > policy.most_rows:
        raise UserError(
            f"{named(party)} has {rows:,} rows, but with {policy.parties} parties each may have at most "
            f"{policy.most_rows:,}, or the sum would exceed the modulus. Measure a random sample of its rows."
        )
    cumulative = table.cumsum(axis=1)[:, :-1]
    if policy.weighting == "parties":
        cumulative = (2 * cumulative * policy.scale + rows) // (2 * rows)
    return np.append(cumulative.ravel(), rows).astype(np.int64)


def read_cdf(policy: DistributionPolicy, vector: NDArray[np.int64], parties: int = 1) -> Cdf:
    """The CDF in a party's own vector, or in the sum of the vectors of so many parties.

    What noise has put out of order or out of bounds is put right; without noise nothing is.
    """
    rows = max(int(vector[-1]), 1)
    whole = rows if policy.weighting == "rows" else parties * policy.scale
    cumulative = vector[:-1].reshape(policy.dimensions, policy.points - 1)
    ordered = np.maximum.accumulate(cumulative, axis=1).clip(0, whole)
    ends = np.full((policy.dimensions, 1), whole)
    return Cdf(np.concatenate([ordered, ends], axis=1), rows)


def check_sum(policy: DistributionPolicy, total: NDArray[np.int64], own: NDArray[np.int64], parties: int) -> None:
    """A party makes sure that a sum without noise can be right: less its own vector, the others' counts are left.

    ``parties`` are those whose vectors are in the sum. The counts rise along each CDF from 0 up to the number of
    rows (with the weighting "parties" up to ``scale`` a party), and everybody has a row.
    """
    rest = total - own
    cumulative, rows = rest[:-1].reshape(policy.dimensions, policy.points - 1), int(rest[-1])
    most = rows if policy.weighting == "rows" else (parties - 1) * policy.scale
    rising = (np.diff(cumulative, axis=1, prepend=0, append=most) >= 0).all()
    if not rising or not parties - 1 <= rows <= (parties - 1) * policy.most_rows:
        raise ProtocolError(
            None, "or the server spoilt the sum: it cannot be right, as less our own counts it counts nothing."
        )


def sensitivity(policy: DistributionPolicy) -> float:
    """How far, in Euclidean distance, a party's vector moves at most when one of its rows is changed."""
    if policy.weighting != "rows":
        raise UserError("Noise needs the weighting 'rows': a row of a small party weighs more in a mean of CDFs.")
    return float(np.sqrt(policy.length - 1))


def _label_table(policy: DistributionPolicy, party: str, values: Values) -> NDArray[np.int64]:
    if not isinstance(values, Mapping):
        raise UserError(f"{named(party)} counts labels: give a mapping from label to number of rows.")
    wrong = [label for label, rows in values.items() if rows < 0]
    if wrong:
        raise UserError(f"{named(party)} has {values[wrong[0]]} rows of the label {wrong[0]!r}. Counts are >= 0.")
    missing = sorted(label for label, rows in values.items() if rows and label not in policy.labels)
    if missing:
        raise UserError(
            f"{named(party)} has rows of the label {missing[0]!r}, which is not in the agreed labels. "
            "Let it announce all of its labels, and agree again."
        )
    return np.array([[values.get(label, 0) for label in policy.labels]], np.int64)


def _feature_table(policy: DistributionPolicy, party: str, values: Values) -> NDArray[np.int64]:
    if isinstance(values, Mapping):
        raise UserError(f"{named(party)} counts features: give an array [rows, dimensions].")
    values = checked_features(party, values)
    if values.shape[1] != policy.dimensions:
        raise UserError(f"{named(party)} has {values.shape[1]} features, agreed were {policy.dimensions}.")
    low, width = np.array(policy.low), np.array(policy.high) - np.array(policy.low)
    place = (values - low) / np.where(width > 0, width, 1.0) * policy.bins
    bin_of = np.where(width > 0, place, 0.0).clip(0, policy.bins - 1).astype(np.int64)
    flat = (bin_of + policy.bins * np.arange(policy.dimensions)).ravel()
    counts = np.bincount(flat, minlength=policy.dimensions * policy.bins)
    return counts.reshape(policy.dimensions, policy.bins).astype(np.int64)
