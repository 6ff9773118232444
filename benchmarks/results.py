"""Our numbers beside the papers' in docs/results.md, from the finished runs of a study.

unalike study run niid-table3 --only dataset=adult,dataset=covtype --runs RUNS
python -m benchmarks.results niid-table3 --runs RUNS --only dataset=adult [--page PAGE.md] [--plugin FILE.py]

Writes a table, and the notes of the cells outside, between the page's two comments of that name (the study's, or
``--name``), and all runs as docs/results/NAME.csv. ``--csv`` writes the file alone; ``--keep`` leaves finished
runs of the study in it that are not in the folder.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import ROOT, put, table
from unalike.cli.plugin import load_plugins
from unalike.ranking.comparison import Compared
from unalike.studies.export import Row, csv_bytes, study_keys
from unalike.studies.store import Store
from unalike.studies.study import StudyResults, load_study, parse_only, study_results

PAGE = ROOT / "docs" / "results.md"


def text_of(results: StudyResults, reduced: str = "") -> str:
    """The table and its notes as Markdown; where the setting is ``reduced``, nothing is judged."""
    warning = reduced or results.warning
    found = [cell for cell in results.compared if cell.ours is not None]
    several = _with_several(found)
    rows: dict[tuple[str, str], dict[str, Compared]] = {}
    for cell in found:
        name = cell.algorithm.split("(")[0]
        rows.setdefault((cell.dataset, cell.partition), {})[cell.algorithm if name in several else name] = cell
    names = list(dict.fromkeys(name for cells in rows.values() for name in cells))
    notes: list[str] = []
    lines = [
        [f"{dataset}, `{partition}`", *(_cell(cells.get(name), name, notes, bool(warning)) for name in names)]
        for (dataset, partition), cells in rows.items()
    ]
    judged = [cell.within for cell in results.compared if cell.within is not None]
    said = [f"{sum(judged)} of {len(judged)} numbers are within two of the paper's deviations."] if judged else []
    if warning:
        said = [warning]
    said += [f"- {number}: {note}" for number, note in enumerate(notes, 1)]
    return "\n\n".join([table(["", *names], lines), "\n".join(said)])


def _with_several(cells: Sequence[Compared]) -> set[str]:
    """The algorithms that are there twice in a row, with other parameters: each gets a column of its own."""
    seen = Counter((cell.dataset, cell.partition, cell.algorithm.split("(")[0]) for cell in cells)
    return {name for (_, _, name), count in seen.items() if count > 1}


def _cell(cell: Compared | None, column: str, notes: list[str], reduced: bool) -> str:
    if cell is None or cell.ours is None:
        return "–"
    _, bracket, parameters = cell.algorithm.removeprefix(column).partition("(")
    text = f"**{cell.ours}**" + (f" ({parameters}" if bracket else "")
    if cell.paper is not None:
        text += f"<br>{cell.paper}"
        if not reduced:
            text += " ✓" if cell.within else " ✗"
    if cell.note and cell.within is False and not reduced:
        if cell.note not in notes:
            notes.append(cell.note)
        text += f" [{notes.index(cell.note) + 1}]"
    return text


def kept(file: Path, rows: Sequence[Row], keys: set[str]) -> list[Row]:
    """Finished runs of a study that the file has and ``rows`` have not."""
    if not file.exists():
        return []
    found = {row["key"] for row in rows if row.get("state") == "finished"}
    with file.open(encoding="utf-8", newline="") as text:
        return [
            row
            for row in csv.DictReader(text)
            if row["state"] == "finished" and row["key"] in keys and row["key"] not in found
        ]


def main() -> None:
    """Write one study's part of the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("study")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--name", default="")
    parser.add_argument(
        "--reduced", default="", help="in what the setting is less than the paper's: nothing is judged"
    )
    parser.add_argument("--csv", action="store_true", help="the file alone")
    parser.add_argument("--keep", action="store_true", help="keep finished runs of the file that are not there")
    parser.add_argument("--page", default=PAGE.name, help="the page in docs/ that has a place for it")
    parser.add_argument("--plugin", type=Path, action="append", default=[])
    given = parser.parse_args()
    load_plugins(given.plugin)
    study, only, name = load_study(given.study), parse_only(given.only), given.name or Path(given.study).stem
    results = study_results(study, given.runs, given.scale, only)
    if not given.csv:
        put(PAGE.parent / given.page, name, text_of(results, given.reduced))
    file = PAGE.parent / "results" / f"{name}.csv"
    file.parent.mkdir(exist_ok=True)
    keys = study_keys(study, given.runs, given.scale, only)
    with Store(given.runs) as store:
        store.sync()
        rows = [row for row in store.rows() if row.get("key") in keys]
        file.write_bytes(csv_bytes([*rows, *(kept(file, rows, keys) if given.keep else [])]))
    print(f"{results.done} of {results.total} runs; {file.relative_to(ROOT)}, docs/{given.page}")


if __name__ == "__main__":
    main()
