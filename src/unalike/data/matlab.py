"""Arrays of numbers in a MATLAB 5 file, unpacked no further than the reader expects.

scipy's ``loadmat`` believes the sizes that stand in a file, and makes room for them. This reader knows the one
thing that is needed, arrays of numbers, and stops at a number of bytes that its caller gives.
(MathWorks, "MAT-File Format", level 5: a file is a header and elements; an element is a tag and data.)
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from unalike.data.dataset import Array
from unalike.data.unpack import AGAIN, too_much
from unalike.errors import UserError

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15  # types of elements
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = range(6, 16)  # of matrices: those of numbers; others are cells, structures, texts, sparse ones
_COMPLEX = 0x0800
_LONGEST = 128  # bytes of an array's name or of its lengths


class _Damaged(Exception):
    """The file's elements make no sense; the text says what was wrong."""


class _Inflated:
    """What a zlib stream of ``size`` bytes in a file unpacks to, as far as it is asked for."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left, self._zlib = file, size, zlib.decompressobj()

    def read(self, count: int) -> bytearray:
        """The next ``count`` bytes, or as many as there are."""
        made = bytearray()
        while len(made) < count and not self._zlib.eof:
            packed = self._zlib.unconsumed_tail
            if not packed:
                packed = self._file.read(min(self._left, 1 << 16))
                self._left -= len(packed)
            piece = self._zlib.decompress(packed, count - len(made))
            if not piece and not packed:
                break
            made += piece
        return made

    def finish(self) -> None:
        """Read the few bytes that may be left, so that the checksum at the end is compared."""
        self.read(64)
        if not self._zlib.eof:
            raise _Damaged("an array has more or fewer bytes than it says")


def read_matlab(path: Path, most: int) -> dict[str, Array]:
    """The arrays of numbers in the file by name; a UserError where they have more than ``most`` bytes in all.

    Numbers have the type in which they are stored. Variables that are no arrays of numbers are passed over.
    """
    found: dict[str, Array] = {}
    left = most
    try:
        with path.open("rb") as file:
            order = _byte_order(file.read(_HEADER))
            for stream in _elements(file, order, path.stat().st_size):
                described = _described(stream, order)
                if described is None:
                    continue
                name, shape = described
                kind, size, small = _tag(stream, order)
                if size > left:
                    raise too_much(path, most, AGAIN)
                left -= size
                found[name] = _array(stream.read(size) if small is None else small, kind, order, shape, size)
                if isinstance(stream, _Inflated):
                    stream.finish()
    except (OSError, zlib.error, struct.error, _Damaged) as error:
        raise UserError(f"{path} cannot be read as a MATLAB 5 file ({error}). {AGAIN}") from None
    return found


def _byte_order(header: bytes) -> str:
    order = {b"IM": "<", b"MI": ">"}.get(header[126:])
    if order is None or struct.unpack(f"{order}H", header[124:126]) != (0x0100,):
        raise _Damaged("its first 128 bytes are of another format")
    return order


def _elements(file: BinaryIO, order: str, end: int) -> Iterator[Any]:
    """A stream for each variable, which begins after the matrix's tag."""
    while file.tell() < end:
        kind, size = struct.unpack(f"{order}II", file.read(8))
        after = file.tell() + size
        if after > end:
            raise _Damaged("it is cut short")
        if kind == _COMPRESSED:
            stream = _Inflated(file, size)
            if struct.unpack(f"{order}II", stream.read(8))[0] == _MATRIX:
                yield stream
        elif kind == _MATRIX:
            yield file
        file.seek(after)


def _described(stream: Any, order: str) -> tuple[str, tuple[int, ...]] | None:
    """The name and the shape of an array of numbers, whose data come next; None for another variable."""
    flags = struct.unpack(f"{order}II", _short(stream, order))[0]
    lengths = _short(stream, order)
    shape = struct.unpack(f"{order}{len(lengths) // 4}i", lengths)
    name = _short(stream, order).decode("latin-1")
    return (name, shape) if flags & 0xFF in _CLASSES and not flags & _COMPLEX else None


def _tag(stream: Any, order: str) -> tuple[int, int, bytes | None]:
    """The type and the size of an element; up to four bytes of data may stand in the tag itself."""
    first, second = stream.read(4), stream.read(4)
    kind, size = struct.unpack(f"{order}I", first)[0], struct.unpack(f"{order}I", second)[0]
    return (kind & 0xFFFF, kind >> 16, bytes(second[: kind >> 16])) if kind >> 16 else (kind, size, None)


def _short(stream: Any, order: str) -> bytes:
    """The data of an element that is never long, and what pads it to eight bytes left out."""
    _, size, small = _tag(stream, order)
    if small is not None:
        return small
    if size > _LONGEST:
        raise _Damaged(f"a name or shape of {size} bytes")
    return bytes(stream.read(-(-size // 8) * 8))[:size]


def _array(content: bytes | bytearray, kind: int, order: str, shape: tuple[int, ...], size: int) -> Array:
    if kind not in _NUMBERS or len(content) != size:
        raise _Damaged("an array is cut short, or holds no numbers")
    numbers = np.dtype(f"{order}{_NUMBERS[kind]}")
    if min(shape, default=-1) < 0 or math.prod(shape) * numbers.itemsize != size:
        raise _Damaged("an array has more or fewer numbers than its shape says")
    values: Array = np.frombuffer(content, numbers)
    try:
        return values.reshape(shape, order="F")
    except ValueError:  # of no numbers at all, with lengths beyond all measure
        raise _Damaged(f"an array has the shape {shape}") from None
