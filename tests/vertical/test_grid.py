"""Whole numbers in float64: products are exact, and what 64 bits do not hold is refused."""

import numpy as np
import pytest
from scipy import sparse

from unalike.errors import UserError
from unalike.vertical import grid


def by_hand(left, right):
    """The product of matrices in whole numbers of any size."""
    return [[sum(int(a) * int(b) for a, b in zip(row, column, strict=True)) for column in right.T] for row in left]


@pytest.mark.parametrize(("great", "other"), [(3, 5), (2**40, 2**12), (2**50, 2**8), (2**30, 2**28), (2**52, 1)])
def test_products_of_great_numbers_are_exact(great, other):
    random = np.random.default_rng(0)
    left = random.integers(-great, great + 1, (6, 7)).astype(float)
    right = random.integers(-other, other + 1, (7, 2)).astype(float)
    left[0, 0] = great
    expected = by_hand(left, right)
    for one in (left, sparse.csr_matrix(left)):
        found = grid.exact_product(one, right, float(great), 2**62, "Scores")
        assert found.dtype == np.int64
        assert found.tolist() == expected


def test_products_beyond_their_bound_are_refused():
    one = np.full((1, 4), 2.0**40)
    with pytest.raises(UserError, match=r"Scores reach .* Standardise columns, or lower --lr"):
        grid.exact_product(one, np.full((4, 1), 2.0**24), 2.0**40, 2**62, "Scores")
    with pytest.raises(UserError, match="Scores reach"):
        grid.exact_product(one, np.full((4, 1), 8.0), 2.0**40, 2**44, "Scores")


def test_numbers_are_rounded_to_the_nearest():
    assert grid.whole(np.array([0.3, -0.3, 1.75]), 2, "Columns").tolist() == [1.0, -1.0, 7.0]
    for wrong in (np.inf, np.nan, 2.0**40):
        with pytest.raises(UserError, match="Columns reach"):
            grid.whole(np.array([wrong]), 20, "Columns")
