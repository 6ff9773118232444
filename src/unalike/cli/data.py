"""``unalike data``: look at a data set; of your own table, see the types that were inferred."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unalike.cli import complete
from unalike.cli.freeze import ENDINGS, freeze
from unalike.cli.get import get_files
from unalike.cli.options import AsJson, DataDir, Plugins
from unalike.cli.plugin import load_plugins
from unalike.cli.show import Paragraph, draw, print_json, table
from unalike.errors import UserError
from unalike.runs.files import atomic_write, make_folder

if TYPE_CHECKING:
    from unalike.data import Dataset

_MOST = 20
"""Labels and natural parties up to which each is shown."""


def data(
    dataset: Annotated[
        str,
        typer.Argument(
            metavar="DATASET",
            help='e.g. heart, or "csv:patients.csv(label=outcome)"',
            autocompletion=complete.parts("dataset"),
        ),
    ],
    plugin: Plugins = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR|FILE",
            help="write each natural party's own table there as CSV, or one table to FILE.csv or .parquet",
        ),
    ] = None,
    get: Annotated[
        bool, typer.Option("--get", help="download its public files, check them, and do nothing else")
    ] = False,
    address: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="URL", help="get them from this folder instead [$UNALIKE_MIRROR, else public]"
        ),
    ] = None,
) -> None:
    """Look at a data set: rows, labels, natural parties, and the columns of your own table.

    \b
    Examples:
      unalike data heart
      unalike data mnist --get
      unalike data "csv:patients.csv(label=outcome, party=hospital)"
    """
    from unalike.data import DATASETS, loaded

    load_plugins(plugin)
    loader = DATASETS.build(dataset)
    if get:
        get_files(dataset.partition("(")[0].strip(), address)
        return
    if address is not None:
        raise UserError("--from says where to get files from. Add --get.")
    if export is not None and export.suffix in ENDINGS:
        freeze(loader, dataset, export)
        return
    if export is not None:
        _export(loader, dataset, export)
        return
    columns = [column._asdict() for column in loader.columns()] if hasattr(loader, "columns") else []
    if columns and not as_json:  # before loading, which may refuse a column that is to be seen here
        shown = [name for name in columns[0] if name != "question"]
        rows = [[str(column[name]) for name in shown] for column in columns]
        draw(table(shown, rows, right=["missing", "distinct"]), "")
        _ask(loader, columns)
    found = describe(loaded(loader)) | ({"columns": columns} if columns else {})
    if as_json:
        print_json(found)
    else:
        _print(found)


def _ask(loader: Any, columns: list[dict[str, Any]]) -> None:
    """What the values of features cannot show, and how to say it."""
    other = {getattr(loader, "party", ""), *getattr(loader, "ignore", ())}
    free = [column["column"] for column in columns if column["column"] not in other]
    other.add(getattr(loader, "label", "") or (free or [""])[-1])
    asked = [column["question"] for column in columns if column.get("question") and column["column"] not in other]
    if asked:
        draw(*map(Paragraph, asked), "")


def _export(loader: Any, dataset: str, folder: Path) -> None:
    """One CSV for each natural party, to try a federation of real sites with."""
    from unalike.data import loaded
    from unalike.data.export import party_tables, safe_names

    tables = list(party_tables(loader, loaded(loader), dataset))
    paths = [folder / f"{name}.csv" for name in safe_names([table.name for table in tables])]
    taken = [path for path in paths if path.exists()]
    if taken:
        raise UserError(f"{taken[0]} exists, and nothing is overwritten. Choose another folder.")
    make_folder(folder)
    for path, one in zip(paths, tables, strict=True):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(one.header)
        rows = sum(1 for row in one.rows if writer.writerow(row))
        atomic_write(path, text.getvalue().encode())
        draw(f"{path}: {rows:,} rows")


def describe(data: Dataset) -> dict[str, Any]:
    """What there is to know of a data set, ready for JSON."""
    import numpy as np

    counts = np.bincount(data.labels, minlength=len(data.label_names))
    tests = np.bincount(data.labels_test, minlength=len(data.label_names))
    groups = [] if data.group is None else np.bincount(data.group, minlength=len(data.group_names)).tolist()
    return {
        "name": data.name,
        "task": data.task,
        "rows": data.size,
        "test_rows": len(data.y_test),
        "shape": list(data.shape),
        "type": str(data.x.dtype),
        "kind": data.kind,
        "sparse": data.is_sparse,
        "labels": [
            {"name": name, "rows": int(n), "test_rows": int(t)}
            for name, n, t in zip(data.label_names, counts, tests, strict=True)
        ],
        "natural_parties": [
            {"name": name, "rows": rows} for name, rows in zip(data.group_names, groups, strict=False)
        ],
        "sha256": data.digest,
    }


def _print(found: dict[str, Any]) -> None:
    shape = " x ".join(map(str, found["shape"])) or "1"
    sparse = ", sparse" if found["sparse"] else ""
    tests = f"{found['test_rows']:,}" if found["test_rows"] else "none"
    told = (
        f"{found['name']}: {found['rows']:,} rows to train on and {tests} to test; "
        f"each row {shape} {found['kind']} ({found['type']}{sparse})"
    )
    draw(Paragraph(told), "")
    labels = [[part["name"], f"{part['rows']:,}", f"{part['test_rows']:,}"] for part in found["labels"]]
    label = "label" if found["task"] == "classification" else "target"
    draw(table([label, "rows", "to test"], labels[:_MOST], right=["rows", "to test"]))
    _more(labels, "labels")
    parties = [[part["name"], f"{part['rows']:,}"] for part in found["natural_parties"]]
    if parties:
        draw("", table(["natural party", "rows"], parties[:_MOST], right=["rows"]))
        _more(parties, "parties")
    else:
        draw("", "No natural parties: see unalike list partitions for ways to split it.")


def _more(rows: list[Any], what: str) -> None:
    if len(rows) > _MOST:
        draw(f"and {len(rows) - _MOST:,} {what} more")
