"""What NIID-Bench's public code does otherwise than its paper: does that explain its numbers?

unalike study run docs/results/niid-public.toml --plugin benchmarks/niid_public.py --data-dir DATA

A plug-in with that code's Dirichlet split, its scale of covtype's features and its SCAFFOLD; the study adds its
weight decay. That code also corrects after the optimiser's step, not in the gradient: benchmarks/niid_scaffold.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from unalike.algorithms.contract import Replies, Vectors, algorithm
from unalike.algorithms.scaffold import Scaffold
from unalike.data.covtype import Covtype
from unalike.data.dataset import Dataset, register_dataset
from unalike.models.task import Task
from unalike.partition.partition import PARTITIONS, Partition, count_parties, number_parties, register_partition

DRAWS = 10_000
SMALLEST = 10


@register_partition("public-dirichlet", paper="NIID-Bench's public code, utils.py, noniid-labeldir")
class PublicDirichlet:
    """Label after label is shared by Dir(beta), but a party that has its share of all rows gets no more.

    With two labels, a party with much of the first gets nothing of the second. Drawn again until all have 10 rows.
    """

    any_number: ClassVar[bool] = True

    beta: float = 0.5

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Draw until no party is too small."""
        number = count_parties(dataset, parties)
        for _ in range(DRAWS):
            owner = np.empty(len(dataset.y), np.int64)
            sizes = np.zeros(number, np.int64)
            for label in range(len(dataset.classes)):
                rows = rng.permutation(np.flatnonzero(dataset.y == label))
                shares = rng.dirichlet(np.full(number, self.beta)) * (sizes < len(owner) / number)
                cuts = (np.cumsum(shares / shares.sum()) * len(rows)).astype(int)[:-1]
                for party, own in enumerate(np.split(rows, cuts)):
                    owner[own] = party
                    sizes[party] += len(own)
            if sizes.min() >= SMALLEST:
                return Partition.of_owners(PARTITIONS.describe(self), owner, number_parties(number))
        raise RuntimeError(f"No split with {SMALLEST} rows for each of {number} parties in {DRAWS:,} draws.")


@register_dataset("covtype-unit", paper="LIBSVM's covtype.binary.scale, which that code reads")
class CovtypeUnit:
    """Covtype whose features go from 0 to 1, not standardised as ours are."""

    def load(self) -> Dataset:
        """Ours with another shift and scale."""
        ours = Covtype().load()
        low, high = (edge(axis=0).astype(np.float32) for edge in (ours.x.min, ours.x.max))
        return replace(ours, name="covtype-unit", shift=low, scale=np.maximum(high - low, 1))


@algorithm("public-scaffold", paper="NIID-Bench, Algorithm 2, and its public code")
class PublicScaffold(Scaffold):
    """SCAFFOLD whose model is weighted by size, and whose control variate is the mean of all parties' alike."""

    plain: ClassVar[frozenset[str]] = frozenset({"dc"})

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """All parties take part in each round."""
        return {"w": server["w"] + replies.mean["delta"], "c": server["c"] + replies.plain_mean["dc"]}
