"""FCUBE as NIID-Bench, section 4.2, describes it."""

from __future__ import annotations

import numpy as np
import pytest

from unalike.data import load_dataset
from unalike.errors import UserError


def test_sizes_range_and_labels() -> None:
    cube = load_dataset("fcube")
    assert cube.x.shape == (4000, 3)
    assert cube.x_test.shape == (1000, 3)
    for x, y in ((cube.x, cube.y), (cube.x_test, cube.y_test)):
        assert x.dtype == np.float32
        assert np.abs(x).max() < 1
        assert np.abs(x).min() > 0
        np.testing.assert_array_equal(y == 0, x[:, 0] > 0)


def test_a_party_is_two_opposite_octants_with_balanced_labels() -> None:
    cube = load_dataset("fcube")
    assert cube.group is not None
    assert len(cube.group_names) == 4
    seen = []
    for party in range(4):
        octants, counts = np.unique(np.sign(cube.x[cube.group == party]), axis=0, return_counts=True)
        assert counts.tolist() == [500, 500]
        np.testing.assert_array_equal(octants[0], -octants[1])
        seen += [tuple(octant) for octant in octants]
        signs = {"".join("+" if s > 0 else "-" for s in octant) for octant in octants}
        assert set(cube.group_names[party].split("/")) == signs
    assert len(set(seen)) == 8


def test_points_are_uniform() -> None:
    cube = load_dataset("fcube(seed=3)")
    for x in (cube.x, cube.x_test):
        assert np.abs(x.mean(axis=0)).max() < 5 * np.sqrt(1 / 3 / len(x))
        # |x| is uniform on (0, 1): no tenth of it is far from its share
        for column in np.abs(x).T:
            shares = np.histogram(column, bins=10, range=(0, 1))[0] / len(x)
            assert np.abs(shares - 0.1).max() < 5 * np.sqrt(0.09 / len(x))
    octants = np.unique(np.sign(cube.x_test), axis=0, return_counts=True)[1]
    assert len(octants) == 8
    assert np.abs(octants - 125).max() < 5 * np.sqrt(125)


def test_seed_alone_decides() -> None:
    np.testing.assert_array_equal(load_dataset("fcube").x, load_dataset("fcube(seed=0)").x)
    assert not np.array_equal(load_dataset("fcube").x, load_dataset("fcube(1)").x)
    with pytest.raises(UserError, match="fcube's seed must be >= 0, got -1"):
        load_dataset("fcube(-1)")
