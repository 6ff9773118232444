"""Which column of a table is which, the rows without gaps that may not be there, and the test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from unalike.data.columns import KEY, Column
from unalike.data.dataset import Array
from unalike.data.files import one_column
from unalike.errors import UserError, together, unknown
from unalike.part_text import as_text

Missing = Literal["error", "indicate", "drop", "keep"]

_SPLIT_SEED = 271828  # constant: every run, whatever its seed, is tested on the same rows


@dataclass(frozen=True)
class Roles:
    """Which column is the label, which the party, and which are features."""

    label: Column
    party: Column | None
    features: tuple[Column, ...]

    def __post_init__(self) -> None:
        for column in (self.label, *([self.party] if self.party else []), *self.features):
            if column.unusable:
                raise UserError(
                    f"column {column.name}: {column.unusable} cannot be used. Make it a number, a date or a text, "
                    f"or set ignore={as_text(column.name)}."
                )

    @classmethod
    def choose(cls, columns: Sequence[Column], label: str, party: str, ignore: tuple[str, ...]) -> Roles:
        """The roles by name; the last column that is not otherwise used is the label where none is named."""
        if len(columns) < 2:
            raise one_column(columns[0].name)
        said = tuple(one.name for one in columns if one.declared and one.declared.kind == "identifier")
        ignore = (*ignore, *(name for name in said if name not in (label, party)))
        named = {column.name: column for column in columns}
        for role, names in (("label", (label,)), ("party", (party,)), ("ignored", ignore)):
            for name in names:
                if name and name not in named:
                    raise unknown(f"{role} column", name, named)
        free = [column for column in columns if column.name not in (party, *ignore) and column.unusable != KEY]
        if not free or (label and named[label] not in free):
            raise UserError("The label cannot be the party, the key or an ignored column. Name another.")
        target = named[label] if label else free[-1]
        features = tuple(column for column in free if column is not target)
        return cls(target, named[party] if party else None, features)


def complete(roles: Roles, missing: Missing) -> Roles:
    """The columns without the rows to be dropped; an error where a value is missing that may not be."""
    keep = kept_rows([roles.label] + ([roles.party] if roles.party else []), roles.features, missing)
    if keep.all():
        return roles
    party = roles.party.where(keep) if roles.party else None
    return Roles(roles.label.where(keep), party, tuple(column.where(keep) for column in roles.features))


def kept_rows(needed: Sequence[Column], features: Sequence[Column], missing: Missing) -> Array:
    """A mask of the rows that stay; an error where a value is missing that may not be.

    In a ``needed`` column, such as the label, a value may only be missing where its row is dropped.
    """
    keep = np.ones((*needed, *features)[0].rows, bool)
    mistakes = []
    for column in [*needed, *features]:
        if not column.missing:
            continue
        if missing == "error" or (missing != "drop" and column in needed):
            remedy = "drop" if column in needed else "indicate or missing=drop (trees: keep)"
            mistakes.append(column.gap(f"Fill it in, or use missing={remedy}."))
        if missing == "drop":
            keep &= ~column.absent
    if mistakes:
        raise together(mistakes + [mistake for column in features if (mistake := column.odd) is not None])
    if not keep.any():
        raise UserError("Every row has a missing value. Use missing=indicate, or ignore the emptiest columns.")
    return keep


def test_rows(y: Array, party: Array, fraction: float) -> Array:
    """A mask of the test rows: ``fraction`` of every label, rounded, spread over the parties in proportion.

    Within a label the rows are sorted by party, at random within it, and every 1/fraction-th is a test row. So a
    party with many rows of a label has its share within one row, and one-row parties are not all in training, as
    they would be if the share were rounded party by party.
    """
    order = np.lexsort((np.random.default_rng(_SPLIT_SEED).random(len(y)), party, y))
    sizes = np.bincount(y)
    position = np.arange(len(y)) - (np.cumsum(sizes) - sizes)[y[order]]
    chosen = np.floor((position + 1) * fraction + 0.5) > np.floor(position * fraction + 0.5)
    test = np.zeros(len(y), bool)
    test[order] = chosen & (sizes[y[order]] > 1)
    return test


def some_test_rows(name: str, y: Array, party: Array, fraction: float | None) -> Array:
    """A mask of the test rows; a UserError where the fraction asks for some and there are too few rows."""
    if fraction is None:
        return np.zeros(len(y), bool)
    test = test_rows(y, party, fraction)
    if not test.any():
        raise UserError(f"{name} has too few rows for a test set: {len(y)}. Add rows, or make test larger.")
    return test


def natural_parties(names: Array, party: Array, test: Array) -> dict[str, Any]:
    """The natural parties as a data set has them; ``party`` is each row's place in ``names``.

    A party with test rows only is no party.
    """
    present, group = np.unique(party[~test], return_inverse=True)
    place = np.full(len(names), -1)
    place[present] = np.arange(len(present))
    return {"group": group, "group_names": tuple(map(str, names[present])), "group_test": place[party[test]]}


def check_test(name: str, test: float) -> None:
    """Refuse a share of test rows that leaves nothing to test, or too little to train on."""
    if not 0 < test <= 0.5:
        raise UserError(f"{name}'s test must be above 0 and at most 0.5, got {test:g}. Use 0.2.")
