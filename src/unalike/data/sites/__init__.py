"""The tables of a federation's sites in one process: what real sites would train, for rehearsal and comparison."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from unalike.data.columns import Column
from unalike.data.dataset import Array, Dataset, register_dataset
from unalike.data.declared import declare
from unalike.data.roles import Missing, test_rows
from unalike.data.schema import Schema
from unalike.data.sites.agreement import agree
from unalike.data.sites.description import describe
from unalike.data.sites.tables import hashed_tables, tables_in
from unalike.data.table import read_table, table_loader
from unalike.errors import UserError, within

_OF_THE_PLAN = ("label", "party", "ignore", "missing", "test", "task", "types", "categories")


def read_site_table(text: str, types: str = "", *, elsewhere: bool = False) -> list[Column]:
    """The columns of a site's own table, of the plan's types; what the plan says cannot be said with the table.

    ``elsewhere``: types may be those of columns that only other sites have.
    """
    loader = table_loader(text)
    for one in dataclasses.fields(loader):  # type: ignore[arg-type]
        if one.name in _OF_THE_PLAN and getattr(loader, one.name) != one.default:
            raise UserError(f"{one.name}= is the same at all sites: the plan says it. Leave it out of {text}.")
    return declare(loader.table(), types, elsewhere=elsewhere)


def site_data(name: str, schema: Schema, columns: list[Column], missing: Missing, test: float) -> Dataset:
    """A site's rows, coded as agreed, with a fixed part of them as its test rows."""
    try:
        x, y = schema.code(columns, missing)
    except UserError as error:
        raise within(name, error) from None
    chosen = test_rows(y, np.zeros(len(y), np.int64), test)
    if not chosen.any():
        raise UserError(f"{name} has too few rows for a test set: {len(y)}. Add rows, or make test larger.")
    return Dataset(
        name,
        x[~chosen],
        y[~chosen],
        x[chosen],
        y[chosen],
        schema.classes,
        schema.features,
        units=schema.units,
        schema=replace(schema, missing=missing),
        gaps=missing == "keep",
    )


def public_rows(schema: Schema, columns: Sequence[Column], missing: Missing) -> tuple[Array, Array]:
    """The rows and labels of the public table that all sites have, coded as agreed."""
    try:
        return schema.code(columns, missing)
    except UserError as error:
        raise within("The public table", error) from None


@register_dataset("sites")
class Sites:
    """Tables of several sites, sites:FOLDER(label=outcome): each file a natural party, coded as real sites agree.

    Every CSV or Parquet file in the folder is a site of that name, in alphabetical order. Each is described by
    what would leave it (types, categories, means), the coding is agreed on, and each table is coded by it alone; a
    fixed ``test`` part of every table is the test set. ``label``, ``ignore``, ``missing``, ``types`` and
    ``categories`` mean what they mean for ``csv``; ``schema`` is the file of a coding that was agreed before.
    ``public`` is a table with the same columns that every site and the server have: public rows, all of them, for
    algorithms that need some.
    """

    path: str = ""
    label: str = ""
    ignore: tuple[str, ...] = ()
    missing: Missing = "error"
    test: float = 0.2
    schema: str = ""
    public: str = ""
    types: str = ""
    categories: tuple[str, ...] = ()

    def tables(self) -> dict[str, Path]:
        """The file of every site's table in the folder, by the site's name."""
        return tables_in(self.path, "sites")

    def fingerprint(self) -> str:
        """The SHA-256 of all tables, of the schema and of public rows; nothing where the sites keep theirs."""
        if not self.path:
            return ""
        files = [*self.tables().values(), *([Path(self.schema).expanduser()] if self.schema else [])]
        each = [bytes.fromhex(table_loader(self.public).fingerprint())] if self.public else []
        return hashed_tables(files, each)

    def load(self) -> Dataset:
        """Read and code the tables."""
        columns = {name: self._declared(name, str(path)) for name, path in self.tables().items()}
        schema = self._schema(columns)
        each = [site_data(name, schema, columns[name], self.missing, self.test) for name in columns]
        public = public_rows(schema, self._declared("public", self.public), self.missing) if self.public else None
        return replace(
            each[0],
            public=public,
            name="sites",
            x=np.concatenate([one.x for one in each]),
            y=np.concatenate([one.y for one in each]),
            x_test=np.concatenate([one.x_test for one in each]),
            y_test=np.concatenate([one.y_test for one in each]),
            group=np.repeat(np.arange(len(each)), [len(one.y) for one in each]),
            group_names=tuple(columns),
            group_test=np.repeat(np.arange(len(each)), [len(one.y_test) for one in each]),
        )

    def _declared(self, name: str, table: str) -> list[Column]:
        try:
            return declare(read_table(table), self.types, self.categories)
        except UserError as error:
            raise within(name, error) from None

    def _schema(self, columns: dict[str, list[Column]]) -> Schema:
        if self.schema:
            return read_schema(Path(self.schema).expanduser())
        told = {}
        for name, table in columns.items():
            try:
                told[name] = describe(table, self.label, self.ignore, self.missing, self.test)
            except UserError as error:
                raise within(name, error) from None
        return agree(told)


def read_schema(path: Path) -> Schema:
    """The schema in a file."""
    try:
        return Schema.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"Cannot read the schema {path}: {error}.") from None
