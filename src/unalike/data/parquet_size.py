"""How large the columns of a Parquet file become, found out without unpacking any of them.

The file's end describes its columns, and each page of a column has a header; both are structures in Thrift's
compact protocol. Sums of the pages' sizes stand in the description, too, but unpacking goes by the headers, and a
file that is made to fill the memory can have small sums and huge pages. (pyarrow shows the description, not the
headers, and ends the whole program where some parts of the description are damaged.)
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

from unalike.errors import UserError

_MOST_PARTS = 5_000_000  # of the description; a thousand columns in a thousand groups of rows need fewer
_DEEPEST = 20
_SHARED_BEGINNINGS = 7  # DELTA_BYTE_ARRAY: a text says how many letters it takes from the one before


class _NoSize(Exception):
    """A page is packed in a way that hides how large its texts become."""


def claimed_size(path: Path, columns: set[str]) -> tuple[int, int]:
    """The number of values in these columns, and the bytes that their pages say to unpack to."""
    values = unpacked = 0
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            start = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]
            for group in _Thrift(content, start).structure()[4]:
                for chunk in (column[3] for column in group[1]):
                    if b".".join(chunk[3]).decode() in columns:
                        values += max(group[3], chunk[5])
                        unpacked += _page_bytes(content, chunk)
    except _NoSize:
        raise UserError(
            f"{path} holds texts as DELTA_BYTE_ARRAY, which hides their size. Use plain ones."
        ) from None
    except (LookupError, TypeError, ValueError, AttributeError, struct.error):
        raise UserError(f"Cannot read {path}: its description is damaged. Write it again.") from None
    return values, unpacked


def _page_bytes(content: Any, chunk: dict[int, Any]) -> int:
    """The bytes that the pages of one column in one group of rows say to unpack to."""
    first, dictionary = chunk[9], chunk.get(11, 0)
    place = dictionary if 0 < dictionary < first else first
    end, total = place + chunk[7], 0
    while place < end:
        thrift = _Thrift(content, place)
        header = thrift.structure()
        if min(header[2], header[3]) < 0:
            raise ValueError
        if _SHARED_BEGINNINGS in (header.get(5, {}).get(2), header.get(8, {}).get(4)):
            raise _NoSize
        total += header[2]
        place = thrift.place + header[3]
    return total


class _Thrift:
    """Reads structures as dicts, by the numbers of their fields, and lists; texts are bytes."""

    def __init__(self, content: Any, place: int) -> None:
        if place < 0:
            raise ValueError
        self._content, self.place, self._parts = content, place, 0

    def structure(self, depth: int = 0) -> dict[int, Any]:
        """The structure that begins here."""
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._whole()
            kind = head & 15
            found[number] = kind == 1 if kind < 3 else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        self._parts += 1
        if self._parts > _MOST_PARTS or depth > _DEEPEST:
            raise ValueError
        if kind in (4, 5, 6):
            return self._whole()
        if kind == 8:
            return self._bytes(self._unsigned())
        if kind in (1, 2, 3):  # in a list truth values are bytes
            return self._byte()
        if kind == 7:
            return self._bytes(8)
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind == 12:
            return self.structure(depth + 1)
        raise ValueError  # maps, which these structures do not have

    def _bytes(self, count: int) -> bytes:
        self.place += count
        if self.place > len(self._content):
            raise ValueError
        return bytes(self._content[self.place - count : self.place])

    def _byte(self) -> int:
        self.place += 1
        return int(self._content[self.place - 1])

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128 and shift < 63:
            value |= (byte & 127) << shift
            shift += 7
        return value | (byte & 127) << shift

    def _whole(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
