"""Attribute skew: all parties know the same people, each of them other things about them."""

from __future__ import annotations

import re

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.partition.partition import PARTITIONS, Partition, number_parties, register_partition


@register_partition("vertical", paper="Zhu et al. 2021, arXiv:2106.06843, sections 3.1.1 and 3.1.2")
class Vertical:
    """Attribute skew: n parties hold all rows, and each other columns of them; the first has the labels.

    A fraction ``overlap`` of the attributes is held by all parties, the others by one party each, in numbers
    that differ by at most one. A table's attributes are dealt at random; columns that belong together by name
    (cp_1, cp_2, ...; chol, chol_missing) are one attribute. Images are cut into upright strips from left to
    right, of which those in the middle are shared. ``columns[k]`` index the flattened features.
    """

    n: int
    overlap: float = 0.0

    def __post_init__(self) -> None:
        if self.n < 2:
            raise UserError(f"vertical's n must be >= 2 parties, got {self.n}. Use 2.")
        check_overlap("vertical", self.overlap)

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Deal the attributes; every party has every row."""
        if parties is not None and parties != self.n:
            raise UserError(f"vertical({self.n}) makes {self.n} parties, got {parties}. Leave the number out.")
        columns = deal_columns(dataset, self.n, self.overlap, rng, "vertical")
        rows = np.arange(dataset.size)
        return Partition(
            PARTITIONS.describe(self),
            (rows,) * self.n,
            number_parties(self.n),
            columns=columns,
            label_holder=0,
            shares_rows=True,
        )


def check_overlap(name: str, overlap: float) -> None:
    """A fraction below 1: at 1 all parties would have the same attributes."""
    if not 0 <= overlap < 1:
        raise UserError(f"{name}'s overlap must be from 0 to below 1, got {overlap}. Use 0.")


def deal_columns(
    dataset: Dataset, parties: int, overlap: float, rng: np.random.Generator, name: str
) -> tuple[Array, ...]:
    """Each party's columns, ascending: the shared attributes and its even part of the others."""
    if dataset.kind == "tokens":
        raise UserError(f"{name} splits attributes, but {dataset.name} has rows of tokens. Split rows instead.")
    attribute = _strips(dataset) if len(dataset.shape) == 3 else attributes(dataset)
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
    """The number of the attribute that each column of a table belongs to, by the columns' names."""
    width = int(np.prod(dataset.shape))
    names = dataset.features if len(dataset.features) == width else tuple(map(str, range(width)))
    stems = [re.split(r"[_=](?=[^_=]*$)", name)[0] for name in names]
    if len(set(stems)) == 1:  # column_0, column_1, ...: the name says nothing
        stems = list(names)
    number = {stem: place for place, stem in enumerate(dict.fromkeys(stems))}
    return np.array([number[stem] for stem in stems])
