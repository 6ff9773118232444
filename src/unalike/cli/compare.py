"""Several runs side by side: what differs between them, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from unalike.cli.brief import brief
from unalike.cli.show import MISSING, Paragraph, draw, duration, percent, size, table
from unalike.cli.store import StoredRun
from unalike.cli.table import Table

SAME_FOR_A_FAIR_COMPARISON = ("dataset", "partition", "parties", "rounds", "seed")
_TOLD = (*SAME_FOR_A_FAIR_COMPARISON, "algorithm", "model", "epochs", "steps", "lr", "channel")
"""What is told where it is the same in all runs."""
_COLUMNS_UP_TO = 4
"""More runs than this are the table's rows, not its columns."""
_SPARE = ("sent down", "sent up", "time", "accuracy, selected", "rounds played")
"""Figures that a narrow screen can do without, the least important first."""

Comparison = dict[str, Any]


def comparison(runs: Sequence[StoredRun]) -> Comparison:
    """All that is compared, ready for JSON.

    ``target`` is the lowest of the final accuracies in whole percent: every run reaches it, the question
    is when.
    """
    names = dict.fromkeys(name for run in runs for name in run.spec)  # in the order of the spec
    differing = [name for name in names if len({repr(run.spec.get(name)) for run in runs}) > 1]
    finals = [run.figures.get("accuracy") for run in runs]
    known = [value for value in finals if value is not None]
    target = math.floor(100 * min(known)) / 100 if len(known) == len(runs) else None
    return {
        "runs": [_one(run, differing, target) for run in runs],
        "differing": differing,
        "common": {name: runs[0].spec.get(name) for name in names if name not in differing},
        "target": target,
        "not_comparable": [name for name in differing if name in SAME_FOR_A_FAIR_COMPARISON],
    }


def _one(run: StoredRun, differing: Sequence[str], target: float | None) -> dict[str, Any]:
    selected = run.figures.get("selected") or {}
    reached = (number for number, value in run.curve if target is not None and value >= target)
    return {
        "key": run.key,
        "run_dir": str(run.path),
        "state": run.state,
        "differing": {name: run.spec.get(name) for name in differing},
        "rounds": run.rounds_done,
        "accuracy": run.figures.get("accuracy"),
        "selected_accuracy": selected.get("accuracy"),
        "worst_party": run.worst_party(),
        "bytes_up": int(run.total("bytes_up")),
        "bytes_down": int(run.total("bytes_down")),
        "seconds": run.total("seconds"),
        "rounds_to_target": next(reached, None),
    }


def print_comparison(compared: Comparison) -> None:
    """What is the same in all runs in a sentence, and what differs with the figures as a table."""
    runs, target = compared["runs"], compared["target"]
    common = [f"{name} {brief(name, compared['common'][name])}" for name in _TOLD if name in compared["common"]]
    if common and len(runs) > 1:
        draw(Paragraph(f"All: {', '.join(common)}."), "")
    labels = [
        "run",
        *compared["differing"],
        "rounds played",
        "accuracy, final",
        "accuracy, selected",
        "worst party",
        "sent up",
        "sent down",
        "time",
        *([] if target is None else [f"rounds to {100 * target:.0f}%"]),
    ]
    cells = [_cells(run, target is not None) for run in runs]
    rows = _as_rows(labels, cells, compared["differing"])
    if len(runs) > _COLUMNS_UP_TO:
        draw(rows)
    else:
        heading, *lines = zip(labels, *cells, strict=True)
        draw(table(heading, lines, narrow=rows))


def _as_rows(labels: Sequence[str], cells: Sequence[Sequence[str]], differing: Sequence[str]) -> Table:
    """A line for each run. Of the settings, those of a fair comparison and the algorithm stay the longest."""
    kept = (*SAME_FOR_A_FAIR_COMPARISON, "algorithm")
    settings = [name for name in reversed(differing) if name not in kept]
    figures = labels[1 + len(differing) :]
    spare = (*_SPARE, *settings, *figures[7:], "worst party")
    return table(labels, cells, right=figures, text=("partition",), spare=spare)


def _cells(run: dict[str, Any], target: bool) -> list[str]:
    reached = run["rounds_to_target"]
    state = "" if run["state"] == "finished" else f" ({run['state']})"
    return [
        run["key"][:8],
        *(MISSING if value is None else brief(name, value) for name, value in run["differing"].items()),
        f"{run['rounds']}{state}",
        percent(run["accuracy"]),
        percent(run["selected_accuracy"]),
        percent(run["worst_party"]),
        size(run["bytes_up"]),
        size(run["bytes_down"]),
        duration(run["seconds"]),
        *([(MISSING if reached is None else str(reached))] if target else []),
    ]
