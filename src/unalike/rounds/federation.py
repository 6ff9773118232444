"""A federation in simulation: the task, all rows on the device, and which rows are whose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.models.task import Task
from unalike.partition.holdout import hold_out
from unalike.partition.partition import Partition
from unalike.randomness import stream
from unalike.rounds.population import Population
from unalike.rounds.rows import Rows
from unalike.rounds.worker import Recipe, Worker


@dataclass(frozen=True, eq=False)
class PartyRows:
    """One party's own rows: to train on, to select rounds on, and to report on."""

    train: Array
    validation: Array
    held_out: Array


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
        by_labels: bool = True,
    ) -> None:
        self.dataset, self.partition, self._by_labels = dataset, partition, by_labels
        self._fractions, self._newcomers = (validation, held_out), newcomers
        self._seed = seed

    @property
    def size(self) -> int:
        """How many parties there are."""
        return self.partition.parties

    @cached_property
    def parties(self) -> list[PartyRows]:
        """Each party's rows, split the same way for the same seed.

        Labels have nearly even shares in the parts, unless most parties have none and could not see to that.
        """
        labels = self.dataset.labels if self._by_labels else np.zeros(len(self.dataset.y), np.int64)
        made = []
        for number, rows in enumerate(self.partition.rows):
            rng = stream(self._seed, "holdout", number)
            made.append(PartyRows(*hold_out(rows, labels[rows], *self._fractions, rng)))
            if not len(made[-1].train):
                raise UserError(f"Party {number} has no training rows. Use fewer parties or hold out less.")
        return made

    @cached_property
    def population(self) -> Population:
        """How many training rows each party has, and which parties are newcomers."""
        share, count = self._newcomers, round(self._newcomers * self.size)
        if count >= self.size:
            raise UserError(f"--newcomers {share} leaves none of {self.size} parties to train. Lower it.")
        if share and not count:
            raise UserError(f"--newcomers {share} of {self.size} parties is none. Raise it, or leave it out.")
        away = stream(self._seed, "newcomers").permutation(self.size)[:count].tolist()
        return Population([len(party.train) for party in self.parties], away)

    @cached_property
    def label_counts(self) -> Array:
        """How many training rows of each label each party has, [parties, labels]."""
        labels, width = self.dataset.labels, len(self.dataset.label_names)
        return np.stack([np.bincount(labels[party.train], minlength=width) for party in self.parties])

    @cached_property
    def test_by_labels(self) -> list[Array]:
        """For each party the rows of the global test set whose labels are among those that the party has."""
        test = np.asarray(self.dataset.y_test)
        own = [np.unique(self.dataset.y[rows]) for rows in self.partition.rows]
        return [np.flatnonzero(np.isin(test, labels)) for labels in own]

    @cached_property
    def test_by_all(self) -> list[Array]:
        """For each party all rows of the global test set."""
        return [np.arange(len(self.dataset.y_test))] * self.size


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
        seasons, now = self._by_season[number], (round - 1) // self.partition.rounds_per_season
        return seasons[max((season for season in seasons if season <= now), default=min(seasons))]

    @cached_property
    def _by_season(self) -> list[dict[int, Array]]:
        """Each party's training rows by season: asked for several times in an exchange, so cut once."""
        made, known = [], self.partition.seasons or ()
        for own, rows, seasons in zip(self.parties, self.partition.rows, known, strict=True):
            season = seasons[np.searchsorted(rows, own.train)]
            made.append({int(one): own.train[season == one] for one in np.unique(season)})
        return made


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
