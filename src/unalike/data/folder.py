"""Where downloaded data sets are looked for, and what is said when one is not there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import platformdirs

from unalike.errors import UserError

VARIABLE = "UNALIKE_DATA"


class NotFound(UserError):
    """A download is not in the data folder."""


def data_folder() -> Path:
    """The folder in ``UNALIKE_DATA`` (``--data-dir`` sets it), else the user's cache folder."""
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else platformdirs.user_cache_path("unalike")


def find(name: str, candidates: Iterable[str], how: str, elsewhere: Iterable[Path] = ()) -> Path:
    """The first of ``candidates`` (files or folders) that is in the data folder, or else of ``elsewhere``.

    ``how`` says in words where the public download is: it is what a user reads who does not have the file.
    """
    folder = data_folder()
    names = list(candidates)
    for path in (*(folder / candidate for candidate in names), *elsewhere):
        if path.exists():
            return path
    raise NotFound(f"{name} is not in {folder} (looked for {', '.join(names)}). {how} Or name another --data-dir.")


def or_get(name: str, by_hand: str) -> str:
    """What a user reads who does not have files that ``unalike data NAME --get`` can get."""
    return f"Run: unalike data {name} --get. Or: {by_hand}"


def check_digest(path: Path, content: bytes | bytearray, digest: str) -> None:
    """Refuse content whose MD5 or SHA-256 (told by its length) is not the canonical one."""
    algorithm = hashlib.md5 if len(digest) == 32 else hashlib.sha256
    found = algorithm(content, usedforsecurity=False).hexdigest()
    if found != digest:
        raise UserError(
            f"{path} is not the public file: its checksum is {found}, not {digest}. Download it again."
        )


def hashed_files(folder: Path, files: Iterable[Path]) -> str:
    """The SHA-256 of the names below the folder and of the contents of these files."""
    try:
        stats = [(path.relative_to(folder), path.stat()) for path in files]
        return _hashed(folder, tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats))
    except OSError as error:
        raise NotFound(f"Cannot read {error.filename}: {error.strerror}. Check the path.") from None


@lru_cache(maxsize=8)
def _hashed(folder: Path, files: tuple[tuple[Path, int, int], ...]) -> str:
    """Of files that by their sizes and times were hashed before, that hash: a study asks many times."""
    sha = hashlib.sha256()
    for name, _, _ in files:
        with (folder / name).open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        sha.update(f"{name.as_posix()}\0{content}\n".encode(errors="surrogateescape"))
    return sha.hexdigest()
