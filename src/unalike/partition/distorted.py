"""A data set as its parties see it: distortions applied, shared rows copied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.own_code import called, place
from unalike.partition.by_party import RowsByParty, all_rows, sizes_of
from unalike.partition.partition import Distortion, Partition


def as_seen(dataset: Dataset, partition: Partition) -> tuple[Dataset, Partition]:
    """The data set and partition with every distortion carried out; the same two where there is none.

    The rows are laid out party after party, so that a row that several parties hold can look different to each.
    Features that a distortion changes are floating point from here on, already shifted and scaled. The global
    test set stays as it is. Besides the result, no more than one party's rows are in memory as numbers at a time.
    """
    if not partition.distortions and not partition.shares_rows:
        return dataset, partition
    sizes = sizes_of(partition.rows)
    ends = np.cumsum(sizes)
    x, y = _lay_out(dataset, partition, ends)
    changes: dict[str, Any] = {}
    if changes_features(partition):
        changes = {
            "x_test": prepared(dataset.x_test, dataset),
            "shift": np.zeros((), np.float32),
            "scale": np.ones((), np.float32),
        }
    group = np.repeat(np.arange(partition.parties), sizes)
    names = tuple(partition.names)
    laid_out = replace(dataset, x=x, y=y, group=group, group_names=names, group_test=None, **changes)
    rows = RowsByParty(np.arange(ends[-1]), sizes)
    return laid_out, replace(partition, rows=rows, distortions=(), shares_rows=False, leaves_rows=False)


def seen_by(dataset: Dataset, partition: Partition, party: int) -> tuple[Any, Array]:
    """Features and labels of one party as it sees them: prepared numbers where a distortion changes features."""
    if changes_features(partition):
        check_numbers(dataset, partition.recipe)
    rows = partition.rows[party]
    x, y = dataset.x[rows], dataset.y[rows]
    if dataset.is_sparse:  # sparse rows are never looked at: y stands in for them
        return x, _distort(partition, party, y, y)[1]
    if changes_features(partition):
        x = prepared(x, dataset)
    return _distort(partition, party, x, y)


def seen_label_counts(dataset: Dataset, partition: Partition) -> Array:
    """The party-by-label table as the parties see it, that is after distortions of labels."""
    if not partition.distortions or dataset.task == "regression":  # no distortion changes numbers
        return partition.label_counts(dataset)
    labels = len(dataset.classes)
    return np.stack(
        [np.bincount(seen_by(dataset, partition, k)[1], minlength=labels) for k in range(partition.parties)]
    )


def changes_features(partition: Partition) -> bool:
    """Whether the parties see other features than the data set has."""
    return any(distortion.changes_features for distortion in partition.distortions)


def prepared(x: Any, dataset: Dataset) -> Array:
    """Rows of this data set as a batch has them, shifted and scaled, in one new array of floating point."""
    kind = np.promote_types(x.dtype, np.float32) if np.issubdtype(x.dtype, np.floating) else np.float32
    numbers: Array = np.array(x, dtype=kind)
    numbers -= dataset.shift.astype(kind)
    numbers /= dataset.scale.astype(kind)
    return numbers


def check_numbers(dataset: Dataset, recipe: str) -> None:
    """Refuse to change features that are sparse, mean words or may be missing."""
    if dataset.is_sparse or dataset.kind == "tokens" or dataset.gaps:
        what = "sparse rows" if dataset.is_sparse else "missing values" if dataset.gaps else "tokens"
        raise UserError(f"{recipe} changes features, which {what} ({dataset.name}) do not allow. Leave it out.")


def draw_seed(rng: np.random.Generator) -> int:
    """What a distortion remembers of the stream that it was made from."""
    return int(rng.integers(2**63))


def party_stream(seed: int, party: int) -> np.random.Generator:
    """A party's own stream: what it sees does not depend on the other parties, nor on how often it looks."""
    return np.random.default_rng(np.random.SeedSequence([seed, party]))


def _lay_out(dataset: Dataset, partition: Partition, ends: Array) -> tuple[Any, Array]:
    """All parties' rows one after another, written into their place one party at a time."""
    y = np.empty(ends[-1], dataset.y.dtype)
    x: Any = None
    for party, end in enumerate(ends):
        seen, y[end - len(partition.rows[party]) : end] = seen_by(dataset, partition, party)
        if dataset.is_sparse:
            continue
        if x is None:
            x = np.empty((ends[-1], *dataset.shape), seen.dtype)
        x[end - len(seen) : end] = seen
    return dataset.x[all_rows(partition.rows)] if dataset.is_sparse else x, y


def _distort(partition: Partition, party: int, x: Array, y: Array) -> tuple[Array, Array]:
    rows = len(y)
    for distortion in partition.distortions:
        changed = called(distortion, "apply", Distortion.apply, party, x, y, returns=tuple)
        if len(changed) != 2:
            raise UserError(
                f"{place(distortion, 'apply')} must return features and labels, got {len(changed)} values."
            )
        x, y = map(np.atleast_1d, changed)
        if len(x) != rows or len(y) != rows:
            raise UserError(f"{partition.recipe} returned {len(y)} rows for {rows}. Mend the distortion.")
    return x, y
