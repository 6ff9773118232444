"""The folder of a run on its way between hosts that share none: whole files, those last that need the others."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from unalike.errors import UserError
from unalike.runs.files import atomic_write, make_folder, read_bytes
from unalike.runs.record import RESULT, ROUNDS, SPEC

Packed = dict[str, bytes]
"""Files by their names in the folder."""
_OWN = ("lock", "lease-", ".")
"""How names begin of what belongs to the process in a folder, or is half written."""
_FIRST = (SPEC, ROUNDS)


def packed(folder: Path, known: dict[str, tuple[int, int]] | None = None) -> tuple[Packed, list[str]]:
    """The files that are new or were changed, and the names of all that are there.

    ``known`` is what earlier calls sent, and is brought up to date. For who writes to it, between two writes.
    """
    known = {} if known is None else known
    changed, names = {}, []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or any(part.startswith(_OWN) for part in PurePosixPath(name).parts):
            continue
        found = path.stat()
        stamp = (found.st_mtime_ns, found.st_size)
        names.append(name)
        if known.get(name) != stamp:
            changed[name] = read_bytes(path) or b""
            known[name] = stamp
    return changed, names


def _order(name: str) -> tuple[bool, bool, bool, str]:
    """What others need comes first: the result vouches for all, a checkpoint for all but the result."""
    return name == RESULT, name.startswith("checkpoint-"), name not in _FIRST, name


def unpack(folder: Path, files: Packed, names: list[str]) -> None:
    """Write the files so that the folder is one that a killed process could have left, whenever this is ended.

    Rounds come before checkpoints, which must never be ahead of them, and the result, which vouches for all, last.
    What is not in ``names`` any more is removed, but for what belongs to processes here.
    """
    for name in {*names, *files}:
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts or "\\" in name:
            raise UserError(f"A host sent a file {name!r}, which is not in the run's folder. Is it your cluster?")
    make_folder(folder)
    for name in sorted(files, key=_order):
        path = folder / name
        if path.parent != folder:
            make_folder(path.parent)
        atomic_write(path, files[name])
    present = set(packed(folder)[1])
    for name in present - set(names):
        (folder / name).unlink(missing_ok=True)
