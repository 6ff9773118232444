"""A federation as one side sees it: a site has its own rows only, the server has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch

from unalike.data.dataset import Array, Dataset
from unalike.data.sites.schema import Schema
from unalike.models import Task
from unalike.partition.holdout import hold_out
from unalike.partition.partition import Partition
from unalike.randomness import stream
from unalike.rounds.federation import Federation, PartyRows
from unalike.runs.build import net_maker
from unalike.runs.spec import RunSpec


def make_task(spec: RunSpec, schema: Schema) -> Task:
    """The task that all sides share, made from what was agreed: no row is needed for it."""
    dtype = {"float32": torch.float32, "float64": torch.float64}[spec.dtype]
    shape = np.zeros((1, len(schema.features)), np.float32)
    label = np.zeros(1, np.int64)
    outline = Dataset("sites", shape, label, shape, label, schema.classes, schema.features)
    task = Task(net_maker(spec, outline), seed=spec.seed, dtype=dtype, device=torch.device("cpu"))
    task.population = spec.parties or 0
    return task


class OwnRows(Federation):
    """A site's view: its own rows under its own number; of the others it knows that they are there."""

    def __init__(self, spec: RunSpec, task: Task, data: Dataset, number: int) -> None:
        assert spec.parties is not None
        owner, names = np.full(len(data.y), number), tuple(map(str, range(spec.parties)))
        partition = Partition.of_owners("natural", owner, names)
        super().__init__(data, partition, task, seed=spec.seed, validation=spec.validation, held_out=spec.held_out)
        self.number = number

    @cached_property
    def parties(self) -> list[PartyRows]:
        """The site's own rows, split as in simulation; nothing for all others."""
        nothing = np.zeros(0, np.int64)
        made = [PartyRows(nothing, nothing, nothing)] * self.size
        rows = self.partition.rows[self.number]
        rng = stream(self._seed, "holdout", self.number)
        made[self.number] = PartyRows(*hold_out(rows, self.dataset.y[rows], *self._fractions, rng))
        return made


class Elsewhere(Federation):
    """The server's view: the task, and how many training rows each site says that it has."""

    def __init__(self, spec: RunSpec, task: Task, schema: Schema, sizes: Sequence[int]) -> None:
        self.task = task
        self._spec, self._schema = spec, schema
        self._counts: Array = np.array(sizes)

    @property
    def size(self) -> int:
        """How many parties there are."""
        return len(self._counts)

    @cached_property
    def _sizes(self) -> Array:
        return self._counts

    def count(self, number: int, round: int) -> int:
        """The training rows that a site agreed with."""
        return int(self._counts[number])

    @cached_property
    def pretended(self) -> OwnRows:
        """Made-up rows of a party that does not exist, to see what a party's answers look like."""
        classes, shape = self._schema.classes, (4, len(self._schema.features))
        x, y = np.zeros(shape, np.float32), np.arange(4) % len(classes)
        data = Dataset("pretended", x, y, x, y, classes, self._schema.features)
        return OwnRows(replace(self._spec, validation=0.0, held_out=0.0), self.task, data, 0)
