"""Writes small files in the formats of the public image data sets, and finds the real ones."""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from unalike.data import load_dataset
from unalike.errors import UserError


def refusal(text: str) -> str:
    """The one-line error that loading a data set ends with."""
    with pytest.raises(UserError) as caught:
        load_dataset(text)
    return one_line(caught.value)


def one_line(error: BaseException) -> str:
    text = str(error)
    assert text.isprintable(), text
    assert len(text) < 600
    assert text.endswith(".")
    return text


def real(*candidates: str) -> Path:
    """The first of the paths that is in the folder named by ``UNALIKE_DATA``; the test is skipped without."""
    folder = os.environ.get("UNALIKE_DATA")
    for candidate in candidates if folder else ():
        if Path(folder or "", candidate).exists():
            return Path(folder or "", candidate)
    pytest.skip(f"{candidates[0]} is not in UNALIKE_DATA")


def idx(array: NDArray[np.uint8]) -> bytes:
    """An array in the idx format."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    """An idx file, packed if its name ends in .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(idx(array)) if path.suffix == ".gz" else idx(array))


def python2_string(text: bytes) -> bytes:
    return b"U" + bytes([len(text)]) + text if len(text) < 256 else b"T" + struct.pack("<I", len(text)) + text


def python2_array(array: NDArray[np.uint8], fortran: bool = False) -> bytes:
    """The instructions that numpy under Python 2 wrote for an array of two axes."""
    raw = array.tobytes("F" if fortran else "C")
    shape = b"".join(b"J" + struct.pack("<i", length) for length in array.shape) + b"\x86"
    kind = b"cnumpy\ndtype\nq\x64U\x02u1q\x65K\x00K\x01\x87q\x66Rq\x67"
    kind += b"(K\x03U\x01|q\x68NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x60cnumpy\nndarray\nq\x61K\x00\x85U\x01b\x87Rq\x62(K\x01"
        + shape
        + kind
        + (b"\x88" if fortran else b"\x89")
        + python2_string(raw)
        + b"tb"
    )


def python2_pickle(arrays: dict[bytes, NDArray[np.uint8]], lists: dict[bytes, list[int] | list[bytes]]) -> bytes:
    """A dict of arrays and lists as Python 2 pickled it: protocol 2, strings without encoding, a memo."""
    body = b""
    for key, array in arrays.items():
        body += python2_string(key) + python2_array(array)
    for number, (key, values) in enumerate(lists.items()):
        items = (b"K" + bytes([v]) if isinstance(v, int) else python2_string(v) for v in values)
        body += python2_string(key) + b"]q" + bytes([number]) + b"(" + b"".join(items) + b"e"
    return b"\x80\x02}q\x7f(" + body + b"u."
