"""LIBSVM's format: the fast parser and the careful one agree, and mistakes are named by line."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory import peak_bytes
from unalike.data import libsvm
from unalike.data.libsvm import check_count, read_libsvm
from unalike.errors import UserError

TEXT = "-1 1:0.5 3:-2e-1\n+1\n1 2:7 \n-1 4:1"
DENSE = [[0.5, 0, -0.2, 0], [0, 0, 0, 0], [0, 7, 0, 0], [0, 0, 0, 1]]


def read(tmp_path: Path, text: str, rows: int = 4) -> tuple:
    path = tmp_path / "rows"
    path.write_bytes(text.encode())
    return read_libsvm(path, 4, rows, 100)


@pytest.mark.parametrize(
    "text", [TEXT, TEXT + "\n", TEXT.replace("\n", "\r\n"), TEXT.replace(" ", "\t"), "\n" + TEXT]
)
def test_rows_and_labels(tmp_path: Path, text: str) -> None:
    x, y = read(tmp_path, text)
    assert (x.format, x.dtype, x.shape) == ("csr", np.float32, (4, 4))
    np.testing.assert_array_equal(x.toarray(), np.array(DENSE, np.float32))
    np.testing.assert_array_equal(y, [0, 1, 1, 0])


@pytest.mark.parametrize(("name", "pack"), [("rows.gz", gzip.compress), ("rows.bz2", bz2.compress)])
def test_packed_files(tmp_path: Path, name: str, pack) -> None:
    (tmp_path / name).write_bytes(pack(TEXT.encode()))
    assert read_libsvm(tmp_path / name, 4, 4, 100)[0].toarray().tolist() == np.array(DENSE, np.float32).tolist()
    (tmp_path / name).write_bytes(pack(TEXT.encode())[:-9])
    with pytest.raises(UserError, match=f"Cannot read .*{name}"):
        read_libsvm(tmp_path / name, 4, 4, 100)


@pytest.mark.parametrize(
    ("piece", "rows", "said"),
    [
        ("1 1:0." + 500 * "5", 1000, "holds more than 100,000 bytes"),
        ("1", 10_000, "has .* rows, the public file 10,000"),
        ("1 " * 50_000, 10**9, "has a line of more than 10,000 bytes"),
    ],
)
def test_a_bomb_is_refused_before_all_of_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: str, rows: int, said: str
) -> None:
    monkeypatch.setattr(libsvm, "_CHUNK", 10_000)
    (tmp_path / "rows").write_bytes(bz2.compress((f"{piece}\n" * (10**6 // len(piece))).encode()) * 40)

    def read() -> None:
        with pytest.raises(UserError, match=said):
            read_libsvm(tmp_path / "rows", 4, rows, 100)

    assert peak_bytes(read) < 10_000_000


def test_a_damaged_block_is_one_line(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT.encode() * 99))
    packed[30:40] = b"\xff" * 10
    (tmp_path / "rows.gz").write_bytes(packed)
    with pytest.raises(UserError, match=r"Cannot read .*rows.gz"):
        read_libsvm(tmp_path / "rows.gz", 4, 400, 100)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1 2:1 x", "line 2: 'x' is not index:value"),
        ("1 2", "line 2: '2' is not index:value"),
        ("1 1\t2:1\n", "line 2: '1' is not index:value"),  # a blank line must not make up for the tab
        ("1 2:", "line 2: '2:' is not index:value"),
        ("1 :2", "line 2: ':2' is not index:value"),
        ("1 2:1:1", "line 2: '2:1:1' is not index:value"),
        ("1 1.5:1", "line 2: '1.5:1' is not index:value"),
        ("1 1:1_0", "line 2: '1:1_0' is not index:value"),
        ("1 1_0:1", "line 2: '1_0:1' is not index:value"),
        ("1 nan:1", "line 2: 'nan:1' is not index:value"),
        ("1 0:1", "line 2: the index in '0:1' must be from 1 to 4"),
        ("1 -2:1", "line 2: the index in '-2:1' must be from 1 to 4"),
        ("1 5:1", "line 2: the index in '5:1' must be from 1 to 4"),
        ("1 inf:1", "line 2: the index in 'inf:1' must be from 1 to 4"),
        ("1 2:1 2:1", "line 2: indices must increase, but '2:1' follows 2"),
        ("1 3:1 2:1", "line 2: indices must increase, but '2:1' follows 3"),
        ("1 3:nan", "line 2: the value in '3:nan' is not finite"),
        ("1 3:-inf", "line 2: the value in '3:-inf' is not finite"),
        ("1 3:1e999", "line 2: the value in '3:1e999' is not finite"),
        ("2 3:1", "line 2: the label must be -1 or .1, got '2'"),
        ("3:1 4:1", "line 2: the label must be -1 or .1, got '3:1'"),
        ("é 3:1", "line 2: the label must be"),
    ],
)
def test_mistakes(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        read(tmp_path, f"-1 1:1\n{line}\n1 1:1\n")
    assert "\n" not in str(caught.value)


def test_the_line_is_counted_over_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libsvm, "_CHUNK", 50)
    rows = ["1 1:1 3:2"] * 100
    x, y = read(tmp_path, "\n".join(rows), 100)
    assert (x.shape, x.nnz, len(y)) == ((100, 4), 200, 100)
    rows[76] = "1 9:1"
    with pytest.raises(UserError, match="line 77: the index in '9:1'"):
        read(tmp_path, "\n".join(rows), 100)


@pytest.mark.parametrize("text", ["", "\n", " \n \r\n"])
def test_an_empty_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="is empty"):
        read(tmp_path, text)


def test_a_folder_and_a_short_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Cannot read"):
        read_libsvm(tmp_path, 4, 4, 100)
    with pytest.raises(UserError, match="has 3 rows, the public file 1,000"):
        check_count(tmp_path, 3, 1000)


ENTRY = st.tuples(st.integers(1, 9), st.floats(allow_nan=False, allow_infinity=False, width=32))
ROW = st.tuples(st.sampled_from(["-1", "1", "+1"]), st.lists(ENTRY, max_size=5, unique_by=lambda entry: entry[0]))


@given(st.lists(ROW, min_size=1, max_size=6))
def test_what_is_written_is_read(rows: list) -> None:
    lines = [" ".join([label, *(f"{i}:{v!r}" for i, v in sorted(entries))]) for label, entries in rows]
    block = "\n".join(lines).encode() + b"\n"
    fast = libsvm._parse_fast(block, 9)
    assert fast is not None  # a proper file never takes the slow way
    slow = libsvm._parse_slowly(block, 9, Path("rows"), 1)
    np.testing.assert_array_equal(fast[0], [int(label != "-1") for label, _ in rows])
    for a, b in zip((fast[0], *fast[1]), (slow[0], *slow[1]), strict=True):
        np.testing.assert_array_equal(a, b)
    expected = [v for _, entries in rows for _, v in sorted(entries)]
    np.testing.assert_array_equal(fast[1][0], np.array(expected, np.float32))


@settings(max_examples=400)
@given(st.text(alphabet="+-1203.e: \t\r\n_xnainf", max_size=40).map(str.encode) | st.binary(max_size=30))
def test_anything_at_all_is_read_the_same_or_refused(block: bytes) -> None:
    block = block + b"\n"
    fast = libsvm._parse_fast(block, 30)
    try:
        slow = libsvm._parse_slowly(block, 30, Path("rows"), 1)
    except UserError:
        slow = None
    if slow is None:
        assert fast is None
    elif fast is not None:
        for a, b in zip((fast[0], *fast[1]), (slow[0], *slow[1]), strict=True):
            np.testing.assert_array_equal(a, b)
