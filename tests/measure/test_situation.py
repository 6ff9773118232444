import dataclasses

import numpy as np
import pytest

from unalike.data import load_dataset
from unalike.errors import UserError
from unalike.measure import measure, party_features, party_labels
from unalike.measure import situation as module
from unalike.measure.situation import Situation, simulated_situation, situation_from, situation_of
from unalike.partition import as_seen, make_partition


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


def test_by_chance_is_what_a_random_split_shows():
    found = [of("iid", seed=seed) for seed in range(10)]
    for name in ("label", "feature"):
        shown = np.mean([getattr(one, name) for one in found])
        said = np.mean([getattr(one, f"{name}_expected") for one in found])
        assert shown == pytest.approx(said, rel=0.1)


def test_many_parties_are_sampled(monkeypatch):
    """A sample of the parties gives about the same figures, with distortions that go by a party's place too."""
    data = load_dataset("digits")
    for text in ("label-dirichlet(0.3)", "feature-noise(3.0)"):
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
    assert of("iid", parties=1) == Situation(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
