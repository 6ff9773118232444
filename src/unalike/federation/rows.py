"""What the sides of a federation make of what was agreed: tasks, public rows, a site's own, made-up parties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from unalike.data.columns import Column
from unalike.data.dataset import Dataset
from unalike.data.roles import Missing
from unalike.data.schema import Schema
from unalike.data.sites import public_rows
from unalike.engines.job import choose_device
from unalike.models import Task
from unalike.partition.holdout import hold_out
from unalike.randomness import stream
from unalike.rounds.federation import PartyRows
from unalike.rounds.rows import Rows, batch_of
from unalike.rounds.worker import Recipe, Worker
from unalike.runs.build import make_tasks
from unalike.runs.spec import RunSpec


def agreed_tasks(spec: RunSpec, schema: Schema, device: str = "cpu") -> tuple[Task, ...]:
    """The tasks that all sides share, made from what was agreed: no row is needed for them.

    Which device they are on is each side's own affair.
    """
    here = choose_device(device, getattr(torch, spec.dtype))
    return make_tasks(spec, made_up(schema), here, spec.parties or 0)


def share_public(
    tasks: Sequence[Task], schema: Schema, table: Sequence[Column] | None, missing: Missing
) -> Rows | None:
    """The public rows, coded as agreed and given to every task; None where the plan has none."""
    if table is None:
        return None
    rows = Rows(*public_rows(schema, table, missing), made_up(schema), tasks[0].dtype, tasks[0].device)
    for task in tasks:
        task.public = batch_of(rows, torch.arange(len(rows), device=task.device))
    return rows


def split_rows(spec: RunSpec, data: Dataset, number: int) -> PartyRows:
    """A site's rows to train on, to select rounds on and to report on: split as in simulation."""
    rng = stream(spec.seed, "holdout", number)
    return PartyRows(*hold_out(np.arange(len(data.y)), data.labels, spec.validation, spec.held_out, rng))


def rows_of(data: Dataset, task: Task) -> Rows:
    """The training rows of a site's table in memory."""
    return Rows(data.x, data.y, data, task.dtype, task.device)


def made_up_worker(schema: Schema, task: Task, recipe: Recipe, number: int, public: Rows | None = None) -> Worker:
    """A party that does not exist, with a few made-up rows: it shows what answers look like."""
    data = rows_of(made_up(schema), task)
    own = np.arange(len(data))
    return Worker(number, task, recipe, data, lambda round: own, lambda: own, public)


def made_up(schema: Schema) -> Dataset:
    """A few rows of zeros as a table that is coded by the schema has them."""
    x, y = np.zeros((4, len(schema.features)), np.float32), np.arange(4) % len(schema.classes)
    return Dataset("sites", x, y, x, y, schema.classes, schema.features, gaps=schema.missing == "keep")
