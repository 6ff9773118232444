"""Noise of the stated variance, the same each time, rising from party to party."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import as_seen, make_partition
from unalike.partition.feature_noise import RisingNoise


@pytest.fixture(scope="module")
def flat() -> Dataset:
    """Rows of zeros, so that all that is seen is noise."""
    x, y = np.zeros((4000, 50), np.float32), np.arange(4000) % 2
    return Dataset("flat", x, y, x[:10], y[:10], ("a", "b"))


@pytest.mark.parametrize("sigma", [0.1, 4.0])
def test_variance_of_each_party(flat: Dataset, sigma: float) -> None:
    seen, partition = as_seen(flat, make_partition(f"feature-noise({sigma})", flat, 5, 0))
    for party, rows in enumerate(partition.rows):
        noise = seen.x[rows].astype(np.float64).ravel()
        wanted = sigma * (party + 1) / 5  # P_1 ... P_N of the paper are our 0 ... N - 1
        low, high = stats.chi2(len(noise)).ppf([1e-6, 1 - 1e-6])
        assert low < (noise**2).sum() / wanted < high
        assert abs(noise.mean()) < 5 * np.sqrt(wanted / len(noise))
        assert stats.kstest(noise[:2000] / np.sqrt(wanted), "norm").pvalue > 1e-4


def test_noise_is_added_to_prepared_features() -> None:
    digits = load_dataset("digits")
    partition = make_partition("feature-noise(0.0001)", digits, 3, 0)
    seen, laid = as_seen(digits, partition)
    for old, new in zip(partition.rows, laid.rows, strict=True):
        np.testing.assert_allclose(seen.x[new], digits.x[old] / 16, atol=0.07)


def test_parties_and_rows_have_noise_of_their_own() -> None:
    noise = RisingNoise(1.0, 2, 7)
    x, y = np.zeros((400, 20), np.float32), np.zeros(400, int)
    first, second = (noise.apply(party, x, y)[0].astype(float) for party in (0, 1))
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.05
    assert abs(np.corrcoef(first[:-1].ravel(), first[1:].ravel())[0, 1]) < 0.05
    np.testing.assert_array_equal(first, noise.apply(0, x, y)[0])
    assert not x.any()
    other = RisingNoise(1.0, 2, 8).apply(0, x, y)[0]
    assert not np.array_equal(first, other)


def test_no_noise_changes_nothing() -> None:
    digits = load_dataset("digits")
    partition = make_partition("feature-noise(0)", digits, 3, 0)
    seen, _ = as_seen(digits, partition)
    np.testing.assert_array_equal(seen.x, (digits.x[np.concatenate(partition.rows)] / 16).astype(np.float32))


@pytest.mark.parametrize("wrong", ["-0.1", "-1"])
def test_wrong_sigma(flat: Dataset, wrong: str) -> None:
    with pytest.raises(UserError, match=r"feature-noise's sigma must be from 0 to 1e12, got -\S+\. Use 0\.1\.$"):
        make_partition(f"feature-noise({wrong})", flat, 2, 0)
