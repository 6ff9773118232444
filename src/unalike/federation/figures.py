"""What the server makes of the figures that sites tell of their own rows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from unalike.data.sites.description import MOST_ROWS
from unalike.federation.envelope import Envelope, Refused


def checked_sums(message: Envelope) -> dict[str, list[float]]:
    """Rows, sum of losses and right answers under each name, if they can be that."""
    sums = message.header.get("sums")
    if not isinstance(sums, dict):
        raise Refused("they are missing")
    for values in sums.values():
        good = isinstance(values, list) and len(values) == 3
        if not good or not all(type(v) in (int, float) and 0 <= v <= 2**53 for v in values):
            raise Refused("they are not numbers")
        if values[0] > MOST_ROWS:
            raise Refused(f"they are of {values[0]:g} rows; at most {MOST_ROWS:,} are possible")
        if values[2] > values[0]:
            raise Refused("they have more right answers than rows")
    return sums


def pooled(sums: Mapping[str, Mapping[str, list[float]]], name: str) -> tuple[float | None, float | None]:
    """Mean loss and accuracy over all rows of all sites that answered."""
    rows, loss, right = (math.fsum(one[name][i] for one in sums.values() if name in one) for i in range(3))
    return (loss / rows, right / rows) if rows else (None, None)


def accuracy(sums: list[float] | None) -> float | None:
    """The fraction of one site's rows that the model gets right; None where there are no rows."""
    return sums[2] / sums[0] if sums and sums[0] else None
