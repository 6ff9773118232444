"""A tree grown by steps, by hand, and by several parties: the same bits."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.models.trees import Trees
from unalike.trees.bins import bin_rows, bins_of
from unalike.trees.building import Building, Moves
from unalike.trees.cuts import Cuts
from unalike.trees.grow import Growing, add_values, grow, histograms, leaves, move
from unalike.trees.split import channels_of
from unalike.trees.tree import Tree


def made(seed, rows=200, features=5, most_cuts=6, missing=0.1):
    """Rows of mixed columns (some mostly zero, some constant), their cuts, and gradients."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, features)).astype(np.float32)
    for j in range(0, features, 2):
        x[random.random(rows) < 0.8, j] = 0
    x[random.random(x.shape) < missing] = np.nan
    values = [
        np.sort(random.normal(size=random.integers(0, most_cuts + 1))).astype(np.float32) for _ in range(features)
    ]
    starts = np.concatenate([[0], np.cumsum([len(v) for v in values])]).astype(np.int64)
    cuts = Cuts(np.concatenate(values), starts)
    g = random.integers(-(2**20), 2**20, rows).astype(np.int32)
    h = random.integers(0, 2**18, rows).astype(np.int32)
    return x, cuts, g, h


def same(one, two):
    for name, array in one.arrays().items():
        assert np.array_equal(array, two.arrays()[name], equal_nan=True), name


CHOICES = st.builds(
    Trees,
    depth=st.integers(1, 5),
    least_rows=st.sampled_from([1, 5]),
    least_weight=st.sampled_from([0.0, 1.0]),
    l2=st.sampled_from([0.0, 1.0]),
    gain=st.sampled_from([0.0, 2.0]),
    grow=st.sampled_from(["levels", "leaves"]),
    leaves=st.sampled_from([0, 4, 7]),
    rising=st.sampled_from([(), (0, 3)]),
    falling=st.sampled_from([(), (1,)]),
    objective=st.sampled_from(["auto", "poisson"]),
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), CHOICES, st.integers(1, 4))
def test_the_tree_does_not_depend_on_who_holds_which_row(seed, choice, parties):
    x, cuts, g, h = made(seed)
    whole = grow(bin_rows(x, cuts), g, h, choice)
    holder = np.random.default_rng(seed).integers(0, parties, len(x))
    rows = [np.flatnonzero(holder == k) for k in range(parties)]
    binned = [bin_rows(x[r], cuts) for r in rows]
    growing = [Growing.start(len(r), choice) for r in rows]
    building = Building(cuts, choice)
    shapes = {name: array.shape for name, array in building.arrays().items()}
    while len(building.wanted):
        sums = sum(
            histograms(b, g[r], h[r], s, building.wanted, channels_of(choice))
            for b, r, s in zip(binned, rows, growing, strict=True)
        )
        moves = Moves.of(building.hear(sums).arrays())
        growing = [Growing.of(move(b, s, moves).arrays()) for b, s in zip(binned, growing, strict=True)]
        written = building.arrays()
        assert {name: array.shape for name, array in written.items()} == shapes
        building = Building.of(written, cuts, choice)
    same(building.tree, whole)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), CHOICES)
def test_every_row_is_in_the_leaf_that_its_values_say(seed, choice):
    x, cuts, g, h = made(seed)
    tree = grow(bin_rows(x, cuts), g, h, choice)
    found = leaves(bin_rows(x, cuts), tree)
    for row in range(len(x)):
        node = 0
        while tree.feature[node] >= 0:
            value = x[row, tree.feature[node]]
            left = tree.missing_left[node] if np.isnan(value) else value < tree.threshold[node]
            node = tree.left[node] if left else tree.right[node]
        assert found[row] == node
    margins = np.zeros((len(x), 2))
    add_values(margins[:, 1], bin_rows(x, cuts), tree)
    assert np.array_equal(margins[:, 1], tree.value[found])
    assert not margins[:, 0].any()


def test_bins():
    cuts = np.array([0.0, 1.0], np.float32)
    assert bins_of(np.array([-1, 0, 0.5, 1, 9, np.nan]), cuts).tolist() == [0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_sparse_rows_are_as_dense_ones(missing):
    x, cuts, g, h = made(3, missing=missing)
    x[:, 1] = 0
    tree = grow(bin_rows(x, cuts), g, h, Trees(least_rows=1))
    same(grow(bin_rows(scipy.sparse.csr_matrix(x), cuts), g, h, Trees(least_rows=1)), tree)


def test_a_histogram_is_every_rows_sum():
    x, cuts, g, h = made(5)
    binned = bin_rows(x, cuts)
    found = histograms(binned, g, h, Growing.start(len(x), Trees()), np.zeros(1, np.int32), 3)[0]
    for j in range(cuts.features):
        bins = bins_of(x[:, j], cuts.of_feature(j))
        for b in range(cuts.offsets[j + 1] - cuts.offsets[j]):
            here = bins == b
            assert found[cuts.offsets[j] + b].tolist() == [g[here].sum(), h[here].sum(), here.sum()]


@pytest.mark.parametrize("most", [8, 20])
def test_columns_that_never_meet_share_a_place(most):
    """Even where one of them is 1 in most rows."""
    x = np.eye(8, dtype=np.float32)[np.arange(100) % most % 8 * (np.arange(100) % most < 8)]
    cuts = Cuts(np.full(8, 0.5, np.float32), np.arange(9))
    assert bin_rows(x, cuts).places == 1


def test_sampled_rows_alone_decide():
    x, cuts, g, h = made(7)
    rows = np.flatnonzero(np.arange(len(x)) % 3)
    margins = np.zeros(len(x))
    tree = grow(bin_rows(x, cuts), g, h, Trees(least_rows=2), rows=rows, margins=margins)
    same(tree, grow(bin_rows(x[rows], cuts), g[rows], h[rows], Trees(least_rows=2)))
    assert np.array_equal(margins, tree.value[leaves(bin_rows(x, cuts), tree)])


def test_bad_columns():
    x, cuts, g, h = made(1)
    with pytest.raises(UserError, match="5 columns"):
        bin_rows(x[:, :3], cuts)
    with pytest.raises(UserError, match="rising names column 9"):
        grow(bin_rows(x, cuts), g, h, Trees(rising=(9,)))


def test_rising_rises():
    x, cuts, g, h = made(2, rows=400, most_cuts=12, missing=0)
    tree = grow(bin_rows(x, cuts), g, h, Trees(rising=(1,), falling=(3,), least_rows=1, depth=4))
    for feature, sign in ((1, 1), (3, -1)):
        line = np.repeat(x[:20], 50, axis=0)
        line[:, feature] = np.tile(np.linspace(-3, 3, 50), 20)
        values = tree.value[leaves(bin_rows(line, cuts), tree)].reshape(20, 50)
        assert (sign * np.diff(values, axis=1) >= 0).all()


def test_arrays_of_a_tree():
    x, cuts, g, h = made(4)
    tree = grow(bin_rows(x, cuts), g, h, Trees())
    same(Tree.of(tree.arrays()), tree)
    assert tree.size == 2 * int((tree.feature >= 0).sum()) + 1
