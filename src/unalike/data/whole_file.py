"""Files that get their name when they are whole: neither a stop nor a full disk leaves half of one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from unalike.errors import UserError


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that replaces ``path`` at the end of the block, unless an error ends it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.unalike-tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        with suppress(OSError):  # after success it is gone already
            temporary.unlink()


def cannot_write(path: Path, error: OSError) -> UserError:
    """The error for a file or folder that cannot be written."""
    return UserError(f"Cannot write {path}: {error.strerror or type(error).__name__}. Name another path.")


def new_folder(path: Path) -> None:
    """Make the folder and those above it; one that is there is fine."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from None
