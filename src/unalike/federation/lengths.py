"""How long each site's updates are beside the others': what shows a site that blows its own up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

NORMS = "norms"
"""In a round's record: of each exchange, by party, the l2 norm of what it uploaded."""
FAR = 10.0
"""So many times the median of the others' a person should look at."""


class Longest(NamedTuple):
    """A site's longest update beside the others': how many times their median it was, and when."""

    times: float
    round: int

    @property
    def shown(self) -> str:
        """How many times, for a person."""
        return f"{self.times:,.0f}" if self.times >= 100 else f"{self.times:.3g}"

    def line(self, party: str) -> str:
        """For a person who may have to do something about it."""
        return (
            f"{party}'s update of round {self.round} was {self.shown} times as long as the median of the "
            "others': ask the site, or leave it out."
        )


def times_the_others(norms: Mapping[str, float | None]) -> dict[str, float]:
    """By party, its norm over the median of the others'; nothing where there are no others."""
    known = {party: math.inf if norm is None else norm for party, norm in norms.items()}  # JSON has no infinity
    if len(known) < 2:
        return {}
    middle = {party: median(norm for other, norm in known.items() if other != party) for party in known}
    return {party: _times(norm, middle[party]) for party, norm in known.items()}


def _times(norm: float, others: float) -> float:
    if norm == others:
        return 1.0
    return norm / others if others else math.inf


def longest(rows: Iterable[Mapping[str, Any]]) -> dict[str, Longest]:
    """By party, its longest update in these rounds."""
    found: dict[str, Longest] = {}
    for party, one in _each(rows):
        if party not in found or one.times > found[party].times:
            found[party] = one
    return found


def _each(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Longest]]:
    for row in rows:
        for norms in row.get(NORMS, ()):
            for party, times in times_the_others(norms).items():
                yield party, Longest(times, row["round"])
