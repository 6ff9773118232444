"""The table of somebody who looks over all parties' shoulders: their blocks of columns side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from unalike.data.dataset import Array, Dataset, Units
from unalike.partition.blocks import columns_of, common_rows, labels_of
from unalike.partition.distorted import changes_features
from unalike.partition.partition import Partition


def all_see_alike(partition: Partition) -> bool:
    """Whether a column says the same at every party that has it."""
    return not partition.distortions and partition.disagreement is None


def side_by_side(dataset: Dataset, partition: Partition) -> tuple[Dataset, tuple[Array, ...]]:
    """The people whom all know, with every party's block as it sees them, and which columns are whose.

    For where parties differ in what a shared column says: then it is there once for each of them.
    """
    assert partition.columns is not None
    common, parties = common_rows(partition), range(partition.parties)
    every = np.concatenate(partition.columns)
    ready = changes_features(partition)  # then numbers are shifted and scaled already
    names = dataset.features or tuple(f"column {k}" for k in range(int(np.prod(dataset.shape))))
    features = [f"{names[k]} ({partition.names[party]})" for party in parties for k in partition.columns[party]]
    made = replace(
        dataset,
        x=_joined([columns_of(dataset, partition, party, common) for party in parties]),
        y=labels_of(dataset, partition, common),
        x_test=_joined([columns_of(dataset, partition, party, test=True) for party in parties]),
        features=tuple(features),
        group=None,
        group_names=(),
        group_test=None,
        shift=np.zeros((), np.float32) if ready else of_columns(dataset.shift, dataset, every),
        scale=np.ones((), np.float32) if ready else of_columns(dataset.scale, dataset, every),
        units=Units(*(of_columns(part, dataset, every) for part in dataset.units)),
        schema=None,
    )
    ends = np.cumsum([0, *map(len, partition.columns)])
    return made, tuple(np.arange(ends[k], ends[k + 1]) for k in parties)


def of_columns(part: Array, dataset: Dataset, columns: Array) -> Array:
    """Of a shift or a scale of rows, what belongs to some of the flattened columns."""
    flat: Array = np.broadcast_to(part, dataset.shape).reshape(-1)[columns]
    return flat


def _joined(blocks: list[Any]) -> Any:
    if not hasattr(blocks[0], "indptr"):
        return np.hstack(blocks)
    from scipy import sparse

    return sparse.hstack(blocks, format="csr")
