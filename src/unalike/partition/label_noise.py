"""Label skew by mistakes: crowdsourced labels, of which some are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.partition.distorted import draw_seed, party_stream
from unalike.partition.partition import Distortion, Partition, register_partition


@register_partition("label-noise", paper="Zhu et al. 2021, arXiv:2106.06843, section 3.2.2 (crowdsourced labels)")
class LabelNoise:
    """Label skew, a distortion: each label is replaced, with probability p, by a random other label.

    The other labels are equally likely. With ``rising`` the i-th of N parties has the probability p * i / N, so
    that some parties label more carefully than others. The test rows keep their labels.
    """

    p: float
    rising: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise UserError(f"label-noise's p must be from 0 to 1, got {self.p}. Use 0.2.")

    def distort(self, dataset: Dataset, partition: Partition, rng: np.random.Generator) -> Distortion:
        """Fix the mistakes of these parties: the same ones whenever they are applied."""
        check_two_labels(dataset, "label-noise")
        return Disagreement(self.p, self.rising, partition.parties, len(dataset.classes), draw_seed(rng))


@dataclass(frozen=True)
class Disagreement:
    """Labels of which each is wrong with the party's probability."""

    p: float
    rising: bool
    parties: int
    labels: int
    seed: int
    changes_features: ClassVar[bool] = False

    def probability(self, party: int) -> float:
        """How likely a label of this party is replaced."""
        return self.p * (party + 1) / self.parties if self.rising else self.p

    def apply(self, party: int, x: Array, y: Array) -> tuple[Array, Array]:
        """The party's rows with its mistakes, which are the same each time."""
        rng = party_stream(self.seed, party)
        wrong = rng.random(len(y)) < self.probability(party)
        # One to labels - 1 steps further round the labels: every other label, and never the same one.
        steps = 1 + np.floor(rng.random(len(y)) * (self.labels - 1)).astype(y.dtype)
        return x, np.where(wrong, (y + steps) % self.labels, y)


def check_two_labels(dataset: Dataset, name: str) -> None:
    """Refuse to change labels where there is one only, or numbers in place of labels."""
    if dataset.task == "regression":
        raise UserError(
            f"{name} changes classes, but the task of {dataset.name} is regression. Use feature-noise, or a split "
            "such as label-dirichlet, which goes by tenths of the target."
        )
    if len(dataset.classes) < 2:
        raise UserError(f"{name} changes labels, but {dataset.name} has one label only. Leave it out.")
