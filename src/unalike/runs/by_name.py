"""Runs by the beginning of their key or of their folder's name, as people and the shell's Tab write them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from unalike.errors import UserError, nearest


def run_by_name(folders: Iterable[Path], text: str, runs: Path, see: str = "unalike runs list") -> Path:
    """The folder whose name or key begins with ``text`` or is just that; a UserError where none or several do.

    ``folders`` are those of all runs in ``runs``; ``text`` may be a path; ``see`` is the command that lists them.
    """
    wanted, own = Path(text).name, list(folders)
    begins = [path for path in own if any(name.startswith(wanted) for name in _names(path))]
    matches = [path for path in begins if wanted in _names(path)] or begins
    if len(matches) > 1:
        names = ", ".join(path.name for path in matches[:5])
        raise UserError(f"{text!r} begins the name of {len(matches)} runs: {names}. Write more of it.")
    if not matches:
        near = nearest(wanted, [name for path in own for name in _names(path)])
        remedy = f"Did you mean {near!r}?" if near else f"See: {see}"
        raise UserError(f"No run in {runs} has a name that begins with {text!r}. {remedy}")
    return matches[0]


def _names(folder: Path) -> tuple[str, str]:
    return folder.name.rsplit("-", 1)[-1], folder.name
