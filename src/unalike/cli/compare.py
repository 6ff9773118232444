"""Several runs side by side: what differs between them, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from unalike.cli.show import MISSING, draw, duration, percent, size, table
from unalike.cli.store import StoredRun

SAME_FOR_A_FAIR_COMPARISON = ("dataset", "partition", "parties", "seed")
_COLUMNS_UP_TO = 4
"""More runs than this are the table's rows, not its columns."""

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
    """The comparison as a table."""
    target = compared["target"]
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
    columns = [_cells(run, target is not None) for run in compared["runs"]]
    if len(columns) > _COLUMNS_UP_TO:
        draw(table(labels, columns))
    else:
        rows = list(zip(labels, *columns, strict=True))
        draw(table(rows[0], rows[1:]))


def _cells(run: dict[str, Any], target: bool) -> list[str]:
    reached = run["rounds_to_target"]
    state = "" if run["state"] == "finished" else f" ({run['state']})"
    return [
        run["key"][:8],
        *(MISSING if value is None else str(value) for value in run["differing"].values()),
        f"{run['rounds']}{state}",
        percent(run["accuracy"]),
        percent(run["selected_accuracy"]),
        percent(run["worst_party"]),
        size(run["bytes_up"]),
        size(run["bytes_down"]),
        duration(run["seconds"]),
        *([(MISSING if reached is None else str(reached))] if target else []),
    ]
