"""MATLAB 5 files: arrays as scipy writes them, and any damage in one line."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from unalike.data.matlab import read_matlab
from unalike.errors import UserError

ARRAYS = {
    "X": np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    "small": np.array([[3]], np.int16),
    "empty": np.zeros((0, 3)),
    "halves": np.arange(5) / 2,
    **{f"n_{kind}": np.arange(9).astype(kind) for kind in ("i1", "u2", "i4", "u4", "f4", "i8", "u8")},
}


def written(content: dict[str, object], packed: bool) -> bytes:
    target = io.BytesIO()
    savemat(target, content, do_compression=packed)
    return target.getvalue()


@pytest.mark.parametrize("packed", [False, True])
def test_arrays_of_numbers_come_back(tmp_path: Path, packed: bool) -> None:
    others = {"text": "abc", "cell": np.array([1, "a"], object), "complex": np.array([1j]), "struct": {"a": 1}}
    (tmp_path / "a.mat").write_bytes(written(others | ARRAYS, packed))
    found = read_matlab(tmp_path / "a.mat", 1000)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array.reshape(1, -1) if array.ndim == 1 else array)


@pytest.mark.parametrize("packed", [False, True])
def test_all_arrays_together_have_a_limit(tmp_path: Path, packed: bool) -> None:
    (tmp_path / "a.mat").write_bytes(written({"a": np.zeros(10), "b": np.zeros(10)}, packed))
    assert len(read_matlab(tmp_path / "a.mat", 160)) == 2
    with pytest.raises(UserError, match=r"a\.mat holds more than 159 bytes"):
        read_matlab(tmp_path / "a.mat", 159)


def read_or_refused(path: Path) -> int:
    """How many bytes the arrays of a file have; none if it is refused, in one line."""
    found, said = {}, ""
    try:
        found = read_matlab(path, 10**9)
    except UserError as error:
        said = str(error)
    assert "\n" not in said
    return sum(array.nbytes for array in found.values())


def test_sizes_that_a_file_only_claims(tmp_path: Path) -> None:
    content = bytearray(written({"X": np.arange(24, dtype=np.uint8)}, packed=False))
    for place in range(128, len(content), 4):
        for claim in (0, 0xFFFFFFFF, 0x7FFFFFF8, 0x00100000):
            changed = content.copy()
            changed[place : place + 4] = struct.pack("<I", claim)
            (tmp_path / "a.mat").write_bytes(changed)
            assert read_or_refused(tmp_path / "a.mat") <= 24


def test_no_numbers_in_a_shape_beyond_all_measure(tmp_path: Path) -> None:
    content = written({"X": np.zeros((0, 2, 2, 2, 2, 2))}, packed=False)
    lengths = struct.pack("<6i", 0, 2, 2, 2, 2, 2)
    assert content.count(lengths) == 1
    (tmp_path / "a.mat").write_bytes(content.replace(lengths, struct.pack("<6i", 0, *[2**31 - 1] * 5)))
    with pytest.raises(UserError, match="an array has the shape"):
        read_matlab(tmp_path / "a.mat", 1000)


GOOD = written({"X": np.arange(24, dtype=np.uint8), "y": np.arange(3.0)}, packed=True)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255), st.booleans())
def test_any_damage_is_one_line(tmp_path_factory: pytest.TempPathFactory, place: int, by: int, cut: bool) -> None:
    path = tmp_path_factory.mktemp("mat") / "a.mat"
    path.write_bytes(GOOD[:place] if cut else GOOD[:place] + bytes([GOOD[place] ^ by]) + GOOD[place + 1 :])
    assert read_or_refused(path) <= 48


def test_a_file_that_is_none(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(UserError, match="cannot be read as a MATLAB 5 file"):
            read_matlab(place, 10)
