"""Attribute and label skew at once: other labels and other features at every party."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.partition.distorted import check_numbers
from unalike.partition.label_count import LabelCount
from unalike.partition.partition import PARTITIONS, Partition, register_partition
from unalike.partition.vertical import check_overlap, deal_columns


@register_partition("attribute-label", paper="Zhu et al. 2021, arXiv:2106.06843, section 3.4.1")
class AttributeLabel:
    """Attribute and label skew: each party holds k labels and sees its own attributes; the others are 0.

    Labels and their rows are dealt as by ``label-count(k)``, attributes as by ``vertical``: a fraction ``overlap``
    is seen by all parties, the others by one party each. What a party does not see is 0 in its prepared
    features: the mean where the data are standardised, black in images. The test rows are seen whole.
    """

    any_number: ClassVar[bool] = True

    k: int
    overlap: float = 0.0

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"attribute-label's k must be >= 1 label, got {self.k}. Use 2.")
        check_overlap("attribute-label", self.overlap)

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Deal the labels and their rows, then the attributes."""
        recipe = PARTITIONS.describe(self)
        check_numbers(dataset, recipe)
        partition = LabelCount(self.k).split(dataset, parties, rng)
        columns = deal_columns(dataset, partition.parties, self.overlap, rng, "attribute-label")
        return replace(partition, recipe=recipe, distortions=(Blinkers(columns),))


@dataclass(frozen=True, eq=False)
class Blinkers:
    """Features outside a party's ``columns`` are 0."""

    columns: tuple[Array, ...]
    changes_features: ClassVar[bool] = True

    def apply(self, party: int, x: Array, y: Array) -> tuple[Array, Array]:
        """The party's own columns of its rows."""
        flat, seen = x.reshape(len(x), -1), np.zeros((len(x), x[0].size), x.dtype)
        seen[:, self.columns[party]] = flat[:, self.columns[party]]
        return seen.reshape(x.shape), y
