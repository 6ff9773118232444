"""``unalike data TABLE --export FILE``: a table as it is now, in a file that stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unalike.cli.options import check_output
from unalike.cli.show import draw
from unalike.errors import UserError
from unalike.runs.files import atomic_write

ENDINGS = (".csv", ".parquet")
_OWN = ("path", "delimiter", "encoding")
"""Parameters that say how a file is read: those of the table are not those of the file that is written."""


def freeze(loader: Any, dataset: str, path: Path) -> None:
    """Write the columns that can be used to a new file, and say how to read it in place of the table."""
    from unalike.data.freeze import FREEZE

    if not hasattr(loader, "table"):
        raise UserError(f"{dataset} is not one table, which {path.suffix} files hold. Name a folder to export to.")
    check_output(path, ("--export", path.suffix))
    if path.exists():
        raise UserError(f"{path} exists, and nothing is overwritten. Choose another name, or remove it.")
    columns = loader.table()
    usable = [column for column in columns if not column.unusable]
    if not usable:
        raise UserError(f"{dataset} has no column that can be used. Select others.")
    atomic_write(path, FREEZE[path.suffix](usable))
    draw(f"{path}: {usable[0].rows:,} rows, {len(usable)} columns")
    kind = path.suffix[1:]
    draw(f"In place of the table:  {kind}:{path}{_options(loader, kind, {column.name for column in usable})}")


def _options(loader: Any, kind: str, names: set[str]) -> str:
    """The parameters that mean the same for the file; columns that it does not have need not be ignored."""
    from unalike.data import DATASETS
    from unalike.part_text import show

    given = []
    for field in DATASETS.entry(kind).parameters:
        value: Any = getattr(loader, field.name, field.default)
        if field.name == "ignore":
            value = tuple(name for name in value if name in names)
        if field.name not in _OWN and value != field.default:
            given.append(f"{field.name}={show(value)}")
    return f"({', '.join(given)})" if given else ""
