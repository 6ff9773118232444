"""Encrypted sums by candidate are the sums in the clear, whatever is missing, frequent or sparse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.models.trees import Trees
from unalike.secure.crypto.additive import Ciphers, decrypt, encrypt, make_keys
from unalike.trees.agreed import own_cuts
from unalike.trees.bins import bin_rows
from unalike.trees.grow import Growing, histograms
from unalike.vertical import candidates as module
from unalike.vertical.candidates import Candidates, has_missing, slot_products

KEYS = make_keys(b"c" * 32, 512)


def table(seed, rows, few):
    """Columns of numbers, of few values (which share places), and of two values, some missing."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 6))
    x[:, 1] = random.integers(0, few, rows)
    x[:, 2:4] = np.eye(3)[random.integers(0, 3, rows)][:, :2]
    x[random.random(rows) < 0.2, 0] = np.nan
    x[random.random(rows) < 0.7, 4] = np.nan  # the most frequent bin is that of missing values
    x[:, 5] = 1
    return x.astype(np.float32)


@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 6), st.integers(2, 9))
@settings(max_examples=25, deadline=None)
def test_products_of_ciphers_are_sums_in_the_clear(seed, rows, few, bins):
    x = table(seed, rows, few)
    binned = bin_rows(x, own_cuts(x, bins, 1))
    random = np.random.default_rng(seed + 1)
    g, h = random.integers(-(2**20), 2**20, rows), random.integers(0, 2**18, rows)
    chosen = np.flatnonzero(random.random(rows) < 0.8).astype(np.int32)
    offered = Candidates.of(binned, np.array([True] * 5 + [seed % 2 == 0]))
    growing = Growing.start(chosen, Trees(depth=1))
    hist = histograms(binned, g.astype(np.int32), h.astype(np.int32), growing, np.array([0]), 3)[0]
    expected = offered.sums(binned, hist)
    numbers = [(int(a) << 40) + int(b) for a, b in zip(g, h, strict=True)]
    ciphers, modulus = encrypt(KEYS, numbers, b"1" * 32), KEYS.public.modulus
    (total,) = encrypt(KEYS, [sum(numbers[row] for row in chosen)], b"2" * 32).values
    short = slot_products(binned, ciphers.values, modulus, chosen)
    found = decrypt(KEYS, Ciphers(KEYS.public, offered.products(binned, short, total, modulus)))
    assert found == [(int(a) << 40) + int(b) for a, b, _ in expected]
    assert (offered.counts(binned, growing, np.array([0], np.int32))[0] == expected[:, 2]).all()


def test_candidates_are_in_the_order_in_which_joint_trees_prefer_them():
    x = table(0, 80, 3)
    binned = bin_rows(x, own_cuts(x, 4, 1))
    offered = Candidates.of(binned, np.ones(6, bool))
    assert (np.diff(offered.feature) >= 0).all()
    for feature in range(6):
        own = offered.feature == feature
        cuts, gaps = len(binned.cuts.of_feature(feature)), bool(np.isnan(x[:, feature]).any())
        assert has_missing(binned, feature) == gaps
        ascending = list(range(cuts + gaps))
        assert offered.bin[own].tolist() == ascending + (list(range(cuts - 1, -1, -1)) if gaps else [])
        assert offered.missing_left[own].tolist() == [False] * len(ascending) + [True] * (cuts * gaps)
    assert len(Candidates.of(binned, np.zeros(6, bool))) == 0


def test_going_through_several_places_at_once_takes_fewer_multiplications():
    random = np.random.default_rng(0)
    x = random.integers(0, 4, (3000, 6)).astype(np.float32)
    binned = bin_rows(x, own_cuts(x, 8, 1))
    codes = {place: binned.columns[place].astype(np.int64) for place in range(binned.places)}
    groups = module._groups(binned, codes)
    assert sorted(place for group in groups for place in group) == list(range(binned.places))
    assert len(groups) <= 2, "cells of several columns of four values are far fewer than rows"
    few = {place: column[:10] for place, column in codes.items()}
    assert len(module._groups(binned, few)) == binned.places, "with few rows, cells are not worth it"


@pytest.mark.parametrize("rows", [0, 1])
def test_nodes_of_no_or_one_row_have_sums_too(rows):
    x = table(1, 30, 3)
    binned = bin_rows(x, own_cuts(x, 4, 1))
    ciphers = encrypt(KEYS, range(30), b"1" * 32)
    short = slot_products(binned, ciphers.values, KEYS.public.modulus, np.arange(rows, dtype=np.int32))
    assert len(short) == binned.slots
