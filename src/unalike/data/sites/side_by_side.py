"""One site's part of tables that lie side by side: its own columns of the people that all sites know.

Each site codes its columns alone, by its own means and categories, so nothing about them leaves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unalike.data.columns import KEY, Column
from unalike.data.dataset import Array
from unalike.data.labels import class_places, number_classes, read_targets
from unalike.data.roles import Missing, Roles, kept_rows
from unalike.data.schema import Schema
from unalike.data.sites.ids import IdRule, to_test
from unalike.data.table import coding_of
from unalike.errors import UserError
from unalike.tallies import Kind


@dataclass(frozen=True)
class PeopleRule:
    """What all sites declare alike of their tables: the id, the label, and what becomes of gaps.

    A site need not have the label, or a column that is to be ignored.
    """

    id: IdRule
    label: str
    ignore: tuple[str, ...] = ()
    missing: Missing = "error"
    test: float = 0.2
    task: Kind = "classification"

    def __post_init__(self) -> None:
        if self.label in self.id.columns:
            raise UserError(f"column {self.label} cannot be the id and the label. Name another label.")

    def rows(self, columns: Sequence[Column]) -> tuple[Array, list[bytes]]:
        """The numbers of the rows that may be used, and the ids of these: what a site brings to a matching.

        With ``missing="drop"`` rows with gaps are left out before anybody is matched.
        """
        label, features = self.roles(columns)
        keep = kept_rows([label] if label else [], features, self.missing)
        ids = self.id.read([column.where(keep) for column in self.id.of(columns)])
        return np.flatnonzero(keep), ids

    def roles(self, columns: Sequence[Column]) -> tuple[Column | None, tuple[Column, ...]]:
        """The column with the label, where this table has it, and the columns to learn from."""
        self.id.of(columns)
        named = {column.name: column for column in columns}
        free = [column for column in columns if column.name not in self.id.columns]
        own = tuple(name for name in self.ignore if name in named and name not in self.id.columns)
        if self.label in named:
            if len(free) < 2:
                raise UserError(f"There is nothing to learn from beside the id and {self.label}. Add a column.")
            found = Roles.choose(free, self.label, "", own)
            return found.label, found.features
        said = {one.name for one in free if one.declared and one.declared.kind == "identifier"}
        left = [one for one in free if one.name not in {*own, *said} and one.unusable != KEY]
        if not left:
            raise UserError("There is nothing to learn from beside the id. Add a column.")
        Roles(left[0], None, tuple(left[1:]))  # refuses columns that cannot be used
        return None, tuple(left)


@dataclass(frozen=True, eq=False)
class SidePeople:
    """A site's columns of the people that all sites know, in the order that all give them, coded by it alone.

    ``y`` is None at a site that has no labels. ``apart`` are the site's rows of people that not all sites know,
    and ``apart_y`` their labels at the site that has them; none of these is a person to test on.
    """

    schema: Schema
    x: Array
    y: Array | None
    test: Array
    """a mask of the people to test on"""
    apart: Array
    apart_y: Array | None = field(default=None)


def side_people(columns: Sequence[Column], matched: Array, rule: PeopleRule) -> SidePeople:
    """The site's part: ``matched`` are the numbers of its rows of common people, in the common order."""
    label, features = rule.roles(columns)
    rows, ids = rule.rows(columns)
    place = {row: number for number, row in enumerate(rows.tolist())}
    common = [place.get(row, -1) for row in matched.tolist()]
    if min(common, default=-1) < 0 or len(set(common)) < len(common):
        raise UserError("The rows that were matched are not in this table. Match again.")
    test = to_test([ids[one] for one in common], rule.test)
    if test.all() or not test.any():
        which = "train on" if test.all() and len(test) else "test on"
        raise UserError(
            f"Of {len(common):,} common people there is nobody to {which} with test={rule.test:g}. "
            "Change test, or find more people."
        )
    train = np.zeros(columns[0].rows, bool)
    train[matched[~test]] = True
    fields, constant = coding_of(features, train, rule.missing)
    others = np.setdiff1d(rows, matched)
    y = apart_y = None
    classes: tuple[str, ...] = ()
    if label is not None:
        y, classes, others, apart_y = _answers(label, matched, others, rule.task)
        if len(np.unique(y[~test])) < 2:
            raise UserError(
                f"The label {label.name} is the same of all {int((~test).sum()):,} common people to train on. "
                "It must vary."
            )
    schema = Schema(label.name if label else "", classes, fields, constant, rule.missing)
    x = schema.rows(features, rule.missing)
    return SidePeople(schema, x[matched], y, test, x[others], apart_y)


def _answers(
    label: Column, matched: Array, others: Array, task: Kind
) -> tuple[Array, tuple[str, ...], Array, Array]:
    """The labels of common people, their classes, the other rows whose label is one of these, and these labels."""
    if task == "regression":
        every = read_targets(label)
        return every[matched], (), others, every[others]
    known = np.zeros(label.rows, bool)
    known[matched] = True
    found, classes = number_classes(label.where(known))
    among = np.full(label.rows, -1, np.int64)
    among[known] = found
    places = class_places(label, classes)
    every = label.spread({text: -1 if place is None else place for text, place in places.items()}, -1)
    others = others[every[others] >= 0]
    return among[matched], classes, others, every[others]
