"""A partition: which training rows each party holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, dataclass_transform

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.registry import Registry

C = TypeVar("C", bound=type)


@dataclass(frozen=True, eq=False)
class Partition:
    """``rows[k]`` are the training rows of party k, ascending; ``names[k]`` is what to call it."""

    recipe: str
    rows: tuple[Array, ...]
    names: tuple[str, ...]

    @classmethod
    def of_owners(cls, recipe: str, owner: Array, names: tuple[str, ...]) -> Partition:
        """The partition in which row i belongs to party ``owner[i]``."""
        order = np.argsort(owner, kind="stable")  # stable: a party's rows stay ascending
        ends = np.cumsum(np.bincount(owner, minlength=len(names)))
        return cls(recipe, tuple(np.split(order, ends[:-1])), names)

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
        """Split the training rows; ``parties`` None means all natural parties, or ``DEFAULT_PARTIES``."""
        ...


PARTITIONS: Registry[Rule] = Registry("partition")


@dataclass_transform(frozen_default=True)
def register_partition(name: str, *, paper: str = "") -> Callable[[C], C]:
    """Class decorator: make the class a frozen dataclass and register it as a partition."""
    return PARTITIONS.register(name, paper=paper)


DEFAULT_PARTIES: Final = 10
# One number per purpose keeps the streams of one run's seed apart. Spelt out: Python's hash() is salted.
_PURPOSE: Final = int.from_bytes(b"partition", "big")


def make_partition(text: str, dataset: Dataset, parties: int | None, seed: int) -> Partition:
    """The partition that ``text`` describes, e.g. ``label-dirichlet(0.1)``; one seed always gives the same.

    Whatever the rule, every training row belongs to exactly one party and no party is without rows.
    """
    if seed < 0:
        raise UserError(f"The seed must be >= 0, got {seed}. Use 0.")
    rule = PARTITIONS.build(text)
    rng = np.random.default_rng(np.random.SeedSequence([seed, _PURPOSE]))
    partition = rule.split(dataset, parties, rng)
    _check(partition, dataset)
    return partition


def count_parties(dataset: Dataset, parties: int | None) -> int:
    """The number of parties that a rule is to make, if the data set has rows for so many."""
    wanted = DEFAULT_PARTIES if parties is None else parties
    if wanted < 1:
        raise UserError(f"The number of parties must be >= 1, got {wanted}. Use {DEFAULT_PARTIES}.")
    if wanted > len(dataset.x):
        raise UserError(
            f"{wanted} parties are more than the {len(dataset.x)} training rows of {dataset.name}. "
            f"Use at most {len(dataset.x)}."
        )
    return wanted


def number_parties(parties: int) -> tuple[str, ...]:
    """Names for parties that have none of their own."""
    return tuple(f"party {k}" for k in range(parties))


def _check(partition: Partition, dataset: Dataset) -> None:
    """Refuse a partition that loses a row, gives it to two parties, or leaves a party without rows."""
    broken = f"The partition {partition.recipe}"
    empty = [name for name, rows in zip(partition.names, partition.rows, strict=True) if len(rows) == 0]
    if empty:
        raise UserError(f"{broken} leaves {empty[0]!r} without rows. Use fewer parties.")
    taken = np.concatenate(partition.rows)
    if taken.min() < 0 or taken.max() >= len(dataset.x):
        raise UserError(
            f"{broken} names rows {taken.min()} to {taken.max()}, but {dataset.name} has "
            f"{len(dataset.x)}. Mend the rule."
        )
    times = np.bincount(taken, minlength=len(dataset.x))
    if not (times == 1).all():
        row = int(np.flatnonzero(times != 1)[0])
        raise UserError(f"{broken} gives row {row} to {times[row]} parties instead of one. Mend the rule.")
