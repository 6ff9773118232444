"""CPU time and bytes of matching people: the site that asks, and one that answers; every matching is checked.

python -m benchmarks.matching                     # two to five minutes; with --write, into docs/performance.md
python -m benchmarks.matching --quick             # a try with little work
"""

from __future__ import annotations

import os
import time
from statistics import median
from typing import NamedTuple
from unittest.mock import patch

from benchmarks.report import made, options, publish, table
from unalike.secure.crypto import curve
from unalike.secure.matching import Matcher

TARGETS = {10_000: 1.0, 100_000: 10.0}
"""CPU seconds that one side of two may take."""


class Cost(NamedTuple):
    """CPU seconds and megabytes of one matching."""

    asking: float
    answering: float
    asked: float
    answered: float


def matched(ids: int, sites: int, session: bytes) -> Cost:
    """One matching of sites, each of which knows half as many people as it brings together with the next."""
    step, clock = ids // (2 * (sites - 1)), time.process_time
    lists = [[f"person {n}".encode() for n in range(k * step, k * step + ids)] for k in range(sites)]
    parties = [Matcher(session, k, own, bytes([k]) * 32) for k, own in enumerate(lists)]
    others = range(1, sites)
    since = clock()
    asked = parties[0].ask()
    asking, since = clock() - since, clock()
    keys = {k: {j: bytes([j ^ k, j + k]) * 16 for j in others if j != k} for k in others}
    answers = {k: parties[k].answer(0, asked, keys[k]) for k in others}
    answering, since = clock() - since, clock()
    rows, mail = parties[0].common(answers)
    asking, since = asking + clock() - since, clock()
    found = [parties[k].read(0, mail[k]) for k in others]
    answering = (answering + clock() - since) / (sites - 1)
    common = len(set.intersection(*map(set, lists)))
    assert [len(one) for one in (rows, *found)] == [common] * sites
    points, hints = answers[1]
    return Cost(asking, answering, len(asked) / 1e6, (len(points) + hints.words.nbytes) / 1e6)


def line(ids: int, sites: int, repeats: int, *, plain: bool = False) -> list[str]:
    """A line of the table: medians of some matchings, with Jacobi symbols by Python where ``plain``."""
    with patch.object(curve, "quickest_jacobi", lambda: curve.jacobi) if plain else patch.dict({}):
        each = [matched(ids, sites, b"benchmark %d" % n) for n in range(repeats)]
    asking, answering = (median(cost[place] for cost in each) for place in (0, 1))
    target = TARGETS.get(ids) if sites == 2 and not plain else None
    told = "" if target is None else f" ({target:g})"
    how = ", without gmpy2" if plain else ""
    sizes = [f"{each[0].asked:.2f}", f"{each[0].answered:.2f}"]
    return [f"{ids:,} ids, {sites} sites{how}", f"{asking:.2f}{told}", f"{answering:.2f}{told}", *sizes]


def main() -> None:
    """Measure, print, and write."""
    given = options(__doc__, repeats=3).parse_args()
    load = os.getloadavg()[0]
    small, large = (500, 1000) if given.quick else (10_000, 100_000)
    rows = [
        line(small, 2, given.repeats),
        line(small, 2, given.repeats, plain=True),
        line(small, 3, given.repeats),
        line(large, 2, 1),
    ]
    head = ["CPU seconds of one core", "the site that asks", "one that answers", "MB asked", "MB answered"]
    told = (
        "Steps of both sides in one process, medians (of the largest, one turn); targets in brackets. Megabytes "
        "are those that one site that answers gets and sends; all results are checked."
    )
    publish("matching", "\n\n".join([f"{made()} Load before: {load:.1f}.", told, table(head, rows)]), given)


if __name__ == "__main__":
    main()
