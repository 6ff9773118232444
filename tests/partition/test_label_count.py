"""#C = k: exactly k labels for each party, an owner for each label, equal shares, the public code's law."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unalike.data import Dataset
from unalike.errors import UserError
from unalike.partition import make_partition
from unalike.partition.label_count import assign_labels

Make = Callable[..., Dataset]


@settings(deadline=None)
@given(labels=st.integers(1, 15), parties=st.integers(1, 40), seed=st.integers(0, 2**32), data=st.data())
def test_k_labels_each_and_an_owner_for_all(labels: int, parties: int, seed: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(-(-labels // parties), labels))
    owns = assign_labels(parties, labels, k, np.random.default_rng(seed))
    assert (owns.sum(axis=1) == k).all()
    assert owns.any(axis=0).all()
    assert all(owns[party, party % labels] for party in range(parties))


@settings(deadline=None, max_examples=50)
@given(parties=st.integers(5, 20), k=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_rows_are_shared_equally(made: Make, parties: int, k: int, seed: int) -> None:
    dataset = made(np.random.default_rng(seed).permutation(np.arange(503) % 5), 5)
    counts = make_partition(f"label-count({k})", dataset, parties, seed).label_counts(dataset)
    assert ((counts > 0).sum(axis=1) == k).all()
    for column in counts.T:
        assert column[column > 0].max() - column[column > 0].min() <= 1


def test_rows_of_a_label_are_dealt_at_random(made: Make) -> None:
    dataset = made(np.zeros(41, int), 1)
    parts = [make_partition("label-count(1)", dataset, 2, seed).rows[0] for seed in range(400)]
    assert abs(np.mean([rows.mean() for rows in parts]) - 20) < 1
    assert 140 < sum(len(rows) == 21 for rows in parts) < 260  # the odd row is anybody's


@pytest.mark.parametrize(("parties", "labels", "k"), [(2, 4, 3), (3, 4, 2), (3, 5, 3), (4, 3, 2)])
def test_law_of_the_public_code_given_that_all_labels_have_owners(parties: int, labels: int, k: int) -> None:
    # The public code takes each set of k - 1 labels beside a party's first with the same probability.
    sets = [combinations([label for label in range(labels) if label != i % labels], k - 1) for i in range(parties)]
    possible = set()
    for others in product(*sets):
        owns = np.zeros((parties, labels), bool)
        for party, chosen in enumerate(others):
            owns[party, [party % labels, *chosen]] = True
        if owns.any(axis=0).all():
            possible.add(owns.tobytes())
    rng = np.random.default_rng(5)
    drawn = Counter(assign_labels(parties, labels, k, rng).tobytes() for _ in range(1200))
    assert set(drawn) <= possible
    assert len(possible) > 1
    assert stats.chisquare([drawn[kind] for kind in sorted(possible)]).pvalue > 1e-3


def test_many_labels_and_just_enough_places() -> None:
    for parties, labels, k in ((10, 1000, 100), (100, 1000, 10), (999, 1000, 2)):
        owns = assign_labels(parties, labels, k, np.random.default_rng(0))
        assert (owns.sum(axis=1) == k).all()
        assert owns.any(axis=0).all()


def test_a_label_with_fewer_rows_than_owners(made: Make) -> None:
    dataset = made(np.array([0] * 20 + [1] * 2), 2)
    with pytest.raises(UserError, match=r"^Label '1' of made has 2 row\(s\) for 5 parties\. Use fewer parties"):
        make_partition("label-count(2)", dataset, 5, 0)
