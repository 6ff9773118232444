"""The federated CDF: exact, the same in all modes, and every bad input ends in a line that names the party."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cityblock

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.measure import dimension_names, measure, party_features, party_labels
from unalike.measure.cdf import count, read_cdf
from unalike.measure.support import DistributionPolicy, Support, agree, in_order, support_of
from unalike.partition import make_partition

LABELS = st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, 30), min_size=1)
PARTIES = st.lists(LABELS, min_size=3, max_size=6).map(
    lambda found: {f"party {k}": v for k, v in enumerate(found)}
)


def plain(parties, **how):
    return measure(parties, protect="none", **how)


def degrees(found):
    return {one.party: np.array([astuple(degree) for degree in one.degrees.dimensions]) for one in found.kept}


@settings(max_examples=60, deadline=None)
@given(PARTIES)
def test_the_global_cdf_is_that_of_the_pooled_rows(parties):
    found = plain(parties)
    rows = np.array([label for own in parties.values() for label, n in own.items() for _ in range(n)])
    labels = found.policy.labels
    assert list(labels) == sorted(set(rows))
    pooled = [np.mean(rows <= label) for label in labels]
    np.testing.assert_array_equal(found.everyone.values[0], pooled)
    assert found.everyone.rows == len(rows)
    np.testing.assert_allclose(found.everyone.pdf.sum(), 1)


@settings(max_examples=40, deadline=None)
@given(PARTIES, st.randoms(use_true_random=False))
def test_the_order_of_parties_does_not_matter(parties, random):
    names = list(parties)
    random.shuffle(names)
    before, after = plain(parties), plain({name: parties[name] for name in names})
    for name, own in degrees(before).items():
        np.testing.assert_array_equal(own, degrees(after)[name])
    np.testing.assert_allclose(astuple(before.federation.mean), astuple(after.federation.mean))


@settings(max_examples=40, deadline=None)
@given(LABELS, st.lists(st.integers(1, 5), min_size=3, max_size=5))
def test_parties_with_the_same_shares_are_alike(labels, times):
    found = plain({f"p{k}": {label: n * t for label, n in labels.items()} for k, t in enumerate(times)})
    assert all((own == 0).all() for own in degrees(found).values())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_the_global_cdf_of_features_is_that_of_the_pooled_rows(seed, bins):
    rng = np.random.default_rng(seed)
    parties = {name: rng.normal(rng.normal(), 1, (int(rng.integers(1, 30)), 2)) for name in "abc"}
    found = plain(parties, of="features", bins=bins)
    rows = np.concatenate(list(parties.values()))
    for dimension in range(2):
        edges = found.policy.edges(dimension)
        assert edges[0] <= rows[:, dimension].min()
        assert edges[-1] >= rows[:, dimension].max()
        pooled = [np.mean(rows[:, dimension] < edge) for edge in edges[1:-1]]
        np.testing.assert_allclose(found.everyone.values[dimension][:-1], pooled, atol=1e-12)


def test_weighting_parties_is_the_mean_of_cdfs():
    parties = {"a": {"x": 1, "y": 2}, "b": {"x": 100}, "c": {"y": 7}}
    found = plain(parties, weighting="parties")
    assert found.everyone.values[0, 0] == pytest.approx((1 / 3 + 1 + 0) / 3, abs=2**-16)
    assert plain(parties).everyone.values[0, 0] == 101 / 110
    assert found.everyone.rows == 110


@pytest.mark.parametrize("weighting", ["rows", "parties"])
@pytest.mark.parametrize(
    ("name", "text", "parties", "of"),
    [
        ("digits", "label-dirichlet(0.1)", 5, "labels"),
        ("digits", "label-dirichlet(0.1)", 5, "features"),
        ("heart", "natural", None, "labels"),
        ("heart", "natural", None, "features"),
        ("cifar10", "label-dirichlet(0.1)", 4, "labels"),
        ("like cifar10", "label-dirichlet(0.1)", 4, "labels"),
        ("like cifar10", "label-dirichlet(0.1)", 4, "features"),
    ],
)
def test_all_modes_give_the_same_degrees_exactly(name, text, parties, of, weighting):
    data = like_cifar() if name == "like cifar10" else loaded(name)
    made = make_partition(text, data, parties, 0)
    values = (party_labels if of == "labels" else party_features)(data, made)
    reference = measure(values, of=of, protect="none", weighting=weighting)
    for protect in ("fhe", "fhe+masks"):
        found = measure(values, of=of, protect=protect, weighting=weighting)
        assert found.published == reference.published
        assert [one.degrees for one in found.kept] == [one.degrees for one in reference.kept]
        assert found.federation == reference.federation
        np.testing.assert_array_equal(found.everyone.values, reference.everyone.values)
        assert min(found.bytes_up.values()) > 80_000  # a ciphertext
    assert max(reference.bytes_up.values()) < 80_000


def renumbered(parties, order):
    """The same rows with the classes named anew."""
    names = dict(zip("abcdefg", order, strict=True))
    return {party: {names[label]: rows for label, rows in own.items()} for party, own in parties.items()}


def by_hand(parties):
    """The mean total variation between a party's label shares and all's, weighted by rows, and each party's."""
    labels = sorted({label for own in parties.values() for label in own})
    table = np.array([[own.get(label, 0) for label in labels] for own in parties.values()])
    shares, everyone = table / table.sum(axis=1, keepdims=True), table.sum(axis=0) / table.sum()
    own = [cityblock(one, everyone) / 2 for one in shares]
    return np.average(own, weights=table.sum(axis=1)), own


def check_headline(parties, order, protect):
    both = parties, renumbered(parties, order)
    before, after = (measure(one, protect=protect) for one in both)
    assert before.headline == after.headline == "tv"
    for name in ("mean", "expected", "worst"):
        assert getattr(before.federation, name).at("tv") == getattr(after.federation, name).at("tv")
    mean, own = by_hand(parties)
    assert before.federation.mean.at("tv") == pytest.approx(mean, abs=0.02)  # of rounded degrees and shares
    np.testing.assert_allclose([one.degrees.mean.at("tv") for one in before.kept], own, atol=1e-12)
    only = [measure(one, protect=protect, publish="mean").federation for one in both]
    assert only[0].mean.at("tv") == only[1].mean.at("tv") == pytest.approx(mean, abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(PARTIES, st.permutations("abcdefg"))
def test_the_headline_of_labels_does_not_depend_on_their_numbers(parties, order):
    check_headline(parties, order, "none")


@pytest.mark.parametrize("protect", ["fhe", "fhe+masks"])
@settings(max_examples=4, deadline=None)
@given(PARTIES, st.permutations("abcdefg"))
def test_nor_does_it_under_encryption(protect, parties, order):
    check_headline(parties, order, protect)


def test_of_two_labels_both_degrees_are_the_same():
    """So total variation tells no more of a party than the distance of CDFs did."""
    found = plain({"a": {"x": 3, "y": 9}, "b": {"x": 5, "y": 2}, "c": {"y": 4}})
    for one in found.kept:
        assert one.degrees.mean.at("tv") == pytest.approx(one.degrees.mean.at("cdf"), abs=1e-15)
    for one in found.published:
        assert one.mean.at("tv") == one.mean.at("cdf")


def loaded(name):
    try:
        return load_dataset(name)
    except UserError as missing:
        pytest.skip(str(missing))


def like_cifar():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (600, 3, 32, 32)).astype(np.uint8), np.arange(600) % 10
    names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    return Dataset("like cifar10", x, y, x[:9], y[:9], names, scale=np.array(255, np.float32))


def test_feature_degree_rises_with_noise():
    digits = load_dataset("digits")
    found = []
    for sigma in (0.0, 0.1, 0.5, 2.0):
        made = make_partition(f"iid+feature-noise({sigma})", digits, 10, 0)
        found.append(plain(party_features(digits, made), of="features").federation)
    means = [one.mean.kolmogorov_smirnov for one in found]
    assert means == sorted(means)
    assert means[0] < 1.2 * found[0].expected.kolmogorov_smirnov
    # at sigma 0.5 and beyond it levels off: what counts is how the parties' noise differs, not how much there is
    assert means[-1] > 1.5 * found[-1].expected.kolmogorov_smirnov


def test_quantity_skew_alone_leaves_features_alike():
    digits = load_dataset("digits")
    made = make_partition("quantity-dirichlet(0.3)", digits, 10, 1)
    found = plain(party_features(digits, made), of="features", names=dimension_names(digits)).federation
    assert found.quantity > 0.3
    assert found.mean.kolmogorov_smirnov < 1.3 * found.expected.kolmogorov_smirnov


def test_a_party_that_drops_out_is_not_in_the_sum():
    parties = {name: {"x": 1 + k, "y": 3} for k, name in enumerate("abcd")}
    found = measure(parties, drop_after={"b": "shares"})
    assert found.absent == ("b",)
    assert [one.party for one in found.published] == ["a", "c", "d"]
    left = plain({name: parties[name] for name in "acd"})
    assert found.published == left.published
    assert found.federation == left.federation


def test_noise_hides_little_of_a_large_sum_and_tells_its_epsilon():
    parties = {name: {"x": 40_000, "y": 30_000, "z": 30_000} for name in "abc"}
    found = plain(parties, noise=20.0)
    assert not np.array_equal(found.everyone.values, plain(parties).everyone.values)
    np.testing.assert_allclose(found.everyone.values, plain(parties).everyone.values, atol=2e-3)
    assert found.noise.delta == 1e-6
    assert 0 < found.noise.epsilon < plain(parties, noise=10.0).noise.epsilon
    assert (np.diff(found.everyone.values, axis=1) >= 0).all()


def test_noise_larger_than_the_counts_still_gives_a_distribution():
    for _ in range(5):
        found = plain({name: {"x": 1, "y": 1, "z": 1} for name in "abc"}, noise=50.0)
        values = found.everyone.values
        assert ((values >= 0) & (values <= 1)).all()
        assert (np.diff(values, axis=1) >= 0).all()
        assert all(0 <= one.share <= 1 for one in found.published)


def test_messages_come_back_as_they_were():
    support = support_of("a", np.array([[0.1, 5.0], [0.7, 5.0]]))
    assert Support.from_bytes(support.to_bytes(), "a") == support
    policy = agree({"a": support, "b": support, "c": support}, bins=5)
    assert DistributionPolicy.from_bytes(policy.to_bytes()) == policy
    assert (policy.dimensions, policy.points, policy.length, policy.of) == (2, 5, 9, "features")


def test_order_of_labels():
    assert in_order({"10", "9", "-1", "2.5"}) == ("-1", "2.5", "9", "10")
    assert in_order({"10", "9", "a"}) == ("10", "9", "a")
    assert in_order({"1", "nan"}) == ("1", "nan")


def test_values_outside_the_agreed_range_go_to_the_ends():
    policy = DistributionPolicy(3, "rows", 100, 2**16, low=(0.0,), high=(1.0,), bins=4)
    vector = count(policy, "a", np.array([[-9.0], [0.0], [0.25], [1.0], [77.0]]))
    assert vector.tolist() == [2, 3, 3, 5]
    np.testing.assert_allclose(read_cdf(policy, vector).values, [[0.4, 0.6, 0.6, 1]])


def test_a_constant_feature_is_no_difference():
    found = plain({name: np.full((3, 1), 7.0) for name in "abc"}, of="features")
    assert all((own == 0).all() for own in degrees(found).values())


def test_labels_one_for_each_row():
    found = plain({"a": ["x", "y"], "b": ["x"], "c": np.array([3, 3])})
    assert found.policy.labels == ("3", "x", "y")
    assert found.everyone.values.tolist() == [[0.4, 0.8, 1.0]]
    numbers = plain({"a": [1, 1.0], "b": np.array([1.0]), "c": {np.float64(1): np.int64(2)}})
    assert (numbers.policy.labels, numbers.everyone.rows) == (("1",), 5)


GOOD = {"x": 1, "y": 2}
FEATURES = np.arange(6.0).reshape(3, 2)
THREE = {"labels": {"party 0": GOOD, "party 1": GOOD}, "features": {"party 0": FEATURES, "party 1": FEATURES}}


@pytest.mark.parametrize("protect", ["none", "fhe+masks"])
@pytest.mark.parametrize(
    ("of", "bad", "message"),
    [
        ("labels", {}, "Party 'oslo' has no rows"),
        ("labels", {"x": 0}, "Party 'oslo' has no rows"),
        ("labels", [], "Party 'oslo' has no rows"),
        ("labels", {"x": 3, "y": -1}, "Party 'oslo' has -1 rows of the label 'y'"),
        ("features", FEATURES[:0], "Party 'oslo' has no rows"),
        ("features", FEATURES * [1, np.nan], "Party 'oslo' has nan in row 0, feature 1"),
        ("features", FEATURES + np.array([np.inf, 0]), "Party 'oslo' has inf in row 0, feature 0"),
        ("features", FEATURES[:, :1], "Party 'oslo' has 1 feature"),
        ("features", FEATURES[0], r"Party 'oslo''s features must have the shape \[rows, dimensions\], got \(2,\)"),
        ("features", GOOD, "Party 'oslo' has labels where features are measured"),
        ("features", [["a", "b"]], "Party 'oslo''s features are <U1, not real numbers"),
        ("features", FEATURES + 1j, "Party 'oslo''s features are complex128, not real"),
        ("features", [[1.0, 2.0], [3.0]], "Party 'oslo''s features are no table"),
        ("features", [[1.0, None]], "Party 'oslo' has nan in row 0, feature 1"),
        ("features", [[10**400, 1]], "Party 'oslo''s features are no table"),
        ("features", [["a", 1], [None, {}]], "Party 'oslo''s features are no table"),
        ("features", [[-1.7e308, 0], [1.7e308, 0]], "exceeds what floating point can hold"),
        ("labels", [None, "x"], "Party 'oslo' has the label 'None'. Labels are numbers, or text"),
        ("labels", [float("nan")], "Party 'oslo' has the label 'nan'"),
        ("labels", {None: 3}, "Party 'oslo' has the label 'None'"),
        ("labels", [["x", "y"]], "Party 'oslo' has the label"),
        ("labels", ["\ud800"], "Party 'oslo' has the label"),
        ("labels", "xyyx", "Party 'oslo''s labels must be a list"),
        ("labels", 7, "Party 'oslo''s labels must be a list"),
        ("labels", {"x": 1.7}, "Party 'oslo' has 1.7 rows of the label 'x'. Counts are whole"),
        ("labels", {"x": float("nan")}, "Party 'oslo' has nan rows of the label 'x'"),
        ("labels", {"x": float("inf")}, "Party 'oslo' has inf rows of the label 'x'"),
        ("labels", {"x": 10**30}, "Party 'oslo' has 10{30} rows of the label 'x'"),
        ("labels", {"x": "3"}, "Party 'oslo' has 3 rows of the label 'x'"),
    ],
)
def test_bad_input_names_the_party(of, bad, message, protect):
    with pytest.raises(UserError, match=message) as refused:
        measure({**THREE[of], "oslo": bad}, of=of, protect=protect)
    assert "\n" not in str(refused.value)


def test_too_many_rows_for_the_modulus():
    with pytest.raises(UserError, match=r"Party 1 has 5,000,000 rows, but .* at most 2,763,"):
        measure({"party 0": GOOD, "party 1": {"x": 5_000_000}, "party 2": GOOD})
    assert plain({"party 0": GOOD, "party 1": {"x": 5_000_000}, "party 2": GOOD}).everyone.rows == 5_000_006


def test_a_label_that_was_not_announced():
    policy = agree({name: support_of(name, GOOD) for name in "abc"})
    with pytest.raises(UserError, match=r"Party 'a' has rows of the label 'new', which is not in"):
        count(policy, "a", {"x": 1, "new": 1})
    assert count(policy, "a", {"x": 1, "new": 0}).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"of": "label"}, "Did you mean 'labels'"),
        ({"protect": "fh"}, "Did you mean 'fhe'"),
        ({"weighting": "row"}, "Did you mean 'rows'"),
        ({"bins": 1}, "bins must be from 2"),
        ({"noise": -1.0}, "noise must be >= 0"),
        ({"noise": float("nan")}, "noise must be >= 0"),
        ({"noise": 1.0, "weighting": "parties"}, "Noise needs the weighting 'rows'"),
        ({"noise": 1e-200}, "hides nothing"),
        ({"publish": "degree"}, "Did you mean 'degrees'"),
        ({"drop_after": {"nobody": "hello"}}, "Unknown party 'nobody'"),
    ],
)
def test_wrong_settings(how, message):
    with pytest.raises(UserError, match=message):
        measure(dict.fromkeys("abc", GOOD), **{"protect": "none", **how})


def test_many_parties_weigh_the_same_within_the_modulus():
    support = support_of("a", GOOD)
    policy = agree({str(k): support for k in range(1000)}, weighting="parties")
    assert policy.scale == 8192
    assert policy.bound <= 16580609 // 2
    assert agree({str(k): support for k in range(100)}, weighting="parties").scale == 2**16


def test_too_many_parties_get_a_hint_that_helps():
    many = {str(k): GOOD for k in range(10_001)}
    with pytest.raises(UserError, match=r"at most 10000 parties .*, got 10001\. Use fewer, or 'fhe'\.$"):
        measure(many)
    assert plain(many).everyone.rows == 3 * 10_001


def test_ranges_of_a_target_are_in_the_order_of_their_numbers():
    ranges = ["115 to 140", "31 to 59", "-2.5 to 30", "60 to 1e+07"]
    assert in_order(ranges) == ("-2.5 to 30", "31 to 59", "60 to 1e+07", "115 to 140")
    assert in_order(["9 to 10", "up to 5"]) == ("9 to 10", "up to 5")
    assert in_order(["nan", "2", "10"]) == ("10", "2", "nan")
