"""Concept skew: the same features, other labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.data.split import random_rank
from unalike.errors import UserError
from unalike.partition.distorted import draw_seed, party_stream
from unalike.partition.label_noise import check_two_labels
from unalike.partition.partition import Distortion, Partition, register_partition


@register_partition("label-preference", paper="Zhu et al. 2021, arXiv:2106.06843, section 3.2.2")
class LabelPreference:
    """Concept skew, a distortion: with probability p a row's label is swapped by the party's own permutation.

    P(x) stays the same, P(y | x) differs: what one party calls "like", another calls "dislike". A party's
    permutation keeps no label in its place. A ``share`` of the parties, drawn at random, has a permutation; the
    others keep their labels. With two labels there is one such permutation only: with a share of 1 all
    parties then agree with each other, though not with the test rows, which keep their labels.

    ``groups``: parties k, k + groups, k + 2 groups, ... are of one mind: they share a permutation, and those of
    party 0's group keep their labels. 0: no two parties share one but by chance.
    """

    p: float
    share: float = 1.0
    groups: int = 0

    def __post_init__(self) -> None:
        for name, value in (("p", self.p), ("share", self.share)):
            if not 0 <= value <= 1:
                raise UserError(f"label-preference's {name} must be from 0 to 1, got {value}. Use 0.5.")
        if not self.groups >= 0:
            raise UserError(f"label-preference's groups must be >= 0, got {self.groups}. Use 2, or 0 for none.")
        if self.groups and self.share != 1:
            raise UserError(
                f"label-preference's groups and its share both say who has a permutation, got {self.groups} "
                f"and {self.share}. Leave one of them out."
            )

    def distort(self, dataset: Dataset, partition: Partition, rng: np.random.Generator) -> Distortion:
        """Choose the parties that name labels in their own way, and fix how each does."""
        check_two_labels(dataset, "label-preference")
        if self.groups:
            chosen = np.flatnonzero(np.arange(partition.parties) % self.groups)
        else:
            rank = random_rank(np.zeros(partition.parties, np.int64), rng)
            chosen = np.flatnonzero(rank < round(self.share * partition.parties))
        return Preferences(self.p, frozenset(chosen.tolist()), len(dataset.classes), draw_seed(rng), self.groups)


@dataclass(frozen=True)
class Preferences:
    """A permutation of the labels for each of ``parties``, applied to a row with probability ``p``.

    With ``groups``, parties that leave the same rest when divided by it share one.
    """

    p: float
    parties: frozenset[int]
    labels: int
    seed: int
    groups: int = 0
    changes_features: ClassVar[bool] = False

    def permutation(self, party: int) -> Array:
        """What the party calls each label; no label keeps its name, unless the party keeps all of them."""
        if party not in self.parties:
            return np.arange(self.labels)
        own = party % self.groups if self.groups else party
        return _derangement(self.labels, party_stream(self.seed, own))

    def apply(self, party: int, x: Array, y: Array) -> tuple[Array, Array]:
        """The same rows and the same permutation each time."""
        if party not in self.parties:
            return x, y
        permutation = self.permutation(party).astype(y.dtype)
        rng = party_stream(self.seed, party)
        _derangement(self.labels, rng)  # before the rows, as without groups
        return x, np.where(rng.random(len(y)) < self.p, permutation[y], y)


def _derangement(size: int, rng: np.random.Generator) -> Array:
    """A permutation without a fixed point, all equally likely: about one permutation in e is one."""
    while True:
        permutation = np.argsort(rng.random(size), kind="stable")
        if (permutation != np.arange(size)).all():
            return permutation
