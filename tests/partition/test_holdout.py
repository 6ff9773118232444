"""Three disjoint parts of one party's rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.partition import hold_out
from unalike.partition.holdout import part_sizes


def split(
    rows: np.ndarray, labels: np.ndarray, validation: float, held_out: float, seed: int = 0
) -> list[np.ndarray]:
    return list(hold_out(rows, labels, validation, held_out, np.random.default_rng(seed)))


@given(
    labels=st.lists(st.integers(0, 6), min_size=1, max_size=200),
    fractions=st.tuples(st.floats(0, 1), st.floats(0, 1)).filter(lambda pair: sum(pair) < 1),
    seed=st.integers(0, 2**32),
)
def test_parts_are_disjoint_complete_and_of_the_right_size(
    labels: list[int], fractions: tuple[float, float], seed: int
) -> None:
    rows = np.arange(len(labels)) * 3 + 100
    train, validation, held_out = split(rows, np.array(labels), *fractions, seed)
    assert sorted([*train, *validation, *held_out]) == rows.tolist()
    assert len(train) >= 1
    wanted = [round(len(rows) * fraction) for fraction in fractions]
    lacking = sum(wanted) - len(validation) - len(held_out)
    assert lacking == (1 if sum(wanted) == len(rows) else 0)
    assert wanted[0] - lacking <= len(validation) <= wanted[0]
    assert wanted[1] - lacking <= len(held_out) <= wanted[1]
    assert all((np.diff(part) > 0).all() for part in (train, validation, held_out))


@given(
    rows=st.lists(st.integers(1, 60), min_size=1, max_size=20),
    fractions=st.tuples(st.floats(0, 1), st.floats(0, 1)).filter(lambda pair: sum(pair) < 1),
)
def test_sizes_are_known_without_splitting(rows: list[int], fractions: tuple[float, float]) -> None:
    known = np.stack(part_sizes(np.array(rows), *fractions), axis=1)
    made = [[len(part) for part in split(np.arange(n), np.zeros(n, np.int64), *fractions)] for n in rows]
    assert known.tolist() == made


@pytest.mark.parametrize("seed", range(20))
def test_labels_are_spread_over_the_parts(seed: int) -> None:
    labels = np.repeat([0, 1, 2], [100, 50, 10])
    labels = np.random.default_rng(seed).permutation(labels)
    parts = split(np.arange(160), labels, 0.1, 0.2, seed)
    for part, fraction in zip(parts, (0.7, 0.1, 0.2), strict=True):
        counts = np.bincount(labels[part], minlength=3)
        assert np.abs(counts - fraction * np.array([100, 50, 10])).max() <= 2


def test_single_row_is_kept_for_training() -> None:
    train, validation, held_out = split(np.array([7]), np.array([3]), 0.6, 0.3)
    assert (train.tolist(), len(validation), len(held_out)) == ([7], 0, 0)


def test_fraction_zero_holds_nothing_out() -> None:
    train, validation, held_out = split(np.arange(9), np.zeros(9, int), 0.0, 0.0)
    assert (train.tolist(), len(validation), len(held_out)) == (list(range(9)), 0, 0)


def test_rng_decides_and_every_row_is_equally_likely() -> None:
    rows, labels, draws = np.arange(12), np.repeat([0, 1], [8, 4]), 3000
    first, again = (split(rows, labels, 0.25, 0.25, 5) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    times = np.zeros((3, 12))
    rng = np.random.default_rng(0)
    for _ in range(draws):
        for part, chosen in enumerate(hold_out(rows, labels, 0.25, 0.25, rng)):
            times[part, chosen] += 1
    # Rows of one label are alike; a label's share of a part may be off by rounding.
    for columns in (slice(0, 8), slice(8, 12)):
        chance = times[:, columns] / draws
        assert (np.ptp(chance, axis=1) < 0.07).all()
        np.testing.assert_allclose(chance.mean(axis=1), [0.5, 0.25, 0.25], atol=0.1)


@pytest.mark.parametrize("fractions", [(-0.1, 0.2), (0.2, -0.1), (0.5, 0.5), (1.0, 0.0), (float("nan"), 0.1)])
def test_wrong_fractions(fractions: tuple[float, float]) -> None:
    with pytest.raises(UserError, match=rf"got {fractions[0]} and {fractions[1]}\. Use 0\.1 and 0\.1"):
        split(np.arange(5), np.zeros(5, int), *fractions)


def test_labels_must_be_those_of_the_rows() -> None:
    with pytest.raises(UserError, match="5 rows have 6 labels"):
        split(np.arange(5), np.zeros(6, int), 0.1, 0.1)
    with pytest.raises(UserError, match="A party of 0 rows"):
        split(np.arange(0), np.zeros(0, int), 0.1, 0.1)
