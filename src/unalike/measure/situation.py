"""How unalike parties are, in the few numbers that advice needs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.measure.concept import concept_of, together_of
from unalike.measure.extract import party_features, party_labels
from unalike.measure.federated_cdf import Measurement
from unalike.measure.plain import plain_figures
from unalike.measure.publish import FederationDegrees
from unalike.partition import Partition, as_seen, seen_by

Kind = Literal["one label each", "label and feature skew", "label skew", "feature skew", "quantity skew", "alike"]

Wishes = Literal["alike", "differ", "unclear", "not measured"]
"""Whether parties give the same rows other labels, as far as that can be told."""

SAMPLED_ROWS = 20_000
"""Rows of all parties together from which features are measured in a simulation."""
SAMPLED_PARTIES = 200
"""Parties up to which all are measured there."""
_SEED = 5
_LEAST_ROWS = 50  # of each party
_SKEWED = 1.5
_LEAST = 0.02
_PART = 0.25
_UNEVEN = 0.1
_MOST_HAVE_ONE = 0.5
_MOST_BETWEEN = 0.5
_MOST_KNOWN = 1000
_KNOWN: dict[str, Situation] = {}  # by the fingerprint of data set and partition


@dataclass(frozen=True)
class Situation:
    """All from 0 to 1; ``expected`` is what a random even split of as many rows would show.

    label: total variation between a party's labels and all parties', mean over parties by rows. quantity: the
    share of rows that would have to move for equal sizes, divided by the largest possible. one_label: the share
    of parties that have a single label. feature: the Kolmogorov-Smirnov distance of features, mean over
    dimensions and parties. concept: how much rows of one label differ between parties, together: how much products
    of two features do (``concept``). The last three are None where they were not measured.
    """

    label: float
    label_expected: float
    quantity: float
    one_label: float
    feature: float | None = None
    feature_expected: float | None = None
    concept: float | None = None
    concept_expected: float | None = None
    together: float | None = None
    together_expected: float | None = None

    @property
    def label_skewed(self) -> bool:
        """Whether labels differ by clearly more than chance."""
        return _clearly(self.label, self.label_expected)

    @property
    def feature_skewed(self) -> bool:
        """Whether features differ by clearly more than chance, one by one or (where measured) two by two."""
        degrees = ((self.feature, self.feature_expected), (self.together, self.together_expected))
        return any(degree is not None and _clearly(degree, by_chance or 0.0) for degree, by_chance in degrees)

    @property
    def features_of_their_own(self) -> bool:
        """Whether features differ by more than parties' labels explain.

        Were rows of one label alike everywhere, no feature's K-S could exceed the labels' total variation: that it
        does, or that more than half of the spread within the labels lies between parties, labels do not make.
        """
        if not self.feature_skewed:
            return False
        beyond = self.feature is not None and _beyond(self.feature, self.feature_expected) > self.label
        return beyond or (self.concept is not None and self.concept > _MOST_BETWEEN)

    @property
    def wishes(self) -> Wishes:
        """Whether parties give the same rows other labels: P(y | x) differs.

        Rows of a label that differ between parties show it where features, P(x), are alike one by one and two by
        two. Else shifted features may be the cause.
        """
        if self.concept is None:
            return "not measured"
        if not _clearly(self.concept, self.concept_expected or 0.0):
            return "alike"
        return "unclear" if self.feature is None or self.feature_skewed else "differ"

    @property
    def kind(self) -> Kind:
        """The branch of NIID-Bench's decision tree. Label skew comes first: it costs most, and shifts features.

        Where features differ by more than that (``features_of_their_own``), it is both, for which the tree has no
        branch.
        """
        if self.one_label > _MOST_HAVE_ONE and self.label_skewed:
            return "one label each"
        if self.label_skewed:
            return "label and feature skew" if self.features_of_their_own else "label skew"
        if self.feature_skewed:
            return "feature skew"
        return "quantity skew" if self.quantity > _UNEVEN else "alike"

    def distance(self, other: Situation) -> float:
        """The largest difference between the two in what goes beyond chance.

        Infinite between kinds of skew, and where the parties' wishes differ in one and are alike in the other.
        """
        if self.kind != other.kind or {self.wishes, other.wishes} == {"alike", "differ"}:
            return float("inf")
        gaps = [
            _beyond(self.label, self.label_expected) - _beyond(other.label, other.label_expected),
            self.quantity - other.quantity,
        ]
        if self.feature is not None and other.feature is not None:
            mine = _beyond(self.feature, self.feature_expected)
            gaps.append(mine - _beyond(other.feature, other.feature_expected))
        if self.concept is not None and other.concept is not None:
            mine = _beyond(self.concept, self.concept_expected)
            gaps.append(mine - _beyond(other.concept, other.concept_expected))
        return max(map(abs, gaps))


def situation_of(labels: Measurement, features: Measurement | None = None) -> Situation:
    """From measurements: of labels, and perhaps of features."""
    seen = None if features is None else features.federation
    return _situation(labels.federation, seen, _one_label(labels.labels_held))


def situation_from(labels: Mapping[str, Any] | None, features: Mapping[str, Any] | None = None) -> Situation:
    """The same, from measurements that went through JSON (``Measurement.to_dict``)."""
    if labels is None:
        raise UserError("Advice needs a measurement of labels. Make one with: unalike measure --of labels --json")
    try:
        found, seen = labels["federation"], None if features is None else features["federation"]
        return Situation(
            label=float(found["mean"]["total_variation"]),
            label_expected=float(found["expected"]["total_variation"]),
            quantity=float(found["quantity"]),
            one_label=_one_label(labels["labels_held"]),
            feature=None if seen is None else float(seen["mean"]["kolmogorov_smirnov"]),
            feature_expected=None if seen is None else float(seen["expected"]["kolmogorov_smirnov"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise UserError(f"The measurement lacks what advice needs ({error!r}). Make it anew.") from None


def _situation(labels: FederationDegrees, features: FederationDegrees | None, one_label: float) -> Situation:
    return Situation(
        label=labels.mean.total_variation,
        label_expected=labels.expected.total_variation,
        quantity=labels.quantity,
        one_label=one_label,
        feature=None if features is None else features.mean.kolmogorov_smirnov,
        feature_expected=None if features is None else features.expected.kolmogorov_smirnov,
    )


def _one_label(held: Mapping[str, int]) -> float:
    return sum(count == 1 for count in held.values()) / len(held)


def simulated_situation(dataset: Dataset, partition: Partition) -> Situation:
    """The situation of a simulated federation, where all is seen; of many parties, from a sample of them.

    Computed once for a data set and partition: further runs on them in this process have it at once.
    """
    if partition.parties == 1:  # like itself
        only = sum(counts > 0 for counts in next(iter(party_labels(dataset, partition).values())).values())
        return Situation(0.0, 0.0, 0.0, float(only == 1), *[0.0] * 6)
    if partition.parties > SAMPLED_PARTIES:
        if partition.distortions:  # they go by a party's place among all
            dataset, partition = as_seen(dataset, partition)
        partition = _some_parties(partition)
    if partition.distortions:
        return _computed(dataset, partition)
    key = _fingerprint(dataset, partition)
    if key not in _KNOWN:
        if len(_KNOWN) >= _MOST_KNOWN:
            del _KNOWN[next(iter(_KNOWN))]
        _KNOWN[key] = _computed(dataset, partition)
    return _KNOWN[key]


def _computed(dataset: Dataset, partition: Partition) -> Situation:
    labels, some = party_labels(dataset, partition), _some_rows(partition)
    features = party_features(dataset, some)
    one_label = _one_label({party: len(counts) for party, counts in labels.items()})
    made = _situation(plain_figures(labels), plain_figures(features), one_label)
    return _with_concept(made, dataset, some, features)


def with_concept(situation: Situation, dataset: Dataset, partition: Partition) -> Situation:
    """The situation and whether parties mean the same by a label, which only a simulation can see."""
    some = _some_rows(partition)
    return _with_concept(situation, dataset, some, party_features(dataset, some))


def _with_concept(
    situation: Situation, dataset: Dataset, partition: Partition, features: Mapping[str, Array]
) -> Situation:
    if dataset.task == "regression":  # a target is no label
        return situation
    labels = [seen_by(dataset, partition, k)[1] for k in range(partition.parties)]
    concept, together = concept_of(list(features.values()), labels), together_of(list(features.values()))
    return replace(
        situation,
        concept=concept.degree,
        concept_expected=concept.expected,
        together=together.degree,
        together_expected=together.expected,
    )


def _fingerprint(dataset: Dataset, partition: Partition) -> str:
    """All that the situation depends on where no distortion changes what parties see."""
    sha = hashlib.sha256(repr((dataset.digest, partition.names)).encode())
    for rows in partition.rows:
        sha.update(f"{len(rows)} ".encode() + rows.astype("<i8").tobytes())
    return sha.hexdigest()


def _some_parties(partition: Partition) -> Partition:
    """``SAMPLED_PARTIES``, drawn at random but always the same."""
    drawn = np.random.default_rng(_SEED).choice(partition.parties, SAMPLED_PARTIES, replace=False)
    rows, names = zip(*((partition.rows[k], partition.names[k]) for k in np.sort(drawn)), strict=True)
    return replace(partition, rows=rows, names=names, seasons=None)


def _some_rows(partition: Partition) -> Partition:
    """About ``SAMPLED_ROWS`` of all rows, drawn at random but always the same."""
    rng = np.random.default_rng(_SEED)
    most = max(_LEAST_ROWS, SAMPLED_ROWS // partition.parties)
    rows = [own if len(own) <= most else np.sort(rng.choice(own, most, replace=False)) for own in partition.rows]
    return replace(partition, rows=tuple(rows), seasons=None)


def _clearly(degree: float, by_chance: float) -> bool:
    """Well above chance; where chance makes much, as of tiny parties, a good part of the way from there to 1."""
    beyond = degree - by_chance
    return beyond > _LEAST and (degree > _SKEWED * by_chance or beyond > _PART * (1 - by_chance))


def _beyond(degree: float, by_chance: float | None) -> float:
    return max(degree - (by_chance or 0.0), 0.0)
