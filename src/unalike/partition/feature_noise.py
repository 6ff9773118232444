"""Feature skew by Gaussian noise whose level rises from party to party."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.partition.distorted import check_numbers, draw_seed, party_stream
from unalike.partition.partition import PARTITIONS, Distortion, Partition, register_partition


@register_partition("feature-noise", paper="Li et al. 2022 (NIID-Bench), arXiv:2102.02079, section 4.2")
class FeatureNoise:
    """Feature skew, a distortion: the i-th of N parties adds Gaussian noise of variance sigma * i / N.

    NIID-Bench, section 4.2: ``Gau(sigma * i / N)`` for party ``P_i``, "mean 0 and variance sigma * i / N". Its
    parties are P_1 ... P_N, so the first one (our party 0) has variance sigma / N and the last one sigma. The
    noise is added to the prepared features, such as pixels in [0, 1], once: a party sees the same noise in every
    round. The test rows stay as they are.

    NIID-Bench's public code differs in five ways: sigma * i / (N - 1) with i from 0 is the noise's standard
    deviation, not its variance; the noise is drawn anew in each epoch; the test set is copied once for each
    party, with that party's noise; noise is added to images only; and CIFAR-10's is added after augmentation.
    """

    sigma: float

    def __post_init__(self) -> None:
        if not 0 <= self.sigma <= 1e12:
            raise UserError(f"feature-noise's sigma must be from 0 to 1e12, got {self.sigma}. Use 0.1.")

    def distort(self, dataset: Dataset, partition: Partition, rng: np.random.Generator) -> Distortion:
        """Fix the noise of these parties: stronger from party to party, and the same whenever it is applied."""
        check_numbers(dataset, PARTITIONS.describe_part(self))
        return RisingNoise(self.sigma, partition.parties, draw_seed(rng))


@dataclass(frozen=True)
class RisingNoise:
    """Noise of variance ``sigma * (party + 1) / parties``."""

    sigma: float
    parties: int
    seed: int
    changes_features: ClassVar[bool] = True

    def variance(self, party: int) -> float:
        """The variance of the noise on the party's features."""
        return self.sigma * (party + 1) / self.parties

    def apply(self, party: int, x: Array, y: Array) -> tuple[Array, Array]:
        """The party's rows with its noise, which is the same each time."""
        kind = np.float64 if x.dtype == np.float64 else np.float32
        noisy: Array = party_stream(self.seed, party).standard_normal(x.shape, dtype=kind)
        noisy *= kind(math.sqrt(self.variance(party)))
        noisy += x  # in place: the noise is as large as the party's rows
        return noisy, y
