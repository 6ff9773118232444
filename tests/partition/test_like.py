"""The table of a federation, copied onto other data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import Partition, make_partition, save_partition

Make = Callable[..., Dataset]


def copy(path: Path, dataset: Dataset, parties: int | None = None, seed: int = 0) -> Partition:
    return make_partition(f"like({str(path)!r})", dataset, parties, seed)


def test_all_formats_give_the_same(tmp_path: Path, made: Make) -> None:
    dataset = made(np.repeat([0, 1, 2], [40, 20, 60]), 3)
    (tmp_path / "a.csv").write_text("party,0,1,2\nnorth,1,0,5\nsouth,3,2,1\n")
    (tmp_path / "b.csv").write_text("\ufeff0,1,2\r\n1,0,5\r\n3,2,1\r\n", encoding="utf-8")
    (tmp_path / "c.json").write_text(json.dumps({"north": {"0": 1, "2": 5}, "south": {"2": 1, "1": 2, "0": 3}}))
    for name in ("a.csv", "b.csv", "c.json"):
        partition = copy(tmp_path / name, dataset)
        assert partition.label_counts(dataset).tolist() == [[10, 0, 50], [30, 20, 10]]
        assert partition.names == (("party 0", "party 1") if name == "b.csv" else ("north", "south"))


def test_a_saved_partition_is_copied_by_frequency(tmp_path: Path, made: Make) -> None:
    heart = load_dataset("heart")  # 328 healthy, 407 diseased
    original = make_partition("natural", heart, None, 0)
    save_partition(tmp_path / "p.npz", original, heart, 0)
    other = made(np.repeat([0, 1], [407 * 2, 328 * 2]), 2)  # other names; here label 0 is the more frequent
    copied = copy(tmp_path / "p.npz", other)
    assert copied.names == original.names
    np.testing.assert_array_equal(copied.label_counts(other)[:, ::-1], 2 * original.label_counts(heart))


@settings(deadline=None)
@given(
    table=st.lists(st.lists(st.integers(0, 1000), min_size=4, max_size=4).filter(any), min_size=1, max_size=8),
    rows=st.integers(100, 400),
    seed=st.integers(0, 2**32),
)
def test_no_row_is_lost_and_shares_are_the_tables(
    tmp_path_factory: pytest.TempPathFactory, made: Make, table: list[list[int]], rows: int, seed: int
) -> None:
    path = tmp_path_factory.mktemp("like") / "t.csv"
    path.write_text("0,1,2,3\n" + "\n".join(",".join(map(str, line)) for line in table))
    dataset = made(np.arange(rows) % 4, 4)
    partition = copy(path, dataset, None, seed)
    assert sorted(np.concatenate(partition.rows)) == list(range(rows))
    counts, wanted = partition.label_counts(dataset), np.array(table, float)
    assert counts.sum(axis=1).min() >= 1
    sizes = np.bincount(dataset.y, minlength=4)
    for label in range(4):
        if wanted[:, label].any():  # within one row, and one more for each party that had to be given one
            share = wanted[:, label] / wanted[:, label].sum() * sizes[label]
            assert np.abs(counts[:, label] - share).max() <= 1 + len(table)
            assert not counts[wanted[:, label] == 0, label].any()


def test_tiny_parties_get_a_row_of_their_own_label(tmp_path: Path, made: Make) -> None:
    (tmp_path / "t.csv").write_text("party,0,1\nhuge,1000000,1000000\ntiny,0,1\nsmall,1,0\n")
    dataset = made(np.arange(100) % 2, 2)
    assert copy(tmp_path / "t.csv", dataset).label_counts(dataset).tolist() == [[49, 49], [0, 1], [1, 0]]


def test_fewer_parties_are_drawn_at_random(tmp_path: Path, made: Make) -> None:
    lines = [f"p{number},{number + 1},{9 - number}" for number in range(9)]
    (tmp_path / "t.csv").write_text("\n".join(["party,0,1", *lines]))
    dataset = made(np.arange(100) % 2, 2)
    chosen = [copy(tmp_path / "t.csv", dataset, 3, seed).names for seed in range(60)]
    assert {name for names in chosen for name in names} == {f"p{number}" for number in range(9)}
    assert len(set(chosen)) > 10


def test_labels_that_nobody_has_and_labels_that_are_not_here(tmp_path: Path, made: Make) -> None:
    (tmp_path / "t.csv").write_text("party,0,1,2\na,3,0,7\nb,1,0,0\n")
    dataset = made(np.repeat([0, 1], [8, 8]), 2)
    assert copy(tmp_path / "t.csv", dataset).label_counts(dataset).tolist() == [[6, 6], [2, 2]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "party,0,1\na,1,-2\n", r"party 'a' has '-2' rows of a label\. Use a number >= 0\."),
        ("t.csv", "party,0,1\na,1,many\n", r"party 'a' has 'many' rows"),
        ("t.csv", "party,0,1\na,1,nan\n", r"party 'a' has 'nan' rows"),
        ("t.csv", "party,0,1\na,1\n", r"party 1 has 2 cells, the header 3"),
        ("t.csv", "party,0,1\na,0,0\n", r"party 'a' has no rows\. Leave it out\."),
        ("t.csv", "party,0,1\na,1,2\na,1,2\n", r"has the party 'a' twice"),
        ("t.csv", "party,0,0\na,1,2\n", r"has the label '0' twice"),
        ("t.csv", "party,0,1\n", r"has no header or no parties"),
        ("t.csv", "party\na\n", r"has no labels"),
        ("t.csv", "", r"has no header or no parties"),
        ("t.csv", "party,x\na,3\n", r"has 1 labels, but made has 2\. Use a table with as many\."),
        ("t.csv", "party,0,1,2\na,1,1,0\nb,0,0,4\n", r"party 'b' has none of the labels that are matched"),
        ("t.json", "{", r"is not JSON"),
        ("t.json", "{}", r"is no table of parties and labels"),
        ("t.json", '{"a": [1, 2]}', r"is no table of parties and labels"),
        ("t.json", '{"a": {}}', r"has no labels"),
        ("t.json", '{"a": {"0": null, "1": 2}}', r"party 'a' has 'None' rows"),
        ("t.json", '{"a": {"0": true, "1": 2}}', r"party 'a' has 'True' rows"),
        ("t.csv", b"\xff\xfe\x00", r"is not text"),
    ],
)
def test_mistakes(tmp_path: Path, made: Make, name: str, content: Any, message: str) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=message) as raised:
        copy(tmp_path / name, made(np.arange(20) % 2, 2))
    assert "\n" not in str(raised.value)


def test_too_many_parties_and_too_few_rows(tmp_path: Path, made: Make) -> None:
    (tmp_path / "t.csv").write_text("party,0,1\na,9,9\nb,0,1\nc,0,1\n")
    with pytest.raises(UserError, match=r"has 3 parties, got 4\. Use at most 3\."):
        copy(tmp_path / "t.csv", made(np.arange(20) % 2, 2), 4)
    with pytest.raises(UserError, match=r"3 parties are more than the 2 training rows"):
        copy(tmp_path / "t.csv", made(np.arange(2) % 2, 2))
    with pytest.raises(UserError, match=r"too few rows for party '[bc]'\. Use fewer parties or more rows\."):
        copy(tmp_path / "t.csv", made(np.array([0, 0, 0, 1]), 2))
