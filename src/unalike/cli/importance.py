"""``unalike runs importance``: which columns the trees of a run go by, as a table and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unalike.cli.options import check_output
from unalike.cli.show import draw, print_json, table

if TYPE_CHECKING:
    from unalike.cli.store import StoredRun
    from unalike.runs.model_file import Which

_PICTURES = (".svg", ".png", ".pdf")
_MOST = 30
"""Columns that the table shows; a picture and JSON have more."""


def show_importance(run: StoredRun, output: Path | None, which: Which, party: str | None, as_json: bool) -> None:
    """Print the columns by what they gain, and draw them where that is asked for."""
    from unalike.runs.deploy import load

    if output is not None:
        check_output(output, ("-o", *_PICTURES))
    result = load(run.path)
    found = result.importance(which, party)
    if output is not None:
        from unalike.report.figures import save
        from unalike.report.importance_picture import importance_picture

        record = result.record
        about = f"{record.algorithm} on {record.dataset}, {record.partition}, seed {record.seed}"
        picture = importance_picture(found, about if party is None else f"{about}, party {party}")
        save(picture, output.with_suffix(""), (output.suffix.lower().removeprefix("."),))
    rows = found.rows
    if as_json:
        print_json({"importance": rows})
        return
    lines = [
        [row["column"], f"{row['share']:.1%}", f"{row['gain']:.4g}", f"{row['cover']:.4g}", f"{row['splits']:,}"]
        for row in rows[:_MOST]
    ]
    head = ["column", "share", "gain", "cover", "splits"]
    draw(table(head, lines, right=head[1:], text=["column"]))
    if len(rows) > _MOST:
        draw(f"... and {len(rows) - _MOST} columns with less")
    draw(*([f"\n{output}"] if output is not None else []))
