"""Degrees against scipy on the expanded samples, their bounds and symmetries, and what chance makes of a split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from unalike.data import load_dataset
from unalike.errors import UserError
from unalike.measure import measure, party_labels
from unalike.measure.cdf import Cdf
from unalike.measure.degree import Degree, distances, expected, headline, meaning
from unalike.measure.publish import summarise
from unalike.measure.support import DistributionPolicy
from unalike.partition import make_partition

COUNTS = hnp.arrays(np.int64, st.integers(2, 9), elements=st.integers(0, 12)).filter(lambda row: row.sum() > 0)


@st.composite
def pairs(draw):
    one = draw(COUNTS)
    same = hnp.arrays(np.int64, len(one), elements=st.integers(0, 12)).filter(lambda row: row.sum() > 0)
    return one, draw(same)


def cdf(counts):
    return np.cumsum(counts) / counts.sum()


def whole(counts):
    return Cdf(np.cumsum(counts, axis=-1)[None], int(np.sum(counts)))


def degree(one, other):
    return Degree(*distances(whole(one), whole(other))[:, 0].tolist())


def expand(counts):
    return np.repeat(np.arange(len(counts)), counts)


@settings(max_examples=80, deadline=None)
@given(pairs())
def test_against_scipy(pair):
    one, other = pair
    found = degree(one, other)
    a, b, points = expand(one), expand(other), len(one)
    with np.errstate(divide="ignore"):  # scipy's p-value, which is not looked at, of a single row
        statistic = stats.ks_2samp(a, b, method="asymp").statistic
    assert found.kolmogorov_smirnov == pytest.approx(statistic, abs=1e-12)
    assert found.area == pytest.approx(stats.wasserstein_distance(a, b) / (points - 1), abs=1e-12)
    assert found.total_variation == pytest.approx(
        np.abs(one / one.sum() - other / other.sum()).sum() / 2, abs=1e-12
    )
    # Cramer-von Mises: the integral of d^2 along the mixture, ties spread evenly, by brute force
    fine = np.linspace(0, 1, 401)
    f, g = (np.append(0.0, cdf(x)) for x in (one, other))
    cuts = np.arange(points + 1)
    at = np.unique(np.concatenate([step + fine for step in range(points)]))
    difference = np.interp(at, cuts, f) - np.interp(at, cuts, g)
    mixture = (np.interp(at, cuts, f) + np.interp(at, cuts, g)) / 2
    integral = np.trapezoid(difference**2, mixture)
    assert found.cramer_von_mises == pytest.approx(np.sqrt(3 * integral), abs=2e-3)


@given(st.permutations(range(20)))
def test_cramer_von_mises_of_samples_without_ties_is_scipys(order):
    """Equal sizes n, no ties: I = 2 T / n - 1 / (6 n^2), as a row that is spread evenly takes 1 / (6 n^2) away."""
    n = 10
    a, b = np.array(order[:n]), np.array(order[n:])
    statistic = stats.cramervonmises_2samp(a, b, method="asymptotic").statistic
    found = degree(np.bincount(a, minlength=20), np.bincount(b, minlength=20))
    # scipy's T is n/2 times the mean of d^2 over all rows: Anderson 1962, equation 2
    assert found.cramer_von_mises**2 / 3 == pytest.approx(2 * statistic / n - 1 / (6 * n**2), abs=1e-12)


@settings(max_examples=80, deadline=None)
@given(pairs())
def test_bounds_symmetry_and_zero(pair):
    one, other = map(whole, pair)
    found = distances(one, other)[:, 0]
    assert ((found >= 0) & (found <= 1)).all()
    np.testing.assert_array_equal(found, distances(other, one)[:, 0])
    same = np.array_equal(pair[0] * pair[1].sum(), pair[1] * pair[0].sum())
    assert ((found == 0) == same).all()
    ks, area, _, variation = found
    assert area <= ks + 1e-12
    assert ks <= variation + 1e-12


@given(pairs())
def test_the_order_of_labels_read_backwards_changes_nothing(pair):
    forward = distances(*map(whole, pair))
    backward = distances(*(whole(counts[::-1]) for counts in pair))
    np.testing.assert_allclose(forward, backward, atol=1e-12)


def test_as_far_apart_as_can_be():
    found = degree([1, 0, 0, 0], [0, 0, 0, 1])
    assert (found.kolmogorov_smirnov, found.area, found.cramer_von_mises, found.total_variation) == (1, 1, 1, 1)
    near = degree([1, 0, 0, 0], [0, 1, 0, 0])
    assert near.area == pytest.approx(1 / 3)  # a third of the range; nothing in common all the same
    assert (near.kolmogorov_smirnov, near.cramer_von_mises) == (1, 1)


def test_nominal_labels_only_total_variation_ignores_their_order():
    one, other = np.array([5, 0, 5, 0]), np.array([0, 5, 0, 5])
    shuffled = [0, 2, 1, 3]
    before, after = degree(one, other), degree(one[shuffled], other[shuffled])
    assert before.total_variation == after.total_variation == 1
    assert before.kolmogorov_smirnov == 0.5
    assert after.kolmogorov_smirnov == 1


@settings(max_examples=80, deadline=None)
@given(pairs(), st.randoms(use_true_random=False))
def test_total_variation_has_the_same_bits_in_any_order_of_labels(pair, random):
    """Also what chance makes of it: nobody's headline depends on how classes are numbered."""
    order = list(range(len(pair[0])))
    random.shuffle(order)
    one, other = pair
    assert degree(one, other).total_variation == degree(one[order], other[order]).total_variation
    policy = DistributionPolicy(4, "rows", 10**6, 2**16, tuple(map(str, order)))
    by_chance = [expected(policy, whole(counts), 1).total_variation for counts in (other, other[order])]
    assert by_chance[0] == by_chance[1]


def test_which_degree_stands_first():
    assert (headline("labels"), headline("features")) == ("tv", "cdf")
    for of, wish in (("labels", "cdf"), ("labels", "tv"), ("features", "cdf")):
        assert headline(of, wish) == wish
    with pytest.raises(UserError, match="how wide their bins are"):
        headline("features", "tv")
    with pytest.raises(UserError, match="Unknown degree 'ks'"):
        headline("labels", "ks")


@pytest.mark.parametrize(
    ("of", "first", "mean", "says"),
    [
        ("labels", "tv", 0.14, "no sign that the parties' labels differ"),
        ("labels", "tv", 0.2, "mildly unlike: on average 20 % of a party's rows would have to change their label"),
        ("labels", "tv", 0.4, "clearly unlike: on average 40 %"),
        ("labels", "tv", 0.6, "strongly unlike"),
        ("labels", "cdf", 0.4, "strongly unlike: up to some label, a party has on average 40 percentage points"),
        ("features", "cdf", 0.2, "clearly unlike: up to some value"),
    ],
)
def test_a_degree_in_words(of, first, mean, says):
    assert says in meaning(of, first, mean, 0.1)


def test_a_single_label_has_no_distance():
    assert distances(whole([3]), whole([5])).tolist() == [[0.0]] * 4


@pytest.mark.parametrize("shares", [[0.1] * 10, [0.9, 0.1], [0.5, 0.2, 0.1, 0.1, 0.1], [1 / 200] * 200])
@pytest.mark.parametrize(("rows", "share"), [(40, 0.1), (400, 0.25)])
def test_expected_is_what_random_rows_show(shares, rows, share):
    rng = np.random.default_rng(0)
    everyone = np.round(np.array(shares) * rows / share).astype(int)
    policy = DistributionPolicy(4, "rows", 10**6, 2**16, tuple(map(str, range(len(shares)))))
    pool = whole(everyone)
    drawn = rng.multivariate_hypergeometric(everyone, rows, size=600)
    found = distances(Cdf(drawn.cumsum(axis=1), rows), pool).mean(axis=1)
    by_chance = expected(policy, pool, rows)
    names = ("kolmogorov_smirnov", "area", "cramer_von_mises", "total_variation")
    np.testing.assert_allclose([getattr(by_chance, name) for name in names], found, rtol=0.15, atol=0.002)


def test_expected_of_a_continuous_variable():
    policy = DistributionPolicy(4, "rows", 10**6, 2**16, low=(0.0,), high=(1.0,), bins=1000)
    pool = Cdf(np.linspace(0, 1, 1001)[None, 1:], 10**9)
    # E sup |bridge| = sqrt(pi / 2) ln 2 and E of the mean of |bridge| = sqrt(2 pi) / 8, each times 1 / sqrt(n)
    found = expected(policy, pool, 100)
    assert found.kolmogorov_smirnov == pytest.approx(np.sqrt(np.pi / 2) * np.log(2) / 10, rel=0.06)
    assert found.area == pytest.approx(np.sqrt(2 * np.pi) / 8 / 10, rel=0.06)


def degrees_of(text, parties, seed, data):
    made = make_partition(text, data, parties, seed)
    return measure(party_labels(data, made), protect="none").federation


def test_smaller_beta_is_a_larger_degree():
    digits = load_dataset("digits")
    texts = ("iid", "label-dirichlet(5)", "label-dirichlet(0.5)", "label-dirichlet(0.05)")
    skew, found = [], []
    for seed in range(20):
        for rank, text in enumerate(texts):
            skew.append(rank)
            mean = degrees_of(text, 10, seed, digits).mean
            found.append((mean.kolmogorov_smirnov, mean.area, mean.cramer_von_mises, mean.total_variation))
    for metric in np.array(found).T:
        assert stats.spearmanr(skew, metric).statistic > 0.95
        by_text = metric.reshape(20, 4).mean(axis=0)
        assert (np.diff(by_text) > 0).all()


def test_quantity_skew_alone_leaves_labels_alike():
    digits = load_dataset("digits")
    found = degrees_of("quantity-dirichlet(0.3)", 10, 1, digits)
    assert found.quantity > 0.3
    assert found.mean.kolmogorov_smirnov < 1.5 * found.expected.kolmogorov_smirnov
    assert degrees_of("iid", 10, 1, digits).quantity < 0.01


def test_quantity():
    found = measure({"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 1}, "c": {"x": 4, "y": 4}}, protect="none")
    # equal shares are 4 rows each: 2 of 4, 2 of 4, 8 of 4
    assert [one.quantity for one in found.published] == [0.5, 0.5, 0.5]
    # 4 of 12 rows would have to move; at most 2/3 could
    assert found.federation.quantity == pytest.approx(1 / 3 / (2 / 3), abs=0.01)  # of rounded shares
    assert summarise(found.published[:1]).quantity == 0


def test_the_mean_of_the_federation_is_over_rows():
    found = measure({"a": {"x": 30, "y": 10}, "b": {"x": 1, "y": 1}, "c": {"x": 0, "y": 8}}, protect="none")
    by_hand = sum(one.degrees.share * one.degrees.mean.kolmogorov_smirnov for one in found.kept)
    assert found.federation.mean.kolmogorov_smirnov == pytest.approx(by_hand)
    # all: 31 x and 19 y of 50
    np.testing.assert_allclose(
        [one.degrees.mean.kolmogorov_smirnov for one in found.kept], [0.75 - 0.62, 0.62 - 0.5, 0.62]
    )
    assert found.federation.worst.kolmogorov_smirnov == pytest.approx(0.62)
