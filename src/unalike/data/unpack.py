"""Packed files, unpacked only as far as what is expected in them can need.

A packed file of a few megabytes can unpack to gigabytes. So whoever reads one says how many bytes its content can
have at most, from the size of the data set; reading stops at that point with a line that names the file.
"""

from __future__ import annotations

import bz2
import gzip
import io
import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from unalike.data.dataset import Array
from unalike.errors import UserError

AGAIN = "Download it again."
NPY_HEADER = 1024  # bytes that an array's header in an npz file may have; numpy writes 128
_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open}


class Bounded(io.RawIOBase):
    """A stream that gives at most ``most`` bytes of another one, and a UserError where that one has more."""

    def __init__(self, stream: Any, most: int, path: Path) -> None:
        self._stream, self._most, self._left, self._path = stream, most, most, path

    def readable(self) -> bool:
        """Yes: this is what a buffer around it asks first."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as the other stream goes."""
        found = self._stream.read(min(len(buffer), self._left or 1))
        if found and not self._left:
            raise too_much(self._path, self._most, AGAIN)
        self._left -= len(found)
        buffer[: len(found)] = found
        return len(found)


def too_much(place: Path | str, most: int, remedy: str) -> UserError:
    """The error for a file that unpacks to more than it can need."""
    return UserError(f"{place} holds more than {most:,} bytes (unpacked), more than it can need. {remedy}")


@contextmanager
def unpacked(path: Path, most: int) -> Iterator[io.BufferedReader]:
    """The content of a file, at most ``most`` bytes of it; unpacked on reading if gzip or bzip2 packed it.

    The first bytes of the file tell whether it is packed, not its name. A damaged file is a UserError as well.
    """
    try:
        with path.open("rb") as file:
            opener = _OPENERS.get(file.read(2))
            file.seek(0)
            yield io.BufferedReader(Bounded(opener(file) if opener else file, most, path))
    except (OSError, EOFError, zlib.error) as error:  # a folder, no permission, cut short, damaged
        raise UserError(f"Cannot read {path}: {error}. {AGAIN}") from None


def read_member(archive: zipfile.ZipFile, name: str, most: int, path: Path, remedy: str) -> bytes:
    """The content of one file in a zip archive; a UserError if it has more than ``most`` bytes.

    Only the two ways of packing that numpy uses are read: Python unpacks the others without any bound.
    """
    info = archive.getinfo(name)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UserError(f"{path}: {name} is packed by method {info.compress_type}, not by deflate. {remedy}")
    with archive.open(info) as member:
        content = member.read(most + 1)
    if len(content) > most:
        raise too_much(f"{path}: {name}", most, remedy)
    return content


def read_npy(content: bytes) -> Array:
    """The array in the bytes of an npy file; a ValueError where its header does not fit them.

    The array is made of these bytes, so a header that claims a huge shape cannot ask for memory.
    """
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise ValueError(f"npy version {version}")
    try:
        shape, by_column, kind = read_header[version](stream)
    except (
        SyntaxError,
        TokenError,
        TypeError,
    ) as error:  # not all that numpy's reader meets it makes a ValueError
        raise ValueError(f"header: {error}") from None
    if any(type(length) is not int or length < 0 for length in shape):
        raise ValueError(f"shape {shape}")
    if kind.hasobject or math.prod(shape) * kind.itemsize != len(content) - stream.tell():
        raise ValueError(f"{kind} of {shape}")
    values: Array = np.frombuffer(content, kind, offset=stream.tell())
    return values.reshape(shape, order="F" if by_column else "C")
