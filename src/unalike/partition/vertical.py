"""Attribute skew: all parties know the same people, each of them other things about them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import reduce

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.partition.disagreement import Inconsistency
from unalike.partition.partition import PARTITIONS, Partition, number_parties, register_partition

LEAST_COMMON = 10
"""People whom all parties must know: of fewer nothing can be learnt together."""


@register_partition("vertical", paper="Zhu et al. 2021, arXiv:2106.06843, sections 3.1.1 and 3.1.2")
class Vertical:
    """Attribute skew: n parties know the same people by other columns of them; the first has the labels.

    A fraction ``overlap`` of the attributes is held by all parties, the others by one party each, in numbers
    that differ by at most one. A table's attributes are dealt at random; columns that belong together by name
    (cp_1, cp_2, ...; chol, chol_missing) are one attribute. Images are cut into upright strips from left to
    right (``vertical(2)``: the left and the right half), of which those in the middle are shared. ``columns[k]``
    index the flattened features.

    Each party knows a share ``rows`` of the training people, drawn at random for each party by itself: of N
    people about N * rows^n are known to all. The test people are known to all.

    Shared attributes have the same values at all parties, or inconsistent ones: with ``disagree`` each party
    other than the label holder has, for that share of the people and each shared attribute, the value of another
    person at random. The test people's values are wrong as often.
    """

    n: int
    overlap: float = 0.0
    rows: float = 1.0
    disagree: float = 0.0

    def __post_init__(self) -> None:
        check_holders("vertical", self.n)
        check_overlap("vertical", self.overlap)
        if not 0 < self.rows <= 1:
            raise UserError(f"vertical's rows must be above 0 and at most 1, got {self.rows}. Use 0.8.")
        if not 0 <= self.disagree <= 1:
            raise UserError(f"vertical's disagree must be from 0 to 1, got {self.disagree}. Use 0.1.")
        if self.disagree and not self.overlap:
            raise UserError(
                f"vertical's disagree={self.disagree} is about shared attributes, and none are. Add overlap=0.2."
            )

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Deal the attributes, then say who knows whom and who is mistaken."""
        recipe = PARTITIONS.describe(self)
        check_number(recipe, self.n, parties)
        columns = deal_columns(dataset, self.n, self.overlap, rng, "vertical")
        made = split_columns(recipe, dataset, columns)
        if self.rows < 1:
            made = replace(made, rows=self._known(dataset, rng), leaves_rows=True)
        if self.disagree:
            made = replace(made, disagreement=self._disagreement(dataset, columns, rng))
        return made

    def _known(self, dataset: Dataset, rng: np.random.Generator) -> tuple[Array, ...]:
        """The people whom each party knows, drawn for each party by itself."""
        count = max(1, round(self.rows * dataset.size))
        known = tuple(np.sort(rng.choice(dataset.size, count, replace=False)) for _ in range(self.n))
        common = int((np.bincount(np.concatenate(known), minlength=dataset.size) == self.n).sum())
        if common < LEAST_COMMON:
            enough = min(1.0, np.ceil(100 * (4 * LEAST_COMMON / dataset.size) ** (1 / self.n)) / 100)
            raise UserError(
                f"With rows={self.rows} all {self.n} parties know {common} of the {dataset.size:,} people of "
                f"{dataset.name} together, at least {LEAST_COMMON} are needed. Use "
                f"rows={enough} or more."
            )
        return known

    def _disagreement(
        self, dataset: Dataset, columns: tuple[Array, ...], rng: np.random.Generator
    ) -> Inconsistency:
        """Who is wrong about which shared attribute."""
        everyone = reduce(np.intersect1d, columns)
        attribute = attributes_of(dataset)
        shared = tuple(everyone[attribute[everyone] == one] for one in np.unique(attribute[everyone]))
        if not shared:
            raise UserError(
                f"vertical's disagree={self.disagree} is about shared attributes, but overlap={self.overlap} of "
                f"{int(attribute.max()) + 1} attributes is none. Use more overlap."
            )
        return Inconsistency(self.disagree, int(rng.integers(2**62)), shared, dataset.size)


def split_columns(recipe: str, dataset: Dataset, columns: tuple[Array, ...]) -> Partition:
    """The partition in which all parties know all people, each by its own columns; the first has the labels."""
    return Partition(
        recipe,
        (np.arange(dataset.size),) * len(columns),
        number_parties(len(columns)),
        columns=columns,
        label_holder=0,
        shares_rows=True,
    )


def check_holders(name: str, n: int) -> None:
    """Refuse a single party: it would have all columns."""
    if n < 2:
        raise UserError(f"{name}'s n must be >= 2 parties, got {n}. Use 2.")


def check_number(recipe: str, n: int, parties: int | None) -> None:
    """Refuse another number of parties than the rule's own."""
    if parties is not None and parties != n:
        raise UserError(f"{recipe} makes {n} parties, got {parties}. Leave the number out.")


def check_overlap(name: str, overlap: float) -> None:
    """A fraction below 1: at 1 all parties would have the same attributes."""
    if not 0 <= overlap < 1:
        raise UserError(f"{name}'s overlap must be from 0 to below 1, got {overlap}. Use 0.")


def attributes_of(dataset: Dataset) -> Array:
    """The number of the attribute that each column belongs to: by a table's names, or an image's strip."""
    return _strips(dataset) if len(dataset.shape) == 3 else attributes(dataset)


def check_columns(dataset: Dataset, name: str) -> None:
    """Refuse data whose rows have no attributes of their own."""
    if dataset.kind == "tokens":
        raise UserError(f"{name} splits attributes, but {dataset.name} has rows of tokens. Split rows instead.")


def enough_attributes(dataset: Dataset, recipe: str, parties: int) -> Array:
    """The attribute that each column belongs to; a UserError where there is not one for each party."""
    check_columns(dataset, recipe)
    attribute = attributes_of(dataset)
    if (number := int(attribute.max()) + 1) < parties:
        raise UserError(
            f"{recipe} gives each of {parties} parties an attribute of its own, but {dataset.name} has {number}. "
            f"Use at most {number} parties."
        )
    return attribute


def deal_columns(
    dataset: Dataset, parties: int, overlap: float, rng: np.random.Generator, name: str
) -> tuple[Array, ...]:
    """Each party's columns, ascending: the shared attributes and its even part of the others."""
    check_columns(dataset, name)
    attribute = attributes_of(dataset)
    number = int(attribute.max()) + 1
    shared = round(overlap * number)
    if number - shared < parties:
        raise UserError(
            f"{name} gives each of {parties} parties an attribute of its own, but {dataset.name} has {number}, of "
            f"which {shared} are shared. Use fewer parties or less overlap."
        )
    if len(dataset.shape) == 3:
        first = (number - shared) // 2  # the strips in the middle are everyone's
        order = np.roll(np.arange(number), -first)
        own = np.sort(order[shared:])
    else:
        order = np.argsort(rng.random(number), kind="stable")
        own = order[shared:]
    everyone = np.isin(attribute, order[:shared])
    return tuple(np.flatnonzero(everyone | np.isin(attribute, part)) for part in np.array_split(own, parties))


def _strips(dataset: Dataset) -> Array:
    """The pixel column from left to right of each flattened feature of an image."""
    channels, height, width = dataset.shape
    return np.tile(np.arange(width), channels * height)


def attributes(dataset: Dataset) -> Array:
    """The number of the attribute that each column of a table belongs to: by names, and by what they hold.

    Columns ``cp_1``, ``cp_2``, ... of at most two values each code one category, and ``chol_missing`` goes with
    ``chol``.
    """
    width = int(np.prod(dataset.shape))
    names = dataset.features if len(dataset.features) == width else tuple(map(str, range(width)))
    stems = [re.split(r"[_=](?=[^_=]*$)", name)[0] for name in names]
    if len(set(stems)) == 1:  # column_0, column_1, ...: the name says nothing
        stems = list(names)
    together = Counter(stem for stem, name in zip(stems, names, strict=True) if stem != name)
    for place, (stem, name) in enumerate(zip(stems, names, strict=True)):
        missing = name.endswith("_missing") and (stem in names or together[stem] > 1)
        if together[stem] > 1 and stem != name and not missing and not _two_valued(dataset, place):
            del together[stem]  # mean_radius, mean_area: numbers of their own
    stems = [
        stem if stem in together or (name.endswith("_missing") and stem in names) else name
        for stem, name in zip(stems, names, strict=True)
    ]
    number = {stem: place for place, stem in enumerate(dict.fromkeys(stems))}
    return np.array([number[stem] for stem in stems])


def _two_valued(dataset: Dataset, column: int) -> bool:
    """Whether a column has at most two values in some thousand rows of all parts of the data."""
    some = dataset.x[:: max(1, dataset.size // 2000)]
    values = some[:, [column]].toarray() if dataset.is_sparse else some.reshape(some.shape[0], -1)[:, column]
    return len(np.unique(values[~np.isnan(values)])) <= 2
