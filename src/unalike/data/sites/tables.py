"""The tables of several sites in one folder, a file for each: to rehearse what real sites do in many places."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from unalike.data.folder import NotFound
from unalike.errors import UserError


def tables_in(folder: str, name: str) -> dict[str, Path]:
    """The CSV or Parquet file of every site, by the site's name; ``name`` is the data set's."""
    found = [path for path in sorted(Path(folder).expanduser().glob("*")) if path.suffix in (".csv", ".parquet")]
    if not folder or not found:
        raise NotFound(f"There are no tables in {folder or 'no folder'}: {name}:FOLDER needs one for every site.")
    names = {path.stem: path for path in found}
    if len(names) < len(found):
        raise UserError(f"Two tables in {folder} have the same name. Keep one file for each site.")
    return names


def hashed_tables(files: Iterable[Path], more: Iterable[bytes] = ()) -> str:
    """The SHA-256 of the contents of these files, and of more digests after them."""
    try:
        each = [hashlib.sha256(path.read_bytes()).digest() for path in files]
    except OSError as error:
        raise NotFound(f"Cannot read {error.filename}: {error.strerror}. Check the path.") from None
    return hashlib.sha256(b"".join([*each, *more])).hexdigest()
