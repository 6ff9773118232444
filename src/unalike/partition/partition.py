"""A partition: which training rows each party holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.registry import Registry


@dataclass(frozen=True, eq=False)
class Partition:
    """``rows[k]`` are the training rows of party k, ascending; ``names[k]`` is what to call it."""

    recipe: str
    rows: tuple[Array, ...]
    names: tuple[str, ...]

    @property
    def parties(self) -> int:
        """How many parties there are."""
        return len(self.rows)

    def label_counts(self, dataset: Dataset) -> Array:
        """The party-by-label table: how many rows of each label each party holds."""
        return np.stack([np.bincount(dataset.y[rows], minlength=len(dataset.classes)) for rows in self.rows])


class Rule(Protocol):
    """A registered way to split rows between parties."""

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Split the training rows; ``parties`` None means as many as the data have by nature."""
        ...


PARTITIONS: Registry[Rule] = Registry("partition")


def make_partition(text: str, dataset: Dataset, parties: int | None, seed: int) -> Partition:
    """The partition that ``text`` describes, e.g. ``label-dirichlet(0.1)``; the same seed gives the same rows."""
    raise NotImplementedError
