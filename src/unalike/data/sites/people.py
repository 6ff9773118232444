"""Tables of several sites that have other columns of the same people, matched in one process."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

from unalike.data.columns import Column
from unalike.data.dataset import Array, Dataset, Holders, Units, register_dataset
from unalike.data.declared import declarations, declare
from unalike.data.roles import Missing, check_test
from unalike.data.sites.ids import IdCase, IdRule, in_order
from unalike.data.sites.side_by_side import PeopleRule, SidePeople, side_people
from unalike.data.sites.tables import hashed_tables, tables_in
from unalike.data.table import read_table
from unalike.errors import UserError, unknown, within
from unalike.tallies import Kind


@register_dataset("people")
class People:
    """Sites that know other things about the same people, people:FOLDER(label=outcome, id=patient).

    Every CSV or Parquet file in the folder is a site of that name with columns of its own, and ``id`` the column
    (or columns) that tells who a row is of. People whom all sites know are matched, in the clear and to the same
    rows in the same order as real sites match them without telling ids, and the columns stand side by side in
    alphabetical order of the sites. One site has the ``label``. Split it with ``--partition natural``.

    Each site codes its columns alone, by the means and categories of the common people to train on; a fixed
    ``test`` part of the people, chosen by a hash of the id, is the test set. Ids are compared in Unicode's form
    NFKC, by ``id_case=fold`` in upper and lower case alike, and by ``id_strip`` without blanks around them.
    ``ignore``, ``missing``, ``types`` and ``categories`` mean what they mean for ``csv``, with columns that need
    not be at every site; ``missing=drop`` leaves people out before they are matched. Fewer than ``least_common``
    common people are refused.
    """

    path: str = ""
    label: str = ""
    id: tuple[str, ...] = ()
    id_case: IdCase = "fold"
    id_strip: bool = True
    ignore: tuple[str, ...] = ()
    missing: Missing = "error"
    test: float = 0.2
    task: Kind = "classification"
    types: str = ""
    categories: tuple[str, ...] = ()
    least_common: int = 100

    def __post_init__(self) -> None:
        check_test("people", self.test)
        declarations(self.types, self.categories)
        if self.least_common < 2:
            raise UserError(f"people's least_common must be >= 2 people, got {self.least_common}. Use 100.")

    def tables(self) -> dict[str, Path]:
        """The file of every site's table in the folder, by the site's name, in alphabetical order."""
        return dict(sorted(tables_in(self.path, "people").items()))

    def fingerprint(self) -> str:
        """The SHA-256 of all tables; nothing where the sites keep theirs."""
        return hashed_tables(self.tables().values()) if self.path else ""

    def load(self) -> Dataset:
        """Read the tables, match their people, and lay their columns side by side."""
        rule = PeopleRule(
            IdRule(self.id, self.id_case, self.id_strip),
            self.label,
            self.ignore,
            self.missing,
            self.test,
            self.task,
        )
        columns = self._columns()
        holder = label_holder(
            {name: self.label in {c.name for c in one} for name, one in columns.items()}, self.label
        )
        matched = match_in_clear(columns, rule, self.least_common)
        sides = {}
        for name, table in columns.items():
            try:
                sides[name] = side_people(table, matched[name], rule)
            except UserError as error:
                raise within(name, error) from None
        return side_by_side(sides, holder, self.task, self.missing)

    def _columns(self) -> dict[str, list[Column]]:
        tables = self.tables()
        if len(tables) < 2:
            raise UserError(f"There is one table in {self.path}. People are matched between two sites or more.")
        found = {name: _declared(name, path, self.types, self.categories) for name, path in tables.items()}
        known = {column.name for table in found.values() for column in table}
        for kind, names in (
            ("ignored column", self.ignore),
            ("column in types or categories", declarations(self.types, self.categories)),
        ):
            for name in names:
                if name not in known:
                    raise unknown(kind, name, known)
        return found


def _declared(name: str, path: Path, types: str, categories: tuple[str, ...]) -> list[Column]:
    try:
        return declare(read_table(str(path)), types, categories, elsewhere=True)
    except UserError as error:
        raise within(name, error) from None


def label_holder(has: Mapping[str, bool], label: str) -> int:
    """The number of the one site that has the label, by sites in alphabetical order."""
    holders = [name for name in sorted(has) if has[name]]
    if not holders:
        raise UserError(f"no site has the column {label or '(none was named)'}: say which with --label.")
    if len(holders) > 1:
        raise UserError(
            f"{' and '.join(holders)} have the column {label}, but one site has the labels. Let all but one leave "
            "it out of their tables."
        )
    return sorted(has).index(holders[0])


def match_in_clear(columns: Mapping[str, list[Column]], rule: PeopleRule, least_common: int) -> dict[str, Array]:
    """Of each table, the numbers of the rows of people that all have, in the order that all give them."""
    known: dict[str, dict[bytes, int]] = {}
    for name, table in columns.items():
        try:
            rows, ids = rule.rows(table)
        except UserError as error:
            raise within(name, error) from None
        known[name] = dict(zip(ids, rows.tolist(), strict=True))
    common = set.intersection(*(set(one) for one in known.values()))
    check_common(len(common), {name: len(one) for name, one in known.items()}, least_common)
    people = sorted(common)
    people = [people[place] for place in in_order(people).tolist()]
    return {name: np.array([one[person] for person in people], np.int64) for name, one in known.items()}


def check_common(common: int, sizes: Mapping[str, int], least: int) -> None:
    """Refuse too few common people: a model of them would learn little and tell much about each of them."""
    if common >= least:
        return
    *most, last = [f"{size:,}" for size in sizes.values()]
    found = f"Of {', '.join(most)} and {last} ids, {common:,} are common"
    if not common:
        raise UserError(f"{found}. Is the id written the same way at both? (--id-case, --id-strip)")
    raise UserError(
        f"{found}, fewer than least_common={least:,}. Bring more people, or let all agree to a lower one."
    )


def side_by_side(sides: Mapping[str, SidePeople], holder: int, task: Kind, missing: Missing) -> Dataset:
    """One data set of all sites' columns, a party's after the other's, and who has which of them."""
    names = tuple(sides)
    parts = list(sides.values())
    x = np.concatenate([one.x for one in parts], axis=1)
    y, test = parts[holder].y, parts[holder].test
    assert y is not None
    ends = np.cumsum([0, *(one.x.shape[1] for one in parts)])
    units = [one.schema.units for one in parts]
    return Dataset(
        name="people",
        x=x[~test],
        y=y[~test],
        x_test=x[test],
        y_test=y[test],
        classes=parts[holder].schema.classes,
        features=tuple(f"{name}.{feature}" for name, one in sides.items() for feature in one.schema.features),
        units=Units(np.concatenate([one.shift for one in units]), np.concatenate([one.scale for one in units])),
        task=task,
        gaps=missing == "keep",
        holders=Holders(
            names,
            tuple(np.arange(first, last) for first, last in pairwise(ends.tolist())),
            holder,
            tuple(one.apart for one in parts),
            parts[holder].apart_y,
        ),
    )
