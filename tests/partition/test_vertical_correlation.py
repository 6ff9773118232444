"""Correlation: Pcor and Icor by their definitions, and splits at the wanted place between least and most."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import spearmanr

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import make_partition
from unalike.partition.column_correlation import SplitSearch, icor, pcor, spearman, split_search
from unalike.partition.vertical import attributes_of


def pairs(groups: int = 4, rows: int = 300, seed: int = 0) -> Dataset:
    """Columns in twos that say nearly the same."""
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(rows, groups)).repeat(2, axis=1)
    x = (own + 0.1 * rng.normal(size=own.shape)).astype(np.float32)
    y = (own[:, 0] > 0).astype(np.int64)
    return Dataset("pairs", x, y, x[:5], y[:5], ("no", "yes"))


def test_spearman_is_scipys() -> None:
    cells = load_dataset("breast-cancer")
    np.testing.assert_allclose(spearman(cells), spearmanr(cells.x).statistic, atol=1e-12)
    ties = np.random.default_rng(0).integers(0, 3, (200, 4)).astype(np.float32)
    ties[:, 3] = 1
    y = np.arange(200) % 2
    dense = Dataset("ties", ties, y, ties[:1], y[:1], ("a", "b"))
    thin = Dataset("ties", sparse.csr_matrix(ties), y, sparse.csr_matrix(ties[:1]), y[:1], ("a", "b"))
    np.testing.assert_allclose(spearman(dense)[:3, :3], spearmanr(ties[:, :3]).statistic, atol=1e-12)
    assert spearman(dense)[3].tolist() == [0, 0, 0, 1]
    np.testing.assert_array_equal(spearman(thin), spearman(dense))


def test_pcor_by_hand() -> None:
    assert pcor(np.ones((4, 4))) == pytest.approx(1)  # singular values 4, 0, 0, 0
    assert pcor(np.eye(5)) == pytest.approx(0)
    assert pcor(np.zeros((3, 2))) == 0
    assert pcor(np.ones((1, 7))) == 0
    block = np.random.default_rng(0).normal(size=(3, 5))
    values = np.sqrt(np.linalg.eigvalsh(block @ block.T).clip(0))
    assert pcor(block) == pytest.approx(np.sqrt(((values - values.mean()) ** 2).sum() / 2) / np.sqrt(3))


def test_icor_by_hand() -> None:
    whole = spearman(pairs(2))
    together, apart = [np.array([0, 1]), np.array([2, 3])], [np.array([0, 2]), np.array([1, 3])]
    for split in (together, apart):
        (a, b), blocks = split, {}
        for i, j in ((a, a), (b, b), (a, b), (b, a)):
            blocks[i.tobytes(), j.tobytes()] = pcor(whole[np.ix_(i, j)])
        first = blocks[b.tobytes(), a.tobytes()] - blocks[a.tobytes(), a.tobytes()]
        second = blocks[a.tobytes(), b.tobytes()] - blocks[b.tobytes(), b.tobytes()]
        assert icor(whole, split) == pytest.approx((first + second) / 2)
    assert icor(whole, together) < -0.5 < icor(whole, apart)


@pytest.mark.parametrize("name", ["pairs", "digits"])
def test_the_ends_are_the_least_and_the_most_of_all_splits(name: str) -> None:
    data = pairs() if name == "pairs" else load_dataset(name)
    attribute, correlation = attributes_of(data), spearman(data)
    number = int(attribute.max()) + 1
    half = number - number // 2
    everything = []
    for own in combinations(range(number), half):
        first = np.isin(attribute, own)
        everything.append(icor(correlation, [np.flatnonzero(first), np.flatnonzero(~first)]))
    search = SplitSearch(correlation, attribute, [half, number // 2])
    assert search.least.icor == pytest.approx(min(everything), abs=1e-9)
    assert search.most.icor == pytest.approx(max(everything), abs=1e-9)


def test_beta_is_where_icor_lies() -> None:
    data = load_dataset("breast-cancer")
    attribute, correlation, parties, sizes = attributes_of(data), spearman(data), 3, [10, 10, 10]
    search = split_search(data, attribute, sizes)
    for seed in (0, 1):
        found = []
        for beta in (0, 0.25, 0.5, 0.75, 1):
            columns = make_partition(f"vertical-correlation({parties}, {beta})", data, None, seed).columns
            assert columns is not None
            assert sorted(np.concatenate(columns).tolist()) == list(range(30))
            assert [len(part) for part in columns] == sizes
            found.append(search.scaled(icor(correlation, columns)))
        assert found[0] == pytest.approx(0, abs=1e-12)
        assert found[-1] == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(found, [0, 0.25, 0.5, 0.75, 1], atol=0.02)
        assert found == sorted(found)


def test_what_goes_together_stays_together_at_beta_0() -> None:
    data = pairs(4)
    for seed in range(3):
        low, high = (
            make_partition(f"vertical-correlation(2, {beta})", data, None, seed).columns for beta in (0, 1)
        )
        assert low is not None
        assert high is not None
        twins = [set((part // 2).tolist()) for part in low]
        assert not twins[0] & twins[1]
        assert all(len(set((part // 2).tolist())) == 4 for part in high)


def test_the_seed_decides_and_asking_before_changes_nothing() -> None:
    data = load_dataset("breast-cancer")

    def split(beta: float, seed: int) -> list[list[int]]:
        columns = make_partition(f"vertical-correlation(3, {beta})", data, None, seed).columns
        assert columns is not None
        return [part.tolist() for part in columns]

    first = split(0.5, 0)
    split(0.3, 7)
    assert split(0.5, 0) == first
    assert split(0.5, 1) != first
    assert len({str(split(0, seed)[0]) for seed in range(8)}) == 3  # which third has the labels


def test_too_many_columns() -> None:
    x, y = np.zeros((5, 300), np.float32), np.arange(5) % 2
    with pytest.raises(UserError, match=r"the 300 columns of wide take too long: at most 256\. Use vertical"):
        make_partition("vertical-correlation(2, 0.5)", Dataset("wide", x, y, x, y, ("a", "b")), None, 0)
