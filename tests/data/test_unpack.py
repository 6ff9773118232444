"""Packed files: content comes back, and a file that unpacks to far more than it can need costs little."""

from __future__ import annotations

import bz2
import gzip
import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.memory import peak_bytes
from unalike.data.unpack import read_member, read_npy, unpacked
from unalike.errors import UserError

PACK = {"plain": bytes, "gzip": gzip.compress, "bzip2": bz2.compress}


@pytest.mark.parametrize("pack", PACK.values(), ids=PACK)
def test_all_of_a_file_comes_out_and_not_a_byte_more(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "file"
    content = bytes(range(256)) * 100
    path.write_bytes(pack(content))
    with unpacked(path, len(content)) as file:
        assert file.read() == content
    with unpacked(path, len(content)) as file:
        assert b"".join(iter(lambda: file.read(1000), b"")) == content
    with (
        pytest.raises(UserError, match=r"file holds more than 25,599 bytes \(unpacked\).* Download it again\.$"),
        unpacked(path, len(content) - 1) as file,
    ):
        file.read()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_bomb_is_refused_while_it_is_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(pack(bytes(10_000_000)) * 50)  # half a gigabyte in members one after the other

    def read() -> None:
        with pytest.raises(UserError, match="holds more than 1,000,000 bytes"), unpacked(path, 1_000_000) as file:
            file.read()

    assert peak_bytes(read) < 10_000_000


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_damaged_file_is_one_line(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "file"
    whole = pack(bytes(range(256)) * 100)
    for content in (whole[:-9], whole[:60] + b"\xff\0" * 10 + whole[80:]):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"Cannot read .*Download it") as caught, unpacked(path, 10**6) as file:
            file.read()
        assert "\n" not in str(caught.value)
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(UserError, match="Cannot read"), unpacked(place, 10):
            pass


def archive(method: int, content: bytes) -> zipfile.ZipFile:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as file:
        file.writestr("a.npy", content)
    return zipfile.ZipFile(target)


def test_members_of_archives_are_bounded(tmp_path: Path) -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = archive(method, bytes(1000))
        assert read_member(file, "a.npy", 1000, tmp_path, "") == bytes(1000)
        with pytest.raises(UserError, match=r"a\.npy holds more than 999 bytes"):
            read_member(file, "a.npy", 999, tmp_path, "")
    large = archive(zipfile.ZIP_DEFLATED, bytes(100_000_000))

    def read() -> None:
        with pytest.raises(UserError, match="holds more than"):
            read_member(large, "a.npy", 1_000_000, tmp_path, "")

    assert peak_bytes(read) < 10_000_000
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):  # Python's own reader has no bound for these
        with pytest.raises(UserError, match=f"packed by method {method}, not by deflate"):
            read_member(archive(method, bytes(1000)), "a.npy", 1000, tmp_path, "")


def npy(array: np.ndarray) -> bytes:
    target = io.BytesIO()
    np.save(target, array)
    return target.getvalue()


@pytest.mark.parametrize(
    "array",
    [np.arange(6), np.zeros((0, 3)), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array(5, np.uint8)],
)
def test_arrays_come_back(array: np.ndarray) -> None:
    found = read_npy(npy(array))
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)


def test_a_header_cannot_ask_for_memory() -> None:
    for claim in ("(9999999999999,)", "(-1,)", "(3,)", "(2, 4)"):
        header = npy(np.arange(6))
        forged = header.replace(
            b"(6,), }" + b" " * len(claim), f"({claim[1:-1]}), }}".encode().ljust(7 + len(claim))
        )
        assert forged != header
        with pytest.raises(ValueError):
            read_npy(forged)
    with pytest.raises(ValueError):
        read_npy(npy(np.array([1, None], object)))
    for content in (b"", b"\x93NUMPY", b"\x93NUMPY\x09\x00" + bytes(90), npy(np.arange(6))[:-1]):
        with pytest.raises(ValueError):
            read_npy(content)


@pytest.mark.parametrize(
    "header", ["{'descr': '<i8', ", "{'descr': '<i8', 'fortran_order': False, 'shape': (True,), }", "(", "{"]
)
def test_a_header_that_is_none(header: str) -> None:
    """numpy's own reader ends in errors of other kinds here."""
    text = header.encode().ljust(117) + b"\n"
    with pytest.raises(ValueError):
        read_npy(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(8))
