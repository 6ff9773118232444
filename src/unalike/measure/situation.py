"""How unalike parties are, in the few numbers that advice needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from unalike.data.dataset import Dataset
from unalike.measure.extract import party_features, party_labels
from unalike.measure.federated_cdf import Measurement, measure
from unalike.partition import Partition

Kind = Literal["one label each", "label skew", "feature skew", "quantity skew", "alike"]

SAMPLED_ROWS = 20_000
"""Rows of all parties together from which features are measured in a simulation."""
_SEED = 5
_LEAST_ROWS = 50  # of each party
_SKEWED = 1.5
_LEAST = 0.02
_UNEVEN = 0.1
_MOST_HAVE_ONE = 0.5


@dataclass(frozen=True)
class Situation:
    """All from 0 to 1; ``expected`` is what a random even split of as many rows would show.

    label: total variation between a party's labels and all parties', mean over parties by rows. quantity: the
    share of rows that would have to move for equal sizes, divided by the largest possible. one_label: the share
    of parties that have a single label. feature: the Kolmogorov-Smirnov distance of features, mean over
    dimensions and parties; None where it was not measured.
    """

    label: float
    label_expected: float
    quantity: float
    one_label: float
    feature: float | None = None
    feature_expected: float | None = None

    @property
    def label_skewed(self) -> bool:
        """Whether labels differ by clearly more than chance."""
        return _clearly(self.label, self.label_expected)

    @property
    def feature_skewed(self) -> bool:
        """Whether features differ by clearly more than chance."""
        return self.feature is not None and _clearly(self.feature, self.feature_expected or 0.0)

    @property
    def kind(self) -> Kind:
        """The branch of NIID-Bench's decision tree. Label skew comes first: it costs most, and shifts features."""
        if self.one_label > _MOST_HAVE_ONE and self.label_skewed:
            return "one label each"
        if self.label_skewed:
            return "label skew"
        if self.feature_skewed:
            return "feature skew"
        return "quantity skew" if self.quantity > _UNEVEN else "alike"

    def distance(self, other: Situation) -> float:
        """The largest difference between the two in what goes beyond chance; infinite between kinds of skew."""
        if self.kind != other.kind:
            return float("inf")
        gaps = [
            _beyond(self.label, self.label_expected) - _beyond(other.label, other.label_expected),
            self.quantity - other.quantity,
        ]
        if self.feature is not None and other.feature is not None:
            mine = _beyond(self.feature, self.feature_expected)
            gaps.append(mine - _beyond(other.feature, other.feature_expected))
        return max(map(abs, gaps))


def situation_of(labels: Measurement, features: Measurement | None, held: Mapping[str, int]) -> Situation:
    """From measurements: of labels, perhaps of features, and how many labels each party announced."""
    found = labels.federation
    return Situation(
        label=found.mean.total_variation,
        label_expected=found.expected.total_variation,
        quantity=found.quantity,
        one_label=sum(count == 1 for count in held.values()) / len(held),
        feature=None if features is None else features.federation.mean.kolmogorov_smirnov,
        feature_expected=None if features is None else features.federation.expected.kolmogorov_smirnov,
    )


def simulated_situation(dataset: Dataset, partition: Partition) -> Situation:
    """The situation of a simulated federation, where everything is seen; features from a sample of rows."""
    labels = party_labels(dataset, partition)
    held = {party: sum(rows > 0 for rows in counts.values()) for party, counts in labels.items()}
    most = max(_LEAST_ROWS, SAMPLED_ROWS // partition.parties)
    features = party_features(dataset, _sampled(partition, most))
    seen = measure(labels, protect="none", allow_two=True)
    return situation_of(seen, measure(features, of="features", protect="none", allow_two=True), held)


def _sampled(partition: Partition, most: int) -> Partition:
    """The partition with at most so many rows of each party, drawn at random but always the same."""
    rng = np.random.default_rng(_SEED)
    rows = tuple(
        own if len(own) <= most else np.sort(rng.choice(own, most, replace=False)) for own in partition.rows
    )
    return replace(partition, rows=rows, phases=None)


def _clearly(degree: float, by_chance: float) -> bool:
    return degree > _SKEWED * by_chance and degree > by_chance + _LEAST


def _beyond(degree: float, by_chance: float | None) -> float:
    return max(degree - (by_chance or 0.0), 0.0)
