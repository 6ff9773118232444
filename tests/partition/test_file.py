"""Partitions that others wrote: each mistake is named by party and row."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.memory import peak_bytes
from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import PARTITIONS, Partition, make_partition, save_partition

Make = Callable[..., Dataset]


@pytest.fixture
def six(made: Make) -> Dataset:
    return made(np.array([0, 1, 0, 1, 0, 1]), 2)


def read(path: Path, dataset: Dataset, **options: Any) -> Partition:
    return make_partition(f"file({str(path)!r}{options.get('more', '')})", dataset, options.get("parties"), 0)


def test_json_and_npz_maps(tmp_path: Path, six: Dataset) -> None:
    (tmp_path / "p.json").write_text(json.dumps({"north": [4, 0, 2], "south": [1, 3, 5]}))
    np.savez(tmp_path / "p.npz", north=np.array([4, 0, 2]), south=np.array([1, 3, 5], np.uint8))
    for name in ("p.json", "p.npz"):
        partition = read(tmp_path / name, six)
        assert partition.names == ("north", "south")
        assert [rows.tolist() for rows in partition.rows] == [[0, 2, 4], [1, 3, 5]]
        assert not partition.leaves_rows
    (tmp_path / "q.json").write_text("[[5, 0, 1], [2, 3, 4]]")
    assert read(tmp_path / "q.json", six, parties=2).names == ("party 0", "party 1")


def test_missing_rows_are_allowed_on_request(tmp_path: Path, six: Dataset) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"a": [0, 1], "b": [5]}))
    with pytest.raises(
        UserError, match=r"3 row\(s\) of made, such as 2, are in no party\. Add them, or use partial"
    ):
        read(path, six)
    partition = read(path, six, more=", partial=true")
    assert partition.leaves_rows
    assert [rows.tolist() for rows in partition.rows] == [[0, 1], [5]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": [0, 1, 2], "b": [3, 4, 6]}, r"party 'b': row 6 is not in made, which has rows 0 to 5\."),
        ({"a": [0, -1], "b": [3]}, r"party 'a': row -1 is not in made"),
        ({"a": [10**30]}, r"row 1000000000000000000000000000000 is not in made"),
        ({"a": [0, 1.0]}, r"party 'a': row '1\.0' is not a whole number\. Number the rows from 0\."),
        ({"a": [0, True]}, r"row 'True' is not a whole number"),
        ({"a": ["0"]}, r"row '0' is not a whole number"),
        ({"a": [0, 1, 0]}, r"party 'a' has row 0 twice\. Give it once\."),
        ({"a": [0, 1, 2], "b": [2, 3, 4, 5]}, r"row 2 is in 'a' and in 'b'\. Give it to one party\."),
        ({"a": [0, 1, 2, 3, 4, 5], "b": []}, r"party 'b' has no rows\. Leave the party out\."),
        ({"a": 5}, r"party 'a': its rows must be a list of numbers"),
        ({"a": {"0": 1}}, r"party 'a': its rows must be a list of numbers"),
        ({}, r"is no map of parties to rows"),
        (7, r"is no map of parties to rows"),
    ],
)
def test_mistakes_in_json(tmp_path: Path, six: Dataset, content: Any, message: str) -> None:
    (tmp_path / "p.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=rf"p\.json.*{message}") as raised:
        read(tmp_path / "p.json", six)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([0.0, 1.5]), "row '0.0' is not a whole number"),
        (np.array([[0], [1]]), "must be a list of numbers"),
        (np.array([], int), "has no rows"),
        (np.array([3, -2]), "row -2 is not in made"),
        (np.array([2**63], np.uint64), "row 9223372036854775808 is not in made"),
        (np.array([None, 1], object), "no map of parties"),  # pickled
    ],
)
def test_mistakes_in_npz(tmp_path: Path, six: Dataset, rows: np.ndarray, message: str) -> None:
    np.savez(tmp_path / "p.npz", a=rows)
    with pytest.raises(UserError, match=message):
        read(tmp_path / "p.npz", six)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"a": np.zeros(2**24, np.int64)},
            "a.npy holds more than 1,120 bytes .* made has 6 rows: give each",
        ),
        ({f"p{n}": np.arange(6) for n in range(2000)}, "holds more than|lists more than 12 rows"),
        ({"a": np.arange(7)}, "row 6 is not in made"),
        ({"a": np.arange(6), "b": np.array([5])}, "row 5 is in 'a' and in 'b'"),
    ],
)
def test_an_npz_is_unpacked_as_far_as_the_data_set_has_rows(
    tmp_path: Path, six: Dataset, arrays: dict[str, np.ndarray], message: str
) -> None:
    np.savez_compressed(tmp_path / "p.npz", **arrays)  # 134 MB in a file of 130 KB

    def call() -> None:
        with pytest.raises(UserError, match=message) as raised:
            read(tmp_path / "p.npz", six)
        assert "\n" not in str(raised.value)

    assert peak_bytes(call) < 10_000_000


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_ways_of_packing_that_have_no_bound_are_refused(tmp_path: Path, six: Dataset, method: int) -> None:
    content = io.BytesIO()
    np.save(content, np.zeros(2**24, np.uint8))
    with zipfile.ZipFile(tmp_path / "p.npz", "w", method) as file:
        file.writestr("a.npy", content.getvalue())
    with pytest.raises(UserError, match=rf"a\.npy is packed by method {method}, not by deflate"):
        read(tmp_path / "p.npz", six)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"PK\x03\x04broken", b"\xff\xfe", b"[" * 100_000, b'{"a":[0],"a":[1]}']
)
def test_files_that_are_none(tmp_path: Path, six: Dataset, content: bytes) -> None:
    (tmp_path / "p").write_bytes(content)
    with pytest.raises(UserError, match="is no map of parties to rows"):
        read(tmp_path / "p", six)


def test_other_data_other_number_and_no_file(tmp_path: Path, six: Dataset) -> None:
    heart = load_dataset("heart")
    path = tmp_path / "p.npz"
    save_partition(path, make_partition("natural", heart, None, 0), heart, 0)
    with pytest.raises(
        UserError, match=r"was saved of heart with 735 rows, not of made with 6\. Use that data set"
    ):
        read(path, six)
    with pytest.raises(UserError, match=r"has 4 parties, got 3\. Leave the number out\."):
        read(path, heart, parties=3)
    other = Dataset("heart", heart.x, 1 - heart.y, heart.x_test, heart.y_test, heart.classes)
    with pytest.raises(UserError, match=r"was saved of a heart with other labels\. Save it again\."):
        read(path, other)
    with pytest.raises(UserError, match=r"^Cannot read .*: No such file or directory\. Check the path\.$"):
        read(tmp_path / "none.json", six)


def test_fingerprint_is_that_of_the_content(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text('{"x": [1]}')
    (tmp_path / "c.json").write_text('{"x": [2]}')
    for rule in ("file", "like"):
        prints = [
            PARTITIONS.build(f"{rule}:{tmp_path / name}").parts[0].fingerprint()
            for name in ("a.json", "b.json", "c.json")
        ]
        assert prints[0] == prints[1] != prints[2]
        assert len(prints[0]) == 64


def test_distortions_can_be_added(tmp_path: Path) -> None:
    heart = load_dataset("heart")
    save_partition(tmp_path / "p.npz", make_partition("natural", heart, None, 0), heart, 0)
    assert len(make_partition(f"file:{tmp_path / 'p.npz'}+feature-noise(0.1)", heart, None, 0).distortions) == 1
