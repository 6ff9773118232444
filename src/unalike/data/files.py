"""What every table is checked for: that it is a file, has rows, and columns with names of their own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from unalike.data.numerals import number
from unalike.errors import UserError

_DELIMITERS = {";": "semicolon", "\t": "tab", "|": "bar", ",": "comma"}


def check_file(path: Path) -> None:
    """Refuse a folder, and what has no end or can be read once only: a device, a pipe."""
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a device or a pipe"
        raise UserError(f"{path} is {what}, not a file. Save the table in a file, and name that.")


def unreadable(path: Path, error: Exception) -> UserError:
    """The error for a table that cannot be read."""
    if not path.exists():
        return UserError(f"There is no file {path}. Check the path; it starts at the working directory.")
    reason = " ".join(str(error).split())[:200].rstrip(".")
    return UserError(f"Cannot read {path}: {reason}. Is it a table of that format?")


def one_column(name: str) -> UserError:
    """The error for a table of one column: nothing to learn from, or several columns with another delimiter."""
    likely = next((word for sign, word in _DELIMITERS.items() if sign in name), "semicolon")
    return UserError(
        f"The table has one column only, {name[:60]!r}. It needs features and a label, with commas between "
        f"them; or say what is between them: delimiter={likely}."
    )


def check_size(path: Path, rows: int) -> None:
    """Refuse a table without rows."""
    if rows == 0:
        raise UserError(f"{path} has column names but no rows. Add rows.")


def check_names(path: Path, names: list[str]) -> None:
    """Refuse a table whose columns have no names, or not names of their own."""
    if all(number(name) is not None for name in names):
        raise UserError(f"{path} has no column names: its first line is numbers. Add a line of names.")
    if "" in names:
        raise UserError(f"{path}: column {names.index('') + 1} has no name. Name every column.")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"{path} has the column {twice[0]!r} twice; is its first line not the names? Rename one.")
