"""Cuts that parties agree on by counts alone: the same for every split, nobody's value, no rare bins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from unalike.trees import agreed

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def agree(parts, bins=16, least_rows=1):
    """The cuts of rows that lie at several places, by sums of counts, and all buckets that were counted."""
    features = parts[0].shape[1]
    buckets = agreed.first_buckets(sum(agreed.first_counts(x) for x in parts))
    for division in range(agreed.DIVISIONS):
        chosen = buckets.to_divide(bins, least_rows)
        bits = agreed.FIRST + division * agreed.MORE
        column, low = buckets.column[chosen], buckets.low[chosen]
        counts = sum(agreed.fine_counts(x, column, low, bits) for x in parts)
        buckets = buckets.divided(chosen, counts)
    return agreed.cuts_between(buckets, features, bins, least_rows), buckets


def rows_by_bin(x, cuts):
    return np.bincount(np.searchsorted(cuts, x[~np.isnan(x)], side="right"), minlength=len(cuts) + 1)


@given(st.lists(FLOATS, min_size=1, max_size=50))
def test_places_rise_with_numbers_and_lead_back_to_them(numbers):
    x = np.sort(np.array(numbers, np.float32)) + np.float32(0)
    found = agreed.places(x)
    assert (np.diff(found) >= 0).all()
    assert ((np.diff(found) > 0) == (np.diff(x) > 0)).all()
    assert (agreed.number_at(found) == x).all()


def test_minus_zero_is_zero_and_infinite_is_the_greatest():
    most = np.finfo(np.float32).max
    places = agreed.places(np.array([-0.0, 0.0, np.inf, most, -np.inf, -most, 1e300]))
    assert places[0] == places[1]
    assert places[2] == places[3] == places[6]
    assert places[4] == places[5]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(FLOATS | st.just(0.0) | st.just(float("nan")), st.integers(0, 3)), min_size=1, max_size=80),
    st.integers(1, 6),
    st.integers(2, 9),
)
def test_cuts_are_the_same_whoever_holds_which_row(rows, least_rows, bins):
    x = np.array([value for value, _ in rows], np.float32)[:, None]
    owner = np.array([party for _, party in rows])
    whole, _ = agree([x], bins, least_rows)
    parts, _ = agree([x[owner == party] for party in range(4)], bins, least_rows)
    sparse, _ = agree([csr_matrix(x[owner < 2]), csr_matrix(x[owner >= 2])], bins, least_rows)
    for other in (parts, sparse):
        assert whole.values.tobytes() == other.values.tobytes()
        assert whole.starts.tobytes() == other.starts.tobytes()
    assert len(whole.values) <= bins - 1
    assert (np.diff(whole.values) > 0).all()
    assert np.isfinite(whole.values).all()
    counts = rows_by_bin(x[:, 0], whole.values)
    assert len(counts) == 1 or counts.min() >= least_rows


@pytest.mark.parametrize(
    "values", [(0, 1), (0, 1, 2, 3, 4, 5, 6, 7), (-1, 0, 1), (-0.731, 2.25), (17, 18, 19, 90)]
)
def test_few_distinct_values_are_all_told_apart(values):
    x = np.repeat(np.array(values, np.float64), 30)[:, None]
    cuts, _ = agree([x], bins=64, least_rows=20)
    assert len(cuts.values) == len(values) - 1
    assert (rows_by_bin(x[:, 0], cuts.values) == 30).all()


def test_a_common_value_leaves_bins_for_the_others():
    rest = np.random.default_rng(1).exponential(size=2000)
    x = np.concatenate([np.zeros(8000), rest])[:, None]
    cuts, _ = agree([x], bins=16, least_rows=20)
    counts = rows_by_bin(x[:, 0].astype(np.float32), cuts.values)
    assert len(counts) == 16
    assert counts[0] >= 8000
    assert counts[1:].max() < 2 * 2000 / 15


def test_bins_have_about_as_many_rows_each():
    x = np.random.default_rng(2).normal(size=(20_000, 1))
    cuts, _ = agree([x], bins=64, least_rows=20)
    counts = rows_by_bin(x[:, 0].astype(np.float32), cuts.values)
    assert len(counts) >= 60
    assert counts.max() < 1.6 * 20_000 / 64


def test_no_cut_is_a_value_and_rare_buckets_are_not_looked_into():
    """One row far from the others: neither a cut beside it nor its value to more than the first bits."""
    x = np.random.default_rng(3).normal(size=(5000, 1)).astype(np.float32)
    x[17] = 1234.56
    cuts, buckets = agree([x], bins=64, least_rows=20)
    assert not np.isin(cuts.values, x).any()
    assert cuts.values.max() < 5
    lonely = buckets.where(buckets.low > agreed.places(np.array([100.0]))[0])
    assert lonely.bits.tolist() == [agreed.FIRST]


def test_a_column_of_one_value_or_of_none_has_no_cut():
    x = np.stack([np.full(50, 3.0), np.full(50, np.nan)], axis=1)
    cuts, _ = agree([x])
    assert cuts.starts.tolist() == [0, 0, 0]
    assert cuts.slots == 4
    assert agreed.first_counts(x)[1, agreed.MISSING] == 50


@pytest.mark.parametrize("rows", [9, 10])
def test_a_bucket_that_few_rows_share_is_not_looked_into(rows):
    """Two bins of five rows each need ten: a count inside a smaller bucket could tell of single rows."""
    buckets = agreed.Buckets(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([9]), np.array([rows]))
    assert len(buckets.to_divide(bins=8, least_rows=5)) == (rows == 10)
