"""How much each attribute tells about the label: what importance skew between parties goes by."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.partition.vertical import attributes_of

SAMPLED: Final = 20_000
"""Training rows that importances are estimated from, where there are more: always the same ones."""
_BINS = 16
_SEED = 11


def importances(dataset: Dataset, attribute: Array | None = None) -> Array:
    """The mutual information of each attribute with the label, as shares that sum to 1; even where none has any.

    Values are cut into up to 16 bins, missing ones have one of their own, and what chance alone would show (Miller
    and Madow's correction) is taken off. Of several columns, an attribute goes by the first that is not at its
    most frequent value: that tells a category. ``attribute`` is that of each column, by default
    :func:`~unalike.partition.vertical.attributes_of`. What one attribute repeats of another counts twice.
    """
    attribute = attributes_of(dataset) if attribute is None else attribute
    rows = sampled_rows(dataset)
    x = flat_columns(dataset, rows)
    labels = dataset.labels[rows]
    told = np.array(
        [_information(_code(x, np.flatnonzero(attribute == one)), labels) for one in range(attribute.max() + 1)]
    )
    whole = float(told.sum())
    return told / whole if whole > 0 else np.full(len(told), 1 / len(told))


def sampled_rows(dataset: Dataset) -> Array:
    """Up to ``SAMPLED`` training rows, drawn at random but always the same, ascending."""
    if dataset.size <= SAMPLED:
        return np.arange(dataset.size)
    return np.sort(np.random.default_rng(_SEED).choice(dataset.size, SAMPLED, replace=False))


def flat_columns(dataset: Dataset, rows: Array) -> Any:
    """These rows as [rows, columns]: an array, or a sparse matrix that columns are taken from."""
    x = dataset.x[rows]
    return x.tocsc() if dataset.is_sparse else x.reshape(len(rows), -1)


def dense_column(x: Any, column: int) -> Array:
    """The values of one column."""
    values: Array = x[:, [column]].toarray()[:, 0] if hasattr(x, "indptr") else x[:, column]
    return values


def _code(x: Any, columns: Array) -> Array:
    """A number for what each row has of this attribute, from 0."""
    code = np.zeros(x.shape[0], np.int64)
    for place, column in enumerate(columns[::-1]):  # the first column has the last word
        bins = _binned(dense_column(x, column))
        usual = np.bincount(bins).argmax()
        code = np.where(bins == usual, code, 1 + place * (_BINS + 2) + bins)
    return code


def _binned(values: Array) -> Array:
    """The bin of each value: its own where there are few, else of as many rows; missing ones have the last."""
    there = ~np.isnan(values)
    known = np.unique(values[there])
    if len(known) > _BINS:
        known = np.unique(np.quantile(values[there], np.arange(1, _BINS) / _BINS))
    bins = np.searchsorted(known, np.where(there, values, 0), side="right")
    return np.where(there, bins, _BINS + 1)


def _information(code: Array, labels: Array) -> float:
    """The mutual information of two columns of numbers from 0, in nats, less what chance shows; at least 0."""
    _, code = np.unique(code, return_inverse=True)
    _, labels = np.unique(labels, return_inverse=True)
    table = np.zeros((code.max() + 1, labels.max() + 1))
    np.add.at(table, (code, labels), 1)
    count = len(code)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / count
    there = table > 0
    found = float((table[there] * np.log(table[there] / expected[there])).sum() / count)
    by_chance = (table.shape[0] - 1) * (table.shape[1] - 1) / (2 * count)
    return max(0.0, float(found - by_chance))
