"""Columns of a table by name, index or prefix, for rules that split by one."""

from __future__ import annotations

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError, unknown

_SEPARATORS = ("_", "=")  # between the name of a feature and its category: thal_3, colour=red


def column_values(dataset: Dataset, column: str, rule: str) -> Array:
    """The values of the column with that name or index, as they are stored."""
    check_table(dataset, rule)
    if column in dataset.features:
        place = dataset.features.index(column)
    elif column.isdecimal() and int(column) < dataset.shape[0]:
        place = int(column)
    else:
        raise unknown_column(dataset, column)
    return _take(dataset, [place])[:, 0]


def category_columns(dataset: Dataset, prefix: str) -> list[int]:
    """The columns ``prefix_a``, ``prefix_b``, ... that code one category; none where it is no prefix."""
    starts = tuple(prefix + separator for separator in _SEPARATORS)
    found = [place for place, name in enumerate(dataset.features) if name.startswith(starts)]
    return found if len(found) > 1 else []


def categories(dataset: Dataset, prefix: str, places: list[int]) -> tuple[Array, tuple[str, ...]]:
    """The category of each row that the columns at ``places`` code, and the categories' names."""
    coded = _take(dataset, places)
    group = np.where(coded.max(axis=1) > coded.min(axis=1), coded.argmax(axis=1), len(places))
    names = [f"{prefix} {dataset.features[place][len(prefix) + 1 :]}" for place in places] + [f"{prefix} none"]
    there, group = np.unique(group, return_inverse=True)
    return group.reshape(-1), tuple(names[k] for k in there)


def check_table(dataset: Dataset, rule: str) -> None:
    """Refuse data that have no columns with a meaning of their own."""
    if len(dataset.shape) != 1 or dataset.kind == "tokens":
        raise UserError(f"{rule} needs a table, but {dataset.name} has no columns. Use label-dirichlet(0.5).")


def unknown_column(dataset: Dataset, column: str) -> UserError:
    """The error for a column that is not there, with the nearest match."""
    prefixes = {name.rpartition(s)[0] for name in dataset.features for s in _SEPARATORS if s in name}
    known = {*dataset.features, *(prefix for prefix in prefixes if category_columns(dataset, prefix))}
    if not known or column.isdecimal():
        last = dataset.shape[0] - 1
        return UserError(f"{dataset.name} has columns 0 to {last}, got {column!r}. Use one of them.")
    return unknown(f"column of {dataset.name}", column, known)


def _take(dataset: Dataset, places: list[int]) -> Array:
    taken = dataset.x[:, places]
    values: Array = taken.toarray() if dataset.is_sparse else np.asarray(taken)
    if dataset.gaps and (gone := np.isnan(values).any(axis=1).sum()):
        name = dataset.features[places[0]] if dataset.features else f"column {places[0]}"
        raise UserError(
            f"{name} of {dataset.name} is missing in {gone} row(s), so parties cannot go by it. Use another "
            "column, or missing=indicate."
        )
    return values
