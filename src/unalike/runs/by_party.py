"""How single parties fare in the runs of a line: on their own rows, the worst of them, and newcomers.

Each under the model that it would use: its own where the algorithm gives it one, else the global one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from unalike.runs.results import Line, Record
from unalike.runs.scales import Spread, spread
from unalike.scores import key_of

_OWN, _NEW = ("personal", "parties"), ("newcomers",)
_OWN_LABELS, _NEW_LABELS = ("personal_by_labels", "parties_by_labels"), ("newcomers_by_labels",)
_TENTH = "worst_10_percent"
FIGURES: Mapping[str, tuple[Sequence[str], str]] = {
    "own rows": (_OWN, "mean"),
    "worst tenth": (_OWN, _TENTH),
    "newcomers": (_NEW, "mean"),
    "own labels": (_OWN_LABELS, "mean"),
    "worst tenth, own labels": (_OWN_LABELS, _TENTH),
    "newcomers, own labels": (_NEW_LABELS, "mean"),
    "own model, all test rows": (("personal_global",), "mean"),
}
"""By a table's heading, the summaries of which the first that a record has counts, and its figure."""


def over_parties(line: Line, heading: str, last: int = 1) -> Spread | None:
    """One of ``FIGURES`` over the finished seeds, as it is told; a mean over so many rounds at the end."""
    summaries, name = FIGURES[heading]
    return figure(line, summaries, name, last)


def figure(line: Line, summaries: Sequence[str], name: str, last: int = 1) -> Spread | None:
    """A figure of the first of these summaries that there is, over the finished seeds."""

    def of(figures: Mapping[str, Any]) -> Any:
        return next((figures[key].get(name) for key in summaries if figures.get(key)), None)

    told = ([line.scale.told(of(each)) for each in ending(record, last)] for record in line.finished)
    known = ([value for value in values if value is not None] for values in told)
    return spread(fmean(values) for values in known if values)


def on_test_set(line: Line, last: int = 1) -> Spread | None:
    """The global model's score on the test set over the finished seeds, as it is told."""
    told = ([line.scale.of(each) for each in ending(record, last)] for record in line.finished)
    known = ([value for value in values if value is not None] for values in told)
    return spread(fmean(values) for values in known if values)


def ending(record: Record, last: int) -> Sequence[Mapping[str, Any]]:
    """The figures of the last so many rounds that were evaluated; of one round, the result itself."""
    if last == 1:
        return [record.figures]
    return [row for row in record.rounds if key_of(record.score) in row][-last:]


def is_personal(line: Line) -> bool:
    """Whether parties have models of their own in it, or newcomers are reported."""
    return any(record.figures.get(key) for record in line.finished for key in ("personal", "newcomers"))
