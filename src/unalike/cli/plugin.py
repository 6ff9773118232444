"""``--plugin FILE.py``: a user's own algorithms, data sets, partitions and models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from unalike.errors import UserError
from unalike.own_files import allow_code, load


def load_plugins(paths: Iterable[Path] | None) -> None:
    """Run the files that ``--plugin`` names."""
    for path in paths or ():
        load_plugin(path)


def load_plugin(path: Path) -> None:
    """Run a Python file, which registers its parts by decorator."""
    if not path.is_file():
        raise UserError(f"There is no plugin file {path}. Check the path.")
    allow_code(path)
    load(path, "The plugin ")
