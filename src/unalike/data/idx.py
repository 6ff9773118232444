"""Files in the idx format of MNIST, packed by gzip or not."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from unalike.data.dataset import Array
from unalike.data.folder import check_digest
from unalike.data.unpack import AGAIN, unpacked
from unalike.errors import UserError

_UNSIGNED_BYTES = 0x08  # the third byte of the header: what the elements are


def read_idx(path: Path, shape: tuple[int, ...], digest: str = "") -> Array:
    """The uint8 array in the file, which must have that shape and, if ``digest`` is given, that checksum.

    The checksum is of the unpacked content: a gzip file holds the time of packing, so its own checksum differs
    between copies of the same data. No more than the expected bytes are ever unpacked. The array can be written.
    """
    header = struct.pack(f">HBB{len(shape)}I", 0, _UNSIGNED_BYTES, len(shape), *shape)
    size = len(header) + int(np.prod(shape))
    content = bytearray(size)
    with unpacked(path, size) as file:
        got = _fill(file, content)
        _check_header(path, bytes(content[: min(got, len(header))]), shape)
        if got < size:
            raise UserError(f"{path} must have {size} bytes (unpacked), but has {got}. {AGAIN}")
        file.read(1)  # of a longer file: refused
    if digest:
        check_digest(path, content, digest)
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape)


def _fill(file: Any, content: bytearray) -> int:
    """Read until ``content`` is full or the file ends; how many bytes there were."""
    view, got = memoryview(content), 0
    while got < len(content) and (count := file.readinto(view[got:])):
        got += count
    return got


def _check_header(path: Path, header: bytes, shape: tuple[int, ...]) -> None:
    wanted = bytes((0, 0, _UNSIGNED_BYTES, len(shape)))
    if header[:4] != wanted:
        found = header[:4].hex() or "nothing"
        raise UserError(
            f"{path} is not the idx file expected: it begins with {found}, not {wanted.hex()}. {AGAIN}"
        )
    if len(header) == 4 + 4 * len(shape):
        found_shape = struct.unpack(f">{len(shape)}I", header[4:])
        if found_shape != shape:
            shown, right = (" x ".join(map(str, numbers)) for numbers in (found_shape, shape))
            raise UserError(f"{path} holds {shown} values, not {right}. {AGAIN}")
