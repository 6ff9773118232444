"""What sites tell of how well a model does on their own rows: sums and histograms, never a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from unalike.algorithms.contract import Vectors
from unalike.data.sites.description import MOST_ROWS
from unalike.federation.envelope import Envelope, Refused
from unalike.rounds.evaluation import chosen_scores
from unalike.scores import Score, figures_of
from unalike.tallies import Tally, check_tally, pooled

SETS = ("test", "validation", "held_out", "personal validation", "personal held_out")
"""The rows of a site that are told of."""


def told_scores(chosen: Score, rows: str, *, last: bool) -> list[Score]:
    """The scores that a site tells the sums of: all on its test rows after the last round, else the cheap ones.

    Both sides work it out by themselves: a server cannot ask for more.
    """
    return chosen_scores(chosen, everything=last and rows == "test")


def parts_of(scores: Iterable[Score]) -> list[str]:
    """The parts of a tally that these scores need."""
    return list(dict.fromkeys(part for score in scores for part in score.needs))


def packed(tallies: Mapping[str, Tally]) -> Vectors:
    """The tallies as arrays for a message."""
    return {f"{rows}/{part}": torch.from_numpy(v) for rows, one in tallies.items() for part, v in one.items()}


def checked_tallies(message: Envelope, chosen: Score, classes: int, *, last: bool) -> dict[str, Tally]:
    """The tallies in a message, if they can be that: of the agreed parts, whole, and of rows that there can be."""
    found: dict[str, Tally] = {}
    for name, value in message.vectors().items():
        rows, _, part = name.partition("/")
        found.setdefault(rows, {})[part] = value.double().numpy()
    for rows, tally in found.items():
        if rows not in SETS:
            raise Refused(f"they are of {rows[:40]!r} rows, which nobody asked for")
        wanted = {"rows", "loss", *parts_of(told_scores(chosen, rows, last=last))}
        if tally.keys() != wanted:
            raise Refused(f"they have {', '.join(sorted(tally))[:80]}, not {', '.join(sorted(wanted))}")
        try:
            check_tally(tally, classes)
        except ValueError as error:
            raise Refused(f"of its {rows} rows, {error}") from None
        if tally["rows"] > MOST_ROWS:
            raise Refused(f"they are of {float(tally['rows']):g} rows; at most {MOST_ROWS:,} are possible")
    return found


def together(sites: Mapping[str, Mapping[str, Tally]], rows: str, scores: Iterable[Score]) -> dict[str, Any]:
    """Mean loss and scores over all rows of all sites that told of them."""
    tally = pooled(one[rows] for one in sites.values() if rows in one)
    loss = float(tally["loss"] / tally["rows"]) if tally and tally["rows"] else None
    return {"loss": loss, **figures_of(scores, tally)}
