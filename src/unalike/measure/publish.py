"""What leaves a party in the end: its degrees, rounded; or only its part of their mean, in a secure sum.

A degree tells about the distribution that it measures. Of two labels, K-S is |F - G|, so whoever knows G and the
exact degree knows F but for a sign; with the number of rows, the counts. So nothing exact is published, and no
single feature: a degree is rounded to hundredths, a share to two digits. That leaves the share of a label open by
one percentage point: of a party with fewer than 100 rows it hides nothing. With ``publish="mean"`` no degree of a
single party leaves it at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unalike.measure.cdf import Cdf
from unalike.measure.degree import Degree, OwnDegrees, expected
from unalike.measure.support import DistributionPolicy
from unalike.secure.crypto.bfv import HALF
from unalike.secure.errors import ProtocolError

Publish = Literal["degrees", "mean"]
DIGITS = 2
"""Decimals of a published degree, and significant digits of a published share."""


@dataclass(frozen=True)
class Published:
    """What a party gives away in the end; its CDF and its exact degrees stay with it (``Kept``).

    mean, worst: over the dimensions, which for labels is one; rounded to hundredths.
    share: its share of all rows, to two digits. quantity: its distance to an equal share,
    1 - min(n_k, n/N) / max(n_k, n/N): 0 for an equal share, 0.5 for half or twice of it; in hundredths.
    expected: ``mean`` as a random even split would show it; from the global CDF and the rounded share.
    """

    party: str
    mean: Degree
    worst: Degree
    expected: Degree
    share: float
    quantity: float


@dataclass(frozen=True)
class FederationDegrees:
    """All parties together.

    mean: of the parties' means over dimensions, weighted by their rows; expected: the same of a random even split.
    worst: the greatest of the parties' means over dimensions. worst_dimension: the greatest in any dimension. Both
    are None where only the mean was published.
    quantity: the share of all rows that would have to move so that all parties have as many, divided by its
    largest possible value 1 - 1/N.
    """

    mean: Degree
    expected: Degree
    worst: Degree | None
    worst_dimension: Degree | None
    quantity: float


def publish(policy: DistributionPolicy, party: str, own: OwnDegrees, everyone: Cdf) -> Published:
    """What a party tells all others about its degrees."""
    share = _two_digits(own.share)
    rows = max(round(share * everyone.rows), 1)
    by_chance = expected(policy, everyone, min(rows, everyone.rows))
    return Published(party, _rounded(own.mean), _rounded(own.worst), by_chance, share, round(own.quantity, DIGITS))


def summarise(published: Sequence[Published]) -> FederationDegrees:
    """The federation's figures, from what its parties have published."""
    shares = np.array([one.share for one in published])
    weights = shares / shares.sum()  # shares are rounded, and with noise of a noisy total
    count = len(published)

    def weighted(degrees: Sequence[Degree]) -> Degree:
        return Degree(*(weights @ _table(degrees)).tolist())

    def greatest(degrees: Sequence[Degree]) -> Degree:
        return Degree(*_table(degrees).max(axis=0).tolist())

    return FederationDegrees(
        mean=weighted([one.mean for one in published]),
        expected=weighted([one.expected for one in published]),
        worst=greatest([one.mean for one in published]),
        worst_dimension=greatest([one.worst for one in published]),
        quantity=float(np.abs(weights - 1 / count).sum() / 2 / (1 - 1 / count)) if count > 1 else 0.0,
    )


def contribution(own: OwnDegrees, rows: int, everyone: Cdf, parties: int) -> NDArray[np.int64]:
    """A party's vector in the second secure sum: whole numbers, from which only the federation's mean is read.

    Its weight (its rows times a public scale), its degrees and its expected degrees times that weight, and how far
    it is from an equal share.
    """
    scale = _scale(everyone, parties)
    weight = min(rows, everyone.rows)  # with noise, all rows may seem fewer than its own
    away = abs(weight - everyone.rows / parties)
    numbers = [weight, *(weight * degree for degree in (*astuple(own.mean), *astuple(own.expected))), away]
    return np.array([round(scale * number) for number in numbers], np.int64)


def contribution_bound(policy: DistributionPolicy, everyone: Cdf, parties: int) -> int:
    """No entry of the sum of contributions is larger."""
    most = max(policy.most_rows, -(-everyone.rows // parties))
    return _scale(everyone, parties) * parties * min(most, everyone.rows)


def read_mean(total: NDArray[np.int64], everyone: Cdf, parties: int) -> FederationDegrees:
    """The federation's figures from the sum of the contributions."""
    weight = int(total[0])
    if weight < 1 or (total < 0).any() or (total[1:9] > weight).any():
        raise ProtocolError(None, "or the server spoilt the sum of degrees: it cannot be right.")
    mean, by_chance = (Degree(*(part / weight).tolist()) for part in (total[1:5], total[5:9]))
    whole = _scale(everyone, parties) * everyone.rows
    uneven = int(total[9]) / whole / 2 / (1 - 1 / parties)
    return FederationDegrees(mean, by_chance, None, None, min(uneven, 1.0))


def _scale(everyone: Cdf, parties: int) -> int:
    """As fine as the modulus allows for a party that might have all rows; the same in all modes."""
    return max(HALF // parties // everyone.rows, 1)


def _rounded(degree: Degree) -> Degree:
    return Degree(*(round(number, DIGITS) for number in astuple(degree)))


def _two_digits(share: float) -> float:
    return float(f"{share:.{DIGITS}g}")


def _table(degrees: Sequence[Degree]) -> NDArray[np.float64]:
    return np.array([astuple(one) for one in degrees])
