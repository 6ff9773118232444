"""A partition: which training rows each party holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar, dataclass_transform, runtime_checkable

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.own_code import called
from unalike.partition.by_party import NumberedNames, RowsByParty, all_rows, sizes_of
from unalike.partition.disagreement import Inconsistency
from unalike.randomness import stream
from unalike.registry import CompositionRegistry

C = TypeVar("C", bound=type)


@runtime_checkable
class Distortion(Protocol):
    """What a party's rows look like to it: made by a rule, the same whenever it is applied."""

    @property
    def changes_features(self) -> bool:
        """Whether ``apply`` changes features (then they are handed over as floating point) or only labels."""
        ...

    def apply(self, party: int, x: Array, y: Array) -> tuple[Array, Array]:
        """Features and labels of all of a party's rows as the party sees them; the arguments stay as they are."""
        ...


@dataclass(frozen=True, eq=False)
class Partition:
    """``rows[k]`` are the training rows of party k, ascending; ``names[k]`` is what to call it.

    ``distortions`` are applied to each party's rows in order. ``seasons[k]`` is the season of each of party k's
    rows where the data drift: in round t it trains on the rows of season (t - 1) // ``rounds_per_season``, and the
    last season stays. ``columns[k]`` are the attributes that party k holds where the split is vertical, and
    ``label_holder`` the party that has the labels; ``disagreement`` is what the others have wrong of shared
    attributes. ``shares_rows``: the skew wants rows in several parties; ``leaves_rows``: it uses only
    some.
    """

    recipe: str
    rows: Sequence[Array]
    names: Sequence[str]
    distortions: tuple[Distortion, ...] = ()
    seasons: Sequence[Array] | None = None
    rounds_per_season: int = 1
    columns: tuple[Array, ...] | None = None
    label_holder: int = 0
    shares_rows: bool = False
    leaves_rows: bool = False
    disagreement: Inconsistency | None = None

    @classmethod
    def of_owners(cls, recipe: str, owner: Array, names: Sequence[str]) -> Partition:
        """The partition in which row i belongs to party ``owner[i]``."""
        order = np.argsort(owner, kind="stable")  # stable: a party's rows stay ascending
        return cls(recipe, RowsByParty(order, np.bincount(owner, minlength=len(names))), names)

    @classmethod
    def from_indices(cls, indices: Sequence[Any], names: Sequence[str] | None = None) -> Partition:
        """The partition in which party k has the training rows ``indices[k]``, as other tools give them.

        A row may be in several parties or in none. ``save_partition`` keeps it in a file, and ``file:FILE`` then
        is its name.
        """
        rows = [np.asarray(each) for each in indices]
        for number, each in enumerate(rows):
            if each.ndim != 1 or not len(each) or each.dtype.kind not in "iu" or each.min() < 0:
                raise UserError(
                    f"Party {number}'s rows must be whole numbers from 0. Give a list such as [0, 2, 5]."
                )
            if len(np.unique(each)) < len(each):
                raise UserError(f"Party {number} has a row twice. Give it once.")
        if not rows or (names is not None and len(names) != len(rows)):
            raise UserError(f"There are {len(rows)} lists of rows and {len(names or ())} names. Give each a name.")
        taken = np.concatenate(rows)
        return cls(
            "by hand",
            RowsByParty.of(np.sort(each.astype(np.int64)) for each in rows),
            number_parties(len(rows)) if names is None else tuple(map(str, names)),
            shares_rows=len(np.unique(taken)) < len(taken),
            leaves_rows=True,
        )

    @property
    def parties(self) -> int:
        """How many parties there are."""
        return len(self.rows)

    def label_counts(self, dataset: Dataset) -> Array:
        """The party-by-label table: how many rows of each label each party holds."""
        labels, width = dataset.labels, len(dataset.label_names)
        if isinstance(self.rows, RowsByParty):
            return self.rows.counts(labels, width)
        return np.stack([np.bincount(labels[rows], minlength=width) for rows in self.rows])


class Rule(Protocol):
    """A registered way to split rows between parties.

    A rule that makes any number of parties says so with ``any_number: ClassVar[bool] = True``: a run's spec then
    writes the default number down.
    """

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Split the training rows; ``parties`` None means all natural parties, or ``DEFAULT_PARTIES``."""
        ...


class DistortionRule(Protocol):
    """A registered way to change what parties see, added to a split with ``+``."""

    def distort(self, dataset: Dataset, partition: Partition, rng: np.random.Generator) -> Distortion:
        """The distortion for the parties of this partition."""
        ...


@runtime_checkable
class Thinning(Protocol):
    """A split by sizes alone, which after another split says how many of their rows the parties keep."""

    def thin(self, partition: Partition, rng: np.random.Generator) -> Partition:
        """The partition in which each party keeps some of its rows."""
        ...


@dataclass(frozen=True)
class Composition:
    """A split, sizes and distortions: ``label-dirichlet(0.5)+quantity-dirichlet(1)+feature-noise(0.1)``."""

    parts: tuple[Any, ...]

    def __post_init__(self) -> None:
        splits = [part for part in self.parts if hasattr(part, "split")]
        others = [part for part in splits[1:] if not isinstance(part, Thinning)]
        if others:
            names = " and ".join(map(PARTITIONS.describe_part, (splits[0], others[0])))
            raise UserError(f"{names} both split the rows. Give one split, and sizes or distortions after it.")
        if splits and list(self.parts[: len(splits)]) != splits:
            late = next(part for part, first in zip(splits, self.parts, strict=False) if part is not first)
            before = "first" if late is splits[0] else "before the distortions"
            raise UserError(f"{PARTITIONS.describe_part(late)} splits the rows: write it {before}.")


PARTITIONS = CompositionRegistry("partition", Composition)
"""Partitions by name, joined by ``+``. Distortions alone are added to ``iid``."""


@dataclass_transform(frozen_default=True)
def register_partition(name: str, *, paper: str = "") -> Callable[[C], C]:
    """Class decorator: make the class a frozen dataclass and register it as a split or a distortion."""
    return PARTITIONS.register(name, paper=paper)


DEFAULT_PARTIES: Final = 10


def default_parties(text: str) -> int | None:
    """How many parties a partition makes when none are asked for; None where the data decide."""
    first = PARTITIONS.build(text).parts[0]
    return DEFAULT_PARTIES if getattr(first, "any_number", not hasattr(first, "split")) else None


def make_partition(text: str, dataset: Dataset, parties: int | None, seed: int) -> Partition:
    """The partition that ``text`` describes, e.g. ``label-dirichlet(0.1)``; one seed always gives the same.

    Sizes after a split, as in ``label-dirichlet(0.1)+quantity-dirichlet(0.5)``, say how many of their rows the
    parties keep.

    Every training row belongs to exactly one party, unless the skew says otherwise, and no party is without
    rows. A distortion draws from a stream of its own: adding one does not change who has which rows.
    """
    if seed < 0:
        raise UserError(f"The seed must be >= 0, got {seed}. Use 0.")
    parts = PARTITIONS.build(text).parts
    if not hasattr(parts[0], "split"):
        parts = (*PARTITIONS.build("iid").parts, *parts)
    source = stream(seed, "partition", 0)
    partition: Partition = called(parts[0], "split", Rule.split, dataset, parties, source, returns=Partition)
    _check(partition, dataset)
    for number, part in enumerate(parts[1:], start=1):
        source, recipe = stream(seed, "partition", number), f"{partition.recipe}+{PARTITIONS.describe_part(part)}"
        if isinstance(part, Thinning):
            thinned: Partition = called(part, "thin", Thinning.thin, partition, source, returns=Partition)
            _check(thinned, dataset)
            partition = replace(thinned, recipe=recipe)
            continue
        added = called(part, "distort", DistortionRule.distort, dataset, partition, source, returns=Distortion)
        partition = replace(partition, recipe=recipe, distortions=(*partition.distortions, added))
    return partition


def count_parties(dataset: Dataset, parties: int | None) -> int:
    """The number of parties that a rule is to make, if the data set has rows for so many."""
    wanted = DEFAULT_PARTIES if parties is None else parties
    if wanted < 1:
        raise UserError(f"The number of parties must be >= 1, got {wanted}. Use {DEFAULT_PARTIES}.")
    if wanted > dataset.size:
        raise UserError(
            f"{wanted} parties are more than the {dataset.size} training rows of {dataset.name}. "
            f"Use at most {dataset.size}."
        )
    return wanted


def number_parties(parties: int) -> Sequence[str]:
    """Names for parties that have none of their own."""
    return NumberedNames(parties)


def _check(partition: Partition, dataset: Dataset) -> None:
    """Refuse a partition that loses a row, gives it to two parties, or leaves a party without rows."""
    broken = f"The partition {partition.recipe}"
    if not partition.rows or len(partition.names) != len(partition.rows):
        raise UserError(
            f"{broken} has {len(partition.rows)} parties and {len(partition.names)} names. Give each party one."
        )
    taken = all_rows(partition.rows) if isinstance(partition.rows, RowsByParty) else None
    for name, rows in zip(partition.names, partition.rows if taken is None else [taken], strict=taken is None):
        if np.ndim(rows) != 1 or (len(rows) and np.asarray(rows).dtype.kind not in "iu"):
            raise UserError(
                f"{broken} must give the rows of {name!r} as a vector of their numbers. Mend the rule."
            )
    empty = np.flatnonzero(sizes_of(partition.rows) == 0)
    if len(empty):
        raise UserError(f"{broken} leaves {partition.names[int(empty[0])]!r} without rows. Use fewer parties.")
    taken = all_rows(partition.rows) if taken is None else taken
    if taken.min() < 0 or taken.max() >= dataset.size:
        raise UserError(
            f"{broken} names rows {taken.min()} to {taken.max()}, but {dataset.name} has "
            f"{dataset.size}. Mend the rule."
        )
    times = np.bincount(taken, minlength=dataset.size)
    wrong = (times > 1) & (not partition.shares_rows) | (times < 1) & (not partition.leaves_rows)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise UserError(f"{broken} gives row {row} to {times[row]} parties instead of one. Mend the rule.")
