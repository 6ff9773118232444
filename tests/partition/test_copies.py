"""Every row in several parties: each copy is whole, even, and in parties of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import as_seen, load_partition, make_partition, save_partition

Make = Callable[..., Dataset]


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 5), rows=st.integers(1, 40), more=st.integers(0, 30), seed=st.integers(0, 2**32 - 1))
def test_each_copy_is_whole_and_even(made: Make, n: int, rows: int, more: int, seed: int) -> None:
    parties = min(n + more, n * rows)
    partition = make_partition(f"copies({n})", made(np.zeros(rows, int), 1), parties, seed)
    assert partition.parties == parties
    for copy in range(n):
        own = partition.rows[copy::n]
        assert sorted(np.concatenate(own)) == list(range(rows))
        assert max(map(len, own)) - min(map(len, own)) <= 1


def test_copies_are_dealt_apart(made: Make) -> None:
    partition = make_partition("copies(2)", made(np.zeros(100, int), 1), 4, 0)
    assert set(partition.rows[0]) not in (set(partition.rows[1]), set(partition.rows[3]))


def test_rotated_as_in_the_paper() -> None:
    """Every image is there in all four rotations, and each party sees one of them."""
    data = load_dataset("digits")
    seen, partition = as_seen(data, make_partition("copies(4)+feature-shift(rotation, 90)", data, 8, 0))
    assert len(seen.y) == 4 * data.size
    plain = np.asarray(data.x, np.float32) / 16
    own = make_partition("copies(4)", data, 8, 0)
    for party in range(8):
        turned = np.rot90(plain[own.rows[party]], party % 4, axes=(-2, -1))
        assert np.allclose(seen.x[partition.rows[party]], turned)


def test_is_saved_and_loaded(made: Make, tmp_path: Path) -> None:
    data = made(np.zeros(5, int), 1)
    whole = make_partition("copies(4)", data, 20, 1)
    save_partition(tmp_path / "p.npz", whole, data, 1)
    again = load_partition(tmp_path / "p.npz", data).partition
    assert all((a == b).all() for a, b in zip(whole.rows, again.rows, strict=True))


@pytest.mark.parametrize(
    ("text", "parties", "said"),
    [
        ("copies(0)", 4, "copies' n must be >= 1, got 0"),
        ("copies(4)", 3, r"copies\(4\) of 5 rows make 4 to 20 parties, got 3"),
        ("copies(4)", 21, r"copies\(4\) of 5 rows make 4 to 20 parties, got 21"),
    ],
)
def test_too_few_or_too_many(made: Make, text: str, parties: int, said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_partition(text, made(np.zeros(5, int), 1), parties, 0)
