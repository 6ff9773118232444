"""What leaves a party: rounded degrees and no single feature, or only the mean; what it tells."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from itertools import product

import numpy as np
import pytest

from unalike.data import load_dataset
from unalike.measure import Kept, Measurement, Published, federated_cdf, measure, party_features, party_labels
from unalike.measure.cdf import check_sum, count
from unalike.measure.publish import read_mean
from unalike.measure.situation import situation_from, situation_of
from unalike.measure.support import agree, support_of
from unalike.partition import make_partition
from unalike.secure.errors import ProtocolError


def plain(parties, **how):
    return measure(parties, protect="none", **how)


def hospitals():
    heart = load_dataset("heart")
    return heart, make_partition("natural", heart, None, 0)


def test_what_is_kept_is_not_published():
    kept, published = ({field.name for field in fields(kind)} for kind in (Kept, Published))
    assert kept & published == {"party"}
    found = plain({name: {"x": 1, "y": 2 + k} for k, name in enumerate("abc")})
    assert isinstance(found, Measurement)
    assert "kept" not in repr(found)
    written = repr(found.to_dict())
    assert "counts" not in written
    assert found.to_dict()["global"]["cdf"] == found.everyone.values.tolist()


def test_nothing_exact_and_no_single_feature_is_published():
    data, made = hospitals()
    for found in (plain(party_labels(data, made)), plain(party_features(data, made), of="features")):
        for one, kept in zip(found.to_dict()["parties"], found.kept, strict=True):
            assert one.keys() == {
                "party", "mean", "worst", "expected", "share", "quantity", "bytes_up", "bytes_down"
            }  # fmt: skip
            for degrees in (one["mean"], one["worst"], {"quantity": one["quantity"]}):
                assert all(value == round(value, 2) for value in degrees.values())
            assert one["share"] == float(f"{kept.degrees.share:.2g}")
            assert one["mean"]["area"] == pytest.approx(kept.degrees.mean.area, abs=0.00501)
            assert len(kept.degrees.dimensions) == found.policy.dimensions


def test_expected_tells_no_more_than_the_rounded_share():
    """Two federations whose published shares are the same publish the same expectation."""
    one = plain({"a": {"x": 500, "y": 501}, "b": {"x": 500, "y": 500}, "c": {"x": 9000, "y": 8999}})
    other = plain({"a": {"x": 500, "y": 500}, "b": {"x": 500, "y": 501}, "c": {"x": 9000, "y": 8999}})
    assert one.kept[0].degrees.expected != other.kept[0].degrees.expected
    assert one.published[0].expected == other.published[0].expected


def candidates(found):
    """All counts of the first label that the first party may have, as one who reads the JSON works out (heart)."""
    told = json.loads(json.dumps(found.to_dict()))
    cdf, rows = told["global"]["cdf"][0][0], told["global"]["rows"]
    one = told["parties"][0]
    sizes = [n for n in range(1, rows) if float(f"{n / rows:.2g}") == one["share"]]
    return {
        (c, n)
        for n in sizes
        for c, sign in product(range(n + 1), (1, -1))
        if round(abs(c / n - cdf), 2) == one["mean"]["kolmogorov_smirnov"] and (c / n - cdf) * sign >= 0
    }


def test_counts_of_two_labels_are_not_told_exactly():
    data, made = hospitals()
    labels = party_labels(data, made)
    found = plain(labels)
    first = found.kept[0].counts
    possible = candidates(found)
    assert (int(first[0]), int(first[1])) in possible
    assert len(possible) > 20  # exact degrees and shares left two


@pytest.mark.parametrize("of", ["labels", "features"])
@pytest.mark.parametrize("weighting", ["rows", "parties"])
def test_the_mean_alone_is_that_of_the_exact_degrees(of, weighting):
    data, made = hospitals()
    values = (party_labels if of == "labels" else party_features)(data, made)
    found = {
        protect: measure(values, of=of, protect=protect, weighting=weighting, publish="mean")
        for protect in ("none", "fhe", "fhe+masks")
    }
    reference = found["none"]
    assert found["fhe"].federation == found["fhe+masks"].federation == reference.federation
    assert reference.published == ()
    assert (reference.federation.worst, reference.federation.worst_dimension) == (None, None)
    assert reference.to_dict()["parties"] == []
    shares = [one.degrees.share for one in reference.kept]
    for metric in ("kolmogorov_smirnov", "area", "cramer_von_mises", "total_variation"):
        for name in ("mean", "expected"):
            exact = np.dot(shares, [getattr(getattr(one.degrees, name), metric) for one in reference.kept])
            assert getattr(getattr(reference.federation, name), metric) == pytest.approx(exact, abs=1e-5)
    uneven = np.abs(np.array(shares) - 1 / 4).sum() / 2 / (3 / 4)
    assert reference.federation.quantity == pytest.approx(uneven, abs=1e-5)
    told = measure(values, of=of, protect="fhe+masks", weighting=weighting)
    assert min(found["fhe+masks"].bytes_up.values()) > 1.9 * min(told.bytes_up.values())  # the second sum


def test_the_mean_alone_with_dropouts_noise_and_many_rows():
    parties = {f"party {k}": {"x": 10 * k + 1, "y": 5} for k in range(5)}
    found = plain(parties, publish="mean", drop_after={"party 2": "shares"})
    assert len(found.kept) == 4
    assert found.federation.worst is None
    for _ in range(5):
        noisy = plain({name: {"x": 1, "y": 1} for name in "abc"}, publish="mean", noise=50.0).federation
        assert 0 <= noisy.mean.kolmogorov_smirnov <= 1
        assert 0 <= noisy.quantity <= 1
    large = {"a": {"x": 2_700_000}, "b": {"x": 1, "y": 2_700_000}, "c": {"y": 5}}
    many = measure(large, publish="mean")
    assert many.federation == plain(large, publish="mean").federation
    assert many.federation.mean.kolmogorov_smirnov == pytest.approx(0.5, abs=1e-5)


def test_a_situation_needs_no_more_than_the_mean():
    data, made = hospitals()
    found = plain(party_labels(data, made), publish="mean")
    situation = situation_of(found)
    assert situation_from(json.loads(json.dumps(found.to_dict()))) == situation
    assert situation.label == pytest.approx(situation_of(plain(party_labels(data, made))).label, abs=0.005)


def test_a_mean_that_cannot_be_right():
    found = plain({name: {"x": 3, "y": 1} for name in "abc"})
    for wrong in ([0] * 10, [5, 6, *[0] * 8], [5, -1, *[0] * 8]):
        with pytest.raises(ProtocolError, match="Some party or the server spoilt the sum of degrees"):
            read_mean(np.array(wrong), found.everyone, 3)


LABELS = {name: {"x": 3 + k, "y": 2, "z": 4} for k, name in enumerate("abcd")}


@pytest.mark.parametrize("weighting", ["rows", "parties"])
def test_a_sum_that_cannot_be_right_is_noticed(weighting):
    policy = agree({name: support_of(name, own) for name, own in LABELS.items()}, weighting=weighting)
    vectors = [count(policy, name, own) for name, own in LABELS.items()]
    total, own = sum(vectors), vectors[0]
    for one in vectors:
        check_sum(policy, total, one, 4)
    unit = 1 if weighting == "rows" else policy.scale
    far = np.array([20 * unit, 0, 0])
    wrong = {
        "less than our own": np.zeros_like(total),
        "of nobody else": own,
        "falls": total + far,
        "below zero": total - far,
        "more than there are": total + far[[1, 0, 2]],
        "fewer rows than parties": total - [0, 0, int(total[-1] - own[-1])],
        "more rows than can be": np.append(total[:-1], 10**7),
    }
    for what, one in wrong.items():
        with pytest.raises(ProtocolError, match="Some party or the server spoilt the sum") as error:
            check_sum(policy, one, own, 4)
        assert error.value.party is None, what


def test_garbage_ends_the_measurement(monkeypatch):
    """Only noise may put counts out of order."""
    true_sum = federated_cdf.secure_sum

    def spoilt(vectors, **how):
        result = true_sum(vectors, **how)
        return replace(result, total=result.total[::-1].copy())

    monkeypatch.setattr(federated_cdf, "secure_sum", spoilt)
    with pytest.raises(ProtocolError, match="cannot be right"):
        plain(LABELS)
    assert plain(LABELS, noise=3.0).noise


def test_degrees_stay_comparable_with_many_parties():
    """A share far below a hundredth keeps its two digits, or all weights would vanish."""
    rng = np.random.default_rng(0)
    found = plain({f"p{k}": {"x": int(rng.integers(1, 30)), "y": 9} for k in range(600)})
    exact = sum(one.degrees.share * one.degrees.mean.area for one in found.kept)
    assert found.federation.mean.area == pytest.approx(exact, abs=1e-3)
    assert asdict(found.federation)["worst"]["area"] > 0
