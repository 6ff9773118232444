"""Public rows: a table that every side of a federation has, beside its plan, which names it by its SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import Path

from unalike.data.columns import Column
from unalike.data.table import read_table
from unalike.errors import UserError
from unalike.runs.files import atomic_write

TABLE = "public.csv"
"""The public table, in the server's folder and in every invitation."""


def digest_of_table(path: Path) -> str:
    """SHA-256 of a table's bytes."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"Cannot read the public table {path}: {error.strerror}. Check the path.") from None


def check_table(path: Path, label: str) -> str:
    """The SHA-256 of a table that is to be public, if it can be: a CSV file with the label and other columns."""
    if path.suffix != ".csv":
        raise UserError(f"The public table must be a CSV file whose name ends in .csv, got {path}.")
    digest, names = digest_of_table(path), [column.name for column in read_table(str(path))]
    if label not in names:
        raise UserError(f"The public table {path} has no column {label!r}, which the sites predict. Add it.")
    return digest


def hand_out(table: Path, folder: Path) -> None:
    """Put a copy of the public table into a folder that is a server's or becomes a site's."""
    atomic_write(folder / TABLE, table.read_bytes())


def public_table(folder: Path, digest: str) -> list[Column] | None:
    """The public table in a folder, if the plan there has one and it is this; None where the plan has none."""
    if not digest:
        return None
    path = folder / TABLE
    found = digest_of_table(path)
    if found != digest:
        raise UserError(
            f"{path} is not the public table of the plan: its SHA-256 begins with {found[:12]}, the plan's with "
            f"{digest[:12]}. Use the file that came with the plan."
        )
    return read_table(str(path))
