"""Rows and names of very many parties, against the plain tuples that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.partition.by_party import NumberedNames, RowsByParty, all_rows, sizes_of

PARTIES = st.lists(
    st.lists(st.integers(0, 99), max_size=6).map(lambda rows: np.array(rows, np.int64)), max_size=12
)


@given(PARTIES)
def test_rows_by_party_are_the_plain_arrays(plain):
    made = RowsByParty.of(iter(plain))
    assert len(made) == len(plain)
    assert [rows.tolist() for rows in made] == [rows.tolist() for rows in plain]
    assert [made[k].tolist() for k in range(len(plain))] == [rows.tolist() for rows in plain]
    assert [rows.tolist() for rows in made[1:-1]] == [rows.tolist() for rows in plain[1:-1]]
    assert sizes_of(made).tolist() == sizes_of(plain).tolist() == [len(rows) for rows in plain]
    if plain:
        assert made[-1].tolist() == plain[-1].tolist()
        assert all_rows(made).tolist() == np.concatenate(plain).tolist()
    with pytest.raises(IndexError):
        made[len(plain)]


@given(PARTIES.filter(bool), st.integers(0, 2**32))
def test_counts_and_places_are_those_of_each_party(plain, seed):
    labels, made = np.random.default_rng(seed).integers(0, 4, 100), RowsByParty.of(plain)
    assert made.counts(labels, 4).tolist() == [np.bincount(labels[rows], minlength=4).tolist() for rows in plain]
    assert [rows.tolist() for rows in made.among(labels)] == [labels[rows].tolist() for rows in plain]


def test_a_party_is_a_view_and_sizes_must_fit():
    made = RowsByParty(np.arange(10), np.array([4, 6]))
    assert np.shares_memory(made[1], made.order)
    with pytest.raises(ValueError, match="add up to 5"):
        RowsByParty(np.arange(10), np.array([4, 1]))


def test_numbered_names_are_a_tuple_in_all_that_is_asked_of_it():
    made, plain = NumberedNames(3), ("party 0", "party 1", "party 2")
    assert list(made) == list(plain)
    assert made == plain
    assert plain == made
    assert hash(made) == hash(plain)
    assert repr(made) == repr(plain)  # hashes of data sets are made of it
    assert made[-1] == plain[-1]
    assert made[:2] == plain[:2]
    assert made.index("party 2") == 2
    assert made != NumberedNames(4)
    assert made != ("a", "b", "c")
    with pytest.raises(IndexError):
        made[3]
