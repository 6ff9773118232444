"""A federation in simulation: the task, all rows on the device, and which rows are whose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, overload

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.models.task import Task
from unalike.partition.by_party import sizes_of
from unalike.partition.holdout import hold_out, part_sizes
from unalike.partition.partition import Partition
from unalike.partition.sharing import random_order
from unalike.randomness import stream
from unalike.rounds.population import Population
from unalike.rounds.rows import Rows
from unalike.rounds.tried import MOST_TRIED
from unalike.rounds.worker import Recipe, Worker

MOST_SPLIT = 2**14
"""Parties whose split is remembered; those of others are made again when they are asked for."""


@dataclass(frozen=True, eq=False)
class PartyRows:
    """One party's own rows: to train on, to select rounds on, and to report on."""

    train: Array
    validation: Array
    held_out: Array


class SplitParties(Sequence[PartyRows]):
    """All parties' rows. A party's own are split when somebody asks for them, and forgotten by and by."""

    def __init__(self, size: int, split: Callable[[int], PartyRows]) -> None:
        self._numbers, self._split = range(size), lru_cache(MOST_SPLIT)(split)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, number: int) -> PartyRows: ...
    @overload
    def __getitem__(self, number: slice) -> list[PartyRows]: ...
    def __getitem__(self, number: int | slice) -> PartyRows | list[PartyRows]:
        if isinstance(number, slice):
            return [self._split(k) for k in self._numbers[number]]
        return self._split(self._numbers[number])


class SplitRows:
    """Data split between parties: whose rows are whose, and what each party has its rows for."""

    def __init__(
        self,
        dataset: Dataset,
        partition: Partition,
        *,
        seed: int = 0,
        validation: float = 0.0,
        held_out: float = 0.0,
        newcomers: float = 0.0,
        evaluate_parties: int | None = None,
        by_labels: bool = True,
    ) -> None:
        self.dataset, self.partition, self._by_labels = dataset, partition, by_labels
        self._fractions, self._newcomers = (validation, held_out), newcomers
        self._most_tried = MOST_TRIED if evaluate_parties is None else evaluate_parties
        self._seed = seed

    @property
    def size(self) -> int:
        """How many parties there are."""
        return self.partition.parties

    @cached_property
    def parties(self) -> SplitParties:
        """Each party's rows, split when they are asked for, the same way for the same seed."""
        return SplitParties(self.size, self._split)

    def _split(self, number: int) -> PartyRows:
        """One party's rows.

        Labels have nearly even shares in the parts, unless most parties have none and could not see to that.
        """
        rows = self.partition.rows[number]
        labels = self.dataset.labels[rows] if self._by_labels else np.zeros(len(rows), np.int64)
        return PartyRows(*hold_out(rows, labels, *self._fractions, stream(self._seed, "holdout", number)))

    @cached_property
    def part_sizes(self) -> tuple[Array, Array, Array]:
        """How many rows each party trains on, selects rounds by and is judged on: no rows are looked at."""
        return part_sizes(sizes_of(self.partition.rows), *self._fractions)

    @cached_property
    def population(self) -> Population:
        """How many training rows each party has, and which parties are newcomers."""
        share, count = self._newcomers, round(self._newcomers * self.size)
        if count >= self.size:
            raise UserError(f"--newcomers {share} leaves none of {self.size} parties to train. Lower it.")
        if share and not count:
            raise UserError(f"--newcomers {share} of {self.size} parties is none. Raise it, or leave it out.")
        away = stream(self._seed, "newcomers").permutation(self.size)[:count].tolist()
        return Population(self.part_sizes[0], away)

    @cached_property
    def tried(self) -> Sequence[int]:
        """The parties whose rows models are tried on: all, or of very many a sample that stays the same."""
        if self._most_tried >= self.size:
            return range(self.size)
        drawn = random_order(self.size, stream(self._seed, "evaluated parties"))[: self._most_tried]
        sample: list[int] = np.sort(drawn).tolist()
        return sample

    @cached_property
    def label_counts(self) -> Array:
        """How many training rows of each label each party has, [parties, labels]."""
        labels, width = self.dataset.labels, len(self.dataset.label_names)
        return np.stack([np.bincount(labels[party.train], minlength=width) for party in self.parties])

    @cached_property
    def test_by_labels(self) -> list[Array]:
        """For each party that is tried the rows of the global test set whose labels it has rows of."""
        test = np.asarray(self.dataset.y_test)
        own = [np.unique(self.dataset.y[self.partition.rows[number]]) for number in self.tried]
        return [np.flatnonzero(np.isin(test, labels)) for labels in own]

    @cached_property
    def test_by_all(self) -> list[Array]:
        """For each party that is tried all rows of the global test set."""
        return [np.arange(len(self.dataset.y_test))] * len(self.tried)


class Federation(SplitRows):
    """Everything that the parties of a simulated run own, and the task they share.

    Where there are several tasks, nets that differ, party k has the k-th, counted round and round. ``made_of`` is
    the data set as it was loaded, and how it is split: what another process needs to make the same.
    """

    made_of: tuple[Dataset, Partition]

    def __init__(
        self, dataset: Dataset, partition: Partition, *tasks: Task, public: Rows | None = None, **shares: Any
    ) -> None:
        super().__init__(dataset, partition, **shares)
        self.tasks, self.task, self.public = tasks, tasks[0], public
        self.train = Rows(dataset.x, dataset.y, dataset, self.task.dtype, self.task.device)

    @cached_property
    def test(self) -> Rows:
        """The global test set, in memory from its first use on."""
        data = self.dataset
        return Rows(data.x_test, data.y_test, data, self.task.dtype, self.task.device)

    def task_of(self, number: int) -> Task:
        """The task of a party."""
        return self.tasks[number % len(self.tasks)]

    def worker(self, number: int, recipe: Recipe) -> Worker:
        """A party, ready to work by a recipe."""
        return Worker(
            number,
            self.task_of(number),
            recipe,
            self.train,
            train=lambda round: self.train_rows(number, round),
            validation=lambda: self.parties[number].validation,
            public=self.public,
        )

    def train_rows(self, number: int, round: int) -> Array:
        """The rows that a party trains on in a round: all of its own, or those of the season where the data drift.

        A party without rows of the season (they may all be held out) keeps those of the one before, or waits
        with the first that it has.
        """
        if self.partition.seasons is None:
            return self.parties[number].train
        seasons, now = self._by_season(number), (round - 1) // self.partition.rounds_per_season
        return seasons[max((season for season in seasons if season <= now), default=min(seasons))]

    @cached_property
    def _by_season(self) -> Callable[[int], dict[int, Array]]:
        """A party's training rows by season: asked for several times in an exchange, so cut once."""

        @lru_cache(MOST_SPLIT)
        def cut(number: int) -> dict[int, Array]:
            assert self.partition.seasons is not None
            own, seasons = self.parties[number].train, self.partition.seasons[number]
            season = seasons[np.searchsorted(self.partition.rows[number], own)]
            return {int(one): own[season == one] for one in np.unique(season)}

        return cut


@dataclass(frozen=True, eq=False)
class Crew:
    """The parties of a simulated federation as an engine meets them: all at hand, all with one recipe."""

    federation: Federation
    recipe: Recipe

    def worker(self, number: int) -> Worker:
        """The party of that number."""
        return self.federation.worker(number, self.recipe)


@dataclass(frozen=True, eq=False)
class Pool:
    """All parties' training rows in the hands of one; those of newcomers are left out."""

    federation: Federation
    recipe: Recipe

    def worker(self, number: int) -> Worker:
        """The one party that has all rows."""
        return replace(self.federation.worker(number, self.recipe), train=self.rows)

    def rows(self, round: int) -> Array:
        """The rows that parties would train on in a round, party after party."""
        members = self.federation.population.members
        return np.concatenate([self.federation.train_rows(number, round) for number in members])


def take_public(dataset: Dataset, fraction: float, seed: int) -> tuple[Dataset, Array, Array]:
    """The data set less a random ``fraction`` of its training rows, and those rows and labels."""
    order = stream(seed, "public").permutation(len(dataset.y))
    public, rest = np.split(order, [round(fraction * len(order))])
    rest.sort()
    group = None if dataset.group is None else dataset.group[rest]
    if not len(rest):
        raise UserError(f"--public {fraction} leaves the parties no rows of {dataset.name}. Lower it.")
    if not len(public):
        raise UserError(f"--public {fraction} is not one of the {len(order)} rows of {dataset.name}. Raise it.")
    left = replace(dataset, x=dataset.x[rest], y=dataset.y[rest], group=group)
    return left, dataset.x[public], dataset.y[public]
