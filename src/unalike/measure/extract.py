"""The variable that parties measure: their labels, or a few numbers for each of their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.data.gaps import indicated
from unalike.errors import UserError
from unalike.measure.support import named
from unalike.partition import Partition, seen_by, seen_label_counts
from unalike.partition.distorted import changes_features, prepared

Extractor = Callable[[Array], Array]
"""From rows as a batch has them, shifted and scaled, to [rows, dimensions]."""
MOST_COLUMNS = 64
"""Columns up to which a table is measured column by column: with 64 bins they fit into one ciphertext."""
PROJECTED = 12
"""Dimensions of the random projection, as many as in the paper's figure 8."""
_SEED = 202312  # public and constant, so that all parties project alike
_CHUNK = 4096  # rows that are in memory as floating point at a time


def party_labels(dataset: Dataset, partition: Partition) -> dict[str, dict[str, int]]:
    """For each party, how many rows of each label it sees."""
    _check(partition)
    counts = seen_label_counts(dataset, partition)
    return {
        name: {label: int(rows) for label, rows in zip(dataset.label_names, line, strict=True) if rows}
        for name, line in zip(partition.names, counts, strict=True)
    }


def party_features(dataset: Dataset, partition: Partition, extractor: Extractor | None = None) -> dict[str, Array]:
    """For each party, the features of its rows as it sees them, [rows, dimensions].

    With an ``extractor``, what that gives; it is for dense rows. Else the columns of a table of at most
    ``MOST_COLUMNS``, or a fixed random projection to ``PROJECTED`` dimensions of anything else: images, wider
    tables, sparse rows, and the counts of tokens. That a value is missing is measured as a column of its own.
    """
    _check(partition)
    if extractor is not None and dataset.is_sparse:
        raise UserError(f"{dataset.name} has sparse rows, which no extractor can take. Leave it out.")
    dataset = indicated(dataset)
    return {name: _features(dataset, partition, party, extractor) for party, name in enumerate(partition.names)}


def dimension_names(dataset: Dataset, extractor: Extractor | None = None) -> tuple[str, ...]:
    """What to call the dimensions of ``party_features``; empty with an extractor, which does not tell."""
    if extractor is not None:
        return ()
    dataset = indicated(dataset)
    if _by_column(dataset):
        return dataset.features or tuple(f"column {k}" for k in range(dataset.shape[0]))
    return tuple(f"projection {k}" for k in range(PROJECTED))


def project(rows: Any) -> Array:
    """Rows times a Gaussian matrix with entries N(0, 1 / columns): lengths are kept on average.

    Row k of the matrix does not depend on how many there are, so parties need not agree on a vocabulary.
    """
    flat = rows if hasattr(rows, "indptr") else rows.reshape(len(rows), -1)
    matrix = np.random.default_rng(_SEED).standard_normal((flat.shape[1], PROJECTED))
    projected: Array = np.asarray(flat @ matrix) / np.sqrt(flat.shape[1])
    return projected


def project_tokens(rows: Array) -> Array:
    """The counts of each row's tokens, projected, and divided by the root of the row's length."""
    from scipy import sparse

    flat = rows.reshape(len(rows), -1)
    count, length = flat.shape
    ends = np.arange(0, count * length + 1, length)
    counts = sparse.csr_matrix((np.ones(count * length), flat.ravel(), ends), (count, int(flat.max()) + 1))
    projected: Array = project(counts) * np.sqrt(counts.shape[1] / length)
    return projected


def _features(dataset: Dataset, partition: Partition, party: int, extractor: Extractor | None) -> Array:
    x, _ = seen_by(dataset, partition, party)
    ready = changes_features(partition)
    parts = []
    for first in range(0, x.shape[0], _CHUNK):
        rows = x[first : first + _CHUNK]
        if dataset.kind == "numbers" and not dataset.is_sparse and not ready:
            rows = prepared(rows, dataset)
        parts.append(_extracted(dataset, partition.names[party], rows, extractor))
    return np.concatenate(parts)


def _extracted(dataset: Dataset, party: str, rows: Any, extractor: Extractor | None) -> Array:
    if extractor is not None:
        found = np.asarray(extractor(rows))
        if found.ndim != 2 or len(found) != len(rows):
            raise UserError(
                f"The extractor gave the shape {found.shape} for {len(rows)} rows of {named(party).lower()}. "
                "It must give [rows, dimensions]."
            )
        return found
    if dataset.kind == "tokens":
        return project_tokens(rows)
    return np.asarray(rows) if _by_column(dataset) else project(rows)


def _by_column(dataset: Dataset) -> bool:
    dense = dataset.kind == "numbers" and not dataset.is_sparse
    return dense and len(dataset.shape) == 1 and dataset.shape[0] <= MOST_COLUMNS


def _check(partition: Partition) -> None:
    if partition.columns is not None:
        raise UserError(
            f"{partition.recipe} gives the parties different columns of the same rows, so there is no common "
            "variable to measure. Who has which columns says unalike measure; to train, name an algorithm such as "
            "vertical or secureboost."
        )
