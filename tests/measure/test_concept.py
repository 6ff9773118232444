"""Do parties mean the same by a label? The degree, by hand, by chance, and on splits whose answer is known."""

import numpy as np
import pytest

from unalike.data import load_dataset
from unalike.measure.concept import concept_of
from unalike.measure.situation import Situation, simulated_situation
from unalike.partition import make_partition


def of(partition, dataset="digits", parties=10, seed=0):
    data = load_dataset(dataset)
    return simulated_situation(data, make_partition(partition, data, parties, seed))


def test_by_hand():
    """One label: party 0 has 0 and 2, party 1 has 4 and 6. Around 3 the spread is 20, of which 16 lies between."""
    found = concept_of([np.array([[0.0], [2.0]]), np.array([[4.0], [6.0]])], [np.zeros(2, int)] * 2)
    assert found.degree == pytest.approx(16 / 20)
    assert found.expected == pytest.approx(1 / 3)  # two cells, one label, four rows


def test_other_shares_of_the_labels_leave_it_alone():
    """Rows of a label are the same everywhere; one party has many of the one, the other of the other."""
    x = {0: np.array([[0.0], [2.0]]), 1: np.array([[10.0], [14.0]])}
    parties = [[0, 0, 0, 1], [0, 1, 1]]
    features = [np.concatenate([x[label] for label in own]) for own in parties]
    labels = [np.repeat(own, 2) for own in parties]
    assert concept_of(features, labels).degree == pytest.approx(0, abs=1e-12)


def test_columns_that_the_label_decides_say_nothing():
    x = np.array([[1.0, 0.0], [1.0, 2.0]])
    assert concept_of([x, x + np.array([0, 4])], [np.zeros(2, int)] * 2).degree == pytest.approx(16 / 20)
    assert concept_of([x[:, :1], x[:, :1]], [np.zeros(2, int)] * 2) == (0.0, 0.0)
    assert concept_of([x[:1], x[1:]], [np.array([0]), np.array([1])]) == (0.0, 0.0)  # one row of each label


@pytest.mark.parametrize("dataset", ["digits", "wine", "breast-cancer"])
def test_by_chance_is_what_a_random_split_shows(dataset):
    found = [of("iid", dataset, 5, seed) for seed in range(10)]
    shown, said = (np.mean([getattr(one, name) for one in found]) for name in ("concept", "concept_expected"))
    assert shown == pytest.approx(said, rel=0.15)


@pytest.mark.parametrize(
    ("partition", "dataset", "wishes"),
    [
        ("label-preference(1.0)", "digits", "differ"),
        ("label-preference(0.5)", "digits", "differ"),
        ("label-preference(1.0, share=0.5)", "breast-cancer", "differ"),
        ("iid", "digits", "alike"),
        ("label-noise(0.2)", "digits", "alike"),  # the same noise everywhere
        ("label-dirichlet(0.1)", "digits", "alike"),
        ("label-count(2)", "digits", "alike"),
        ("quantity-dirichlet(0.3)", "digits", "alike"),
        ("feature-shift(scale, 3)", "digits", "unclear"),
        ("natural", "heart", "unclear"),
        ("fcube", "fcube", "unclear"),  # every feature alone is alike, two together are not
        ("label-dirichlet(0.5)+label-preference(1.0)", "digits", "unclear"),
    ],
)
def test_what_parties_want(partition, dataset, wishes):
    for seed in (0, 1):
        assert of(partition, dataset, None if partition in ("natural", "fcube") else 10, seed).wishes == wishes


def test_what_was_not_measured_is_said():
    assert Situation(0.1, 0.1, 0.0, 0.0).wishes == "not measured"
    assert of("iid", "diabetes", 5).wishes == "not measured"  # regression has no labels


def test_parties_that_want_other_labels_are_no_evidence_for_those_that_do_not():
    alike, differ, unknown = of("iid"), of("label-preference(1.0)"), Situation(0.1, 0.1, 0.0, 0.0)
    assert alike.kind == differ.kind == "alike"
    assert alike.distance(differ) == float("inf")
    assert alike.distance(of("iid", seed=1)) < 0.1
    assert unknown.distance(differ) < float("inf")
