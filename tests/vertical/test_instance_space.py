"""Rows by node: bits that are told move rows as the splits do that they come from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.models.trees import Trees
from unalike.trees.bins import bin_rows
from unalike.trees.building import Moves
from unalike.trees.cuts import Cuts
from unalike.trees.grow import Growing, move
from unalike.trees.reference import goes_left
from unalike.trees.tree import Tree
from unalike.vertical.instance_space import drawn_of, from_bits, leaf_values, moved, to_bits

SETTINGS = Trees(depth=2)


@given(st.lists(st.lists(st.booleans(), max_size=20), max_size=5))
@settings(max_examples=50, deadline=None)
def test_bits_are_read_as_they_were_written_and_nothing_else_is(parts):
    parts = [np.array(part, bool) for part in parts]
    lengths = [len(part) for part in parts]
    packed = to_bits(parts)
    assert [part.tolist() for part in from_bits(packed, lengths)] == [part.tolist() for part in parts]
    with pytest.raises(ValueError):
        from_bits(np.append(packed, np.uint8(0)), lengths)
    if len(packed):
        with pytest.raises(ValueError):
            from_bits(packed[:-1], lengths)
    if lengths and lengths[-1] % 8:
        with pytest.raises(ValueError, match="zeros behind"):
            from_bits(np.append(packed[:-1], packed[-1] | 1).astype(np.uint8), lengths)


def test_bits_of_other_lengths_are_refused():
    packed = to_bits([np.array([True, False, True]), np.ones(8, bool)])
    assert [part.tolist() for part in from_bits(packed, [3, 8])] == [[True, False, True], [True] * 8]
    for wrong, lengths in ((packed, [2, 8]), (packed, [3]), (packed[:1], [3, 8]), (packed | 1, [3, 8])):
        with pytest.raises(ValueError, match="are needed"):
            from_bits(wrong, lengths)


def test_rows_move_by_bits_as_they_do_by_bins():
    x = np.random.default_rng(0).normal(size=(50, 1)).astype(np.float32)
    binned = bin_rows(x, Cuts(np.array([-0.5, 0.3], np.float32), np.array([0, 2])))
    numbers = (np.array([value], np.int32) for value in (0, 0, 1, 0, 1, 2))
    by_bins = move(binned, Growing.start(50, SETTINGS), Moves(*numbers))
    start = Growing.start(50, SETTINGS)
    by_bits = moved(start, [(0, 1, 2, goes_left(binned, start.rows(0), 0, 1, False))])
    for name, array in by_bins.arrays().items():
        assert np.array_equal(array, by_bits.arrays()[name])
    drawn = np.arange(50) % 3 == 0
    for node in range(3):
        rows = by_bits.rows(node)
        assert drawn_of(by_bits, drawn).rows(node).tolist() == rows[drawn[rows]].tolist()
    assert drawn_of(by_bits, np.ones(50, bool)) is by_bits


def test_splits_of_nodes_that_are_not_there_are_refused():
    start = Growing.start(4, SETTINGS)
    left = np.array([True, False, False, True])
    for node, a, b, bits in (
        (0, 1, 9, left),
        (-1, 1, 2, left),
        (0, 2, 1, left),
        (0, 1, 2, left[:3]),
        (1, 3, 4, left),
    ):
        with pytest.raises(ValueError):
            moved(start, [(node, a, b, bits)])
    with pytest.raises(ValueError, match="cannot be split"):
        moved(moved(start, [(0, 1, 2, left)]), [(0, 1, 2, left)])


def test_every_row_has_the_value_of_its_leaf():
    tree = Tree.empty(SETTINGS)
    tree.left[0], tree.right[0] = 1, 2
    tree.value[:3] = [9, -1.5, 2]
    growing = moved(Growing.start(3, SETTINGS), [(0, 1, 2, np.array([False, True, False]))])
    assert leaf_values(growing, tree).tolist() == [2, -1.5, 2]
