import dataclasses

import numpy as np
import pytest

from unalike import run
from unalike.data import load_dataset
from unalike.errors import UserError
from unalike.measure import federated_cdf, measure, party_features, party_labels
from unalike.measure import situation as module
from unalike.measure.situation import Situation, simulated_situation, situation_from, situation_of, with_concept
from unalike.partition import as_seen, make_partition

UNSEEN = ("concept", "concept_expected", "together", "together_expected")
"""What only a simulation measures."""


def of(partition, parties=10, seed=0, dataset="digits"):
    data = load_dataset(dataset)
    return simulated_situation(data, make_partition(partition, data, parties, seed))


@pytest.mark.parametrize(
    ("partition", "kind"),
    [
        ("iid", "alike"),
        ("label-count(1)", "one label each"),
        ("label-count(3)", "label skew"),
        ("label-dirichlet(0.3)", "label skew"),
        ("feature-noise(1.0)", "feature skew"),
        ("quantity-dirichlet(0.3)", "quantity skew"),
    ],
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_kinds_are_told_apart(partition, kind, seed):
    assert of(partition, seed=seed).kind == kind


@pytest.mark.parametrize("seed", [0, 1])
def test_features_that_labels_do_not_explain_are_not_called_label_skew(seed):
    """Synthetic's parties have models and features of their own, .60 apart, beside labels that differ."""
    found = of("natural", parties=None, dataset=f"synthetic(seed={seed})")
    assert found.feature > 0.5
    assert found.kind == "label and feature skew"


@pytest.mark.parametrize("partition", ["label-dirichlet(0.1)", "label-count(2)", "shards(2)"])
def test_labels_alone_never_move_features_by_more_than_they_differ(partition):
    """The bound that tells them apart: a mixture of the same rows by label has K-S of at most its labels' TV."""
    found = of(partition)
    assert found.feature_skewed
    assert not found.features_of_their_own
    assert found.kind == "label skew"


def test_without_rows_by_label_the_bound_alone_tells():
    assert Situation(0.3, 0.01, 0.0, 0.0, 0.4, 0.01).kind == "label and feature skew"
    assert Situation(0.3, 0.01, 0.0, 0.0, 0.25, 0.01).kind == "label skew"
    assert Situation(0.9, 0.01, 0.0, 1.0, 0.95, 0.01).kind == "one label each"


def test_by_chance_is_what_a_random_split_shows():
    found = [of("iid", seed=seed) for seed in range(10)]
    for name in ("label", "feature"):
        shown = np.mean([getattr(one, name) for one in found])
        said = np.mean([getattr(one, f"{name}_expected") for one in found])
        assert shown == pytest.approx(said, rel=0.1)


def test_many_parties_are_sampled(monkeypatch):
    """A sample of the parties gives about the same figures, with distortions that go by a party's place too."""
    data = load_dataset("digits")
    for text in ("label-dirichlet(0.3)", "feature-noise(0.1)"):
        made = make_partition(text, data, 40, 0)
        whole = simulated_situation(data, made)
        monkeypatch.setattr(module, "SAMPLED_PARTIES", 20)
        some = simulated_situation(data, made)
        assert some == simulated_situation(*as_seen(data, made))  # a party keeps its own distortion
        monkeypatch.undo()
        assert some.kind == whole.kind
        assert some.label == pytest.approx(whole.label, abs=0.12)
        assert some.feature == pytest.approx(whole.feature, abs=0.06)
        assert some != whole


@pytest.mark.parametrize(
    ("dataset", "partition", "parties"),
    [
        ("digits", "label-dirichlet(0.1)", 10),
        ("digits", "iid", 2),
        ("heart", "natural", None),
        ("digits", "feature-noise(0.5)", 5),
    ],
)
def test_it_is_what_the_secure_sum_gives_to_the_last_bit(dataset, partition, parties):
    data = load_dataset(dataset)
    made = make_partition(partition, data, parties, 0)
    protect = "fhe+masks" if made.parties > 2 else "none"
    labels, features = party_labels(data, made), party_features(data, made)
    secure = situation_of(
        measure(labels, protect=protect, allow_two=True),
        measure(features, of="features", protect=protect, allow_two=True),
    )
    found = simulated_situation(data, made)
    assert dataclasses.replace(found, **dict.fromkeys(UNSEEN)) == secure
    assert with_concept(secure, data, made) == found


def test_it_is_computed_once_for_a_data_set_and_partition(monkeypatch):
    """Whoever asks: another algorithm, another seed with the same parties, the same data loaded again."""
    data = load_dataset("heart")
    first = simulated_situation(data, make_partition("natural", data, None, 0))
    monkeypatch.setattr(module, "party_features", lambda *args: pytest.fail("computed again"))
    again = load_dataset("heart")
    assert simulated_situation(again, make_partition("natural", again, None, 1)) == first
    monkeypatch.undo()
    others = [
        (data, make_partition("iid", data, 4, 0)),
        (data, make_partition("iid", data, 4, 1)),
        (dataclasses.replace(data, y=np.arange(data.size) % 2), make_partition("iid", data, 4, 0)),
    ]
    assert len({simulated_situation(*one) for one in others} | {first}) == 4


def test_no_secure_sum_at_the_end_of_a_run(monkeypatch):
    monkeypatch.setattr(federated_cdf, "secure_sum", lambda *args, **how: pytest.fail("a secure sum"))
    made = run(dataset="heart", partition="iid", parties=5, seed=987, rounds=1, steps=1)
    assert 0 < made.figures["degrees"]["label"] < 0.1


def test_distance_is_of_what_goes_beyond_chance():
    base = Situation(0.5, 0.1, 0.2, 0.0, 0.3, 0.1)
    assert base.distance(base) == 0
    assert base.distance(dataclasses.replace(base, label=0.6, label_expected=0.2)) == pytest.approx(0)
    assert base.distance(dataclasses.replace(base, quantity=0.3)) == pytest.approx(0.1)
    assert base.distance(dataclasses.replace(base, feature=None, feature_expected=None)) == 0
    assert base.distance(Situation(0.1, 0.1, 0.0, 0.0)) == float("inf")  # another kind


def test_a_measurement_says_the_same_directly_and_through_json():
    data = load_dataset("digits")
    made = make_partition("label-count(1)", data, 10, 0)
    labels = measure(party_labels(data, made), protect="none")
    features = measure(party_features(data, made), of="features", protect="none")
    assert situation_of(labels, features) == situation_from(labels.to_dict(), features.to_dict())
    assert situation_of(labels).feature is None
    assert situation_of(labels).one_label == 1


def test_bad_measurements_are_refused():
    with pytest.raises(UserError, match="needs a measurement of labels"):
        situation_from(None)
    for wrong in ({}, {"federation": {}}, {"federation": None, "labels_held": {}}):
        with pytest.raises(UserError, match="lacks what advice needs"):
            situation_from(wrong)


def test_one_party_is_like_itself():
    assert of("iid", parties=1) == Situation(*[0.0] * 10)
