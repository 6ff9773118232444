"""A data set as its parties see it: distortions applied, shared rows copied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.partition.partition import Partition


def as_seen(dataset: Dataset, partition: Partition) -> tuple[Dataset, Partition]:
    """The data set and partition with every distortion carried out; the same two where there is none.

    The rows are laid out party after party, so that a row that several parties hold can look different to each.
    Features that a distortion changes are floating point from here on, already shifted and scaled. The global
    test set stays as it is.
    """
    if not partition.distortions and not partition.shares_rows:
        return dataset, partition
    changes = any(distortion.changes_features for distortion in partition.distortions)
    if changes and (dataset.is_sparse or dataset.kind == "tokens"):
        what = "sparse rows" if dataset.is_sparse else "tokens"
        raise UserError(
            f"{partition.recipe} changes features, which {what} ({dataset.name}) do not allow. Leave it out."
        )
    if changes:
        dataset = replace(
            dataset,
            x=_numbers(dataset.x, dataset),
            x_test=_numbers(dataset.x_test, dataset),
            shift=np.zeros((), np.float32),
            scale=np.ones((), np.float32),
        )
    seen = [_apply(dataset, partition, party) for party in range(partition.parties)]
    ends = np.cumsum([len(y) for _, y in seen])
    x = dataset.x[np.concatenate(partition.rows)] if dataset.is_sparse else np.concatenate([x for x, _ in seen])
    rows = tuple(np.split(np.arange(ends[-1]), ends[:-1]))
    group = np.repeat(np.arange(partition.parties), [len(y) for _, y in seen])
    laid_out = replace(
        dataset,
        x=x,
        y=np.concatenate([y for _, y in seen]),
        group=group,
        group_names=partition.names,
        group_test=None,
    )
    return laid_out, replace(partition, rows=rows, distortions=(), shares_rows=False, leaves_rows=False)


def _numbers(x: Array, dataset: Dataset) -> Array:
    numbers: Array = (x.astype(np.float32) - dataset.shift) / dataset.scale
    return numbers.astype(np.float32)


def _apply(dataset: Dataset, partition: Partition, party: int) -> tuple[Array, Array]:
    rows = partition.rows[party]
    y = dataset.y[rows]
    x = y if dataset.is_sparse else dataset.x[rows]  # sparse rows are never looked at
    for distortion in partition.distortions:
        x, y = distortion.apply(party, x, y)
        if len(x) != len(rows) or len(y) != len(rows):
            raise UserError(f"{partition.recipe} returned {len(y)} rows for {len(rows)}. Mend the distortion.")
    return x, y
