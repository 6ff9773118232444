"""What is measured of parties with other columns, against counts and definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.measure import alpha_of, column_skew
from unalike.partition import make_partition
from unalike.partition.column_correlation import icor, spearman
from unalike.partition.column_importance import importances
from unalike.partition.vertical import attributes_of


def test_figures_are_those_of_the_partition() -> None:
    heart = load_dataset("heart")
    made = make_partition("vertical(3, overlap=0.3, rows=0.8)", heart, None, 1)
    found = column_skew(heart, made)
    assert made.columns is not None
    assert found.columns == tuple(map(len, made.columns))
    attribute = attributes_of(heart)
    owners = [set(attribute[part].tolist()) for part in made.columns]
    assert found.attributes == tuple(map(len, owners))
    assert found.shared == len(owners[0] & owners[1] & owners[2]) == 4
    assert found.overlap == pytest.approx(4 / 13)
    assert found.known == (588, 588, 588)
    times = np.bincount(np.concatenate(made.rows), minlength=735)
    assert found.common == (times == 3).sum()
    told = importances(heart)
    shares = np.array([told[list(own)].sum() for own in owners])
    np.testing.assert_allclose(found.importance, shares / shares.sum())
    assert found.alpha == pytest.approx(alpha_of(shares / shares.sum()))
    assert found.icor == pytest.approx(icor(spearman(heart), made.columns))
    assert found.beta is None  # attributes are shared
    assert found.disagree == 0


def test_beta_is_found_again() -> None:
    digits = load_dataset("digits")
    for beta in (0.0, 1.0):
        made = make_partition(f"vertical-correlation(2, {beta})", digits, None, 0)
        assert column_skew(digits, made).beta == pytest.approx(beta, abs=1e-9)
        assert column_skew(digits, made, search=False).beta is None


def test_small_alpha_is_measured_as_smaller() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    x = (y[:, None] + rng.normal(size=(500, 60))).astype(np.float32)
    data = Dataset("many", x, y, x[:3], y[:3], ("a", "b"))
    found = [
        np.median([column_skew(data, make_partition(f"vertical-importance(4, {alpha})", data, None, seed),
                               search=False).alpha for seed in range(9)])
        for alpha in (0.1, 1.0, 30.0)
    ]  # fmt: skip
    assert found[0] < 0.5 < found[1] < 5 < found[2]


def test_how_many_shared_values_differ() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 10)).astype(np.float32)  # no value twice
    y = np.arange(3000) % 2
    data = Dataset("numbers", x, y, x[:3], y[:3], ("a", "b"))
    made = make_partition("vertical(3, overlap=0.5, disagree=0.2)", data, None, 0)
    assert column_skew(data, made).disagree == pytest.approx(0.2, abs=0.03)
    thin = replace(data, x=sparse.csr_matrix(x), x_test=sparse.csr_matrix(x[:3]))
    again = column_skew(thin, make_partition("vertical(3, overlap=0.5, disagree=0.2)", thin, None, 0))
    assert again.to_dict() == column_skew(data, made).to_dict()


def test_of_many_columns_there_is_no_correlation() -> None:
    x, y = np.random.default_rng(0).normal(size=(30, 300)).astype(np.float32), np.arange(30) % 2
    wide = Dataset("wide", x, y, x, y, ("a", "b"))
    found = column_skew(wide, make_partition("vertical(2)", wide, None, 0))
    assert (found.icor, found.beta) == (None, None)
    assert found.to_dict()["icor"] is None


def test_rows_are_not_measured_so() -> None:
    heart = load_dataset("heart")
    with pytest.raises(UserError, match=r"natural.* splits rows, not columns"):
        column_skew(heart, make_partition("natural", heart, None, 0))
