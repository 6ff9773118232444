"""Several runs side by side: what differs between them, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unalike.cli.brief import brief
from unalike.cli.show import MISSING, Paragraph, draw, duration, size, table
from unalike.cli.store import StoredRun
from unalike.cli.table import Table
from unalike.runs.differences import SAME_FOR_A_FAIR_COMPARISON, differences
from unalike.runs.scales import scale_of
from unalike.scores import key_of, shown

_TOLD = (*SAME_FOR_A_FAIR_COMPARISON, "algorithm", "model", "epochs", "steps", "lr", "channel")
"""What is told where it is the same in all runs."""
_COLUMNS_UP_TO = 4
"""More runs than this are the table's rows, not its columns."""
_SPARE = ("sent down", "sent up", "time", "selected", "rounds played")
"""Figures that a narrow screen can do without, the least important first."""

Comparison = dict[str, Any]


def comparison(runs: Sequence[StoredRun]) -> Comparison:
    """All that is compared, ready for JSON.

    ``target`` is the worst of the final scores, rounded to a worse one: every run reaches it, the question is
    when. There is none where runs go by different scores.
    """
    specs = [{**run.spec, "score": run.score} for run in runs]
    differing, common = differences(specs)
    target = None if "score" in differing else _target(runs)
    return {
        "runs": [_one(run, spec, differing, target) for run, spec in zip(runs, specs, strict=True)],
        "differing": differing,
        "common": common,
        "target": target,
        "not_comparable": [name for name in differing if name in SAME_FOR_A_FAIR_COMPARISON],
    }


def _target(runs: Sequence[StoredRun]) -> float | None:
    scale = scale_of(runs[0].score)
    known = [scale.factor * run.value for run in runs if run.value is not None]
    return scale.easier(min(known, key=scale.goodness)) / scale.factor if len(known) == len(runs) else None


def _one(
    run: StoredRun, spec: Mapping[str, Any], differing: Sequence[str], target: float | None
) -> dict[str, Any]:
    selected, scale = run.figures.get("selected") or {}, scale_of(run.score)
    reached = (number for number, value in run.curve if target is not None and scale.reaches(value, target))
    return {
        "key": run.key,
        "run_dir": str(run.path),
        "state": run.state,
        "differing": {name: spec.get(name) for name in differing},
        "rounds": run.rounds_done,
        "score": run.score,
        "value": run.value,
        "selected_value": selected.get(key_of(run.score)),
        "mean_party": run.mean_party(),
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
    score = str(compared["common"].get("score", ""))  # none where they differ
    labels = [
        "run",
        *compared["differing"],
        "rounds played",
        f"{score or 'score'}, final",
        "selected",
        "parties' mean",
        "worst party",
        "sent up",
        "sent down",
        "time",
        *([] if target is None else [f"rounds to {scale_of(score).short(scale_of(score).factor * target)}"]),
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
    spare = (*_SPARE, *settings, *figures[8:], "worst party")
    return table(labels, cells, right=figures, text=("partition",), spare=spare)


def _cells(run: dict[str, Any], target: bool) -> list[str]:
    reached = run["rounds_to_target"]
    state = "" if run["state"] == "finished" else f" ({run['state']})"
    return [
        run["key"][:8],
        *(MISSING if value is None else brief(name, value) for name, value in run["differing"].items()),
        f"{run['rounds']}{state}",
        *(shown(run["score"], run[name]) for name in ("value", "selected_value", "mean_party", "worst_party")),
        size(run["bytes_up"]),
        size(run["bytes_down"]),
        duration(run["seconds"]),
        *([(MISSING if reached is None else str(reached))] if target else []),
    ]
