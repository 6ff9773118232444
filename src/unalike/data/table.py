"""A table of the user's own, ``csv:PATH`` and ``parquet:PATH``: checked, coded as numbers, split."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np

from unalike.data.columns import Column, Inferred
from unalike.data.csv_file import CSVFile
from unalike.data.dataset import DATASETS, Array, Dataset, TableLoader, register_dataset
from unalike.data.declared import declarations, declare, ways_of, written
from unalike.data.files import check_file
from unalike.data.folder import NotFound
from unalike.data.labels import number_classes, read_targets
from unalike.data.parquet import read_parquet
from unalike.data.roles import Missing, Roles, check_test, complete, natural_parties, some_test_rows
from unalike.data.schema import Field, Schema, fit
from unalike.data.targets import strata
from unalike.errors import UserError, for_each
from unalike.tallies import Kind


@register_dataset("csv")
class CSV:
    """Your own table, csv:PATH(label=outcome): numbers and categories, optional party column.

    ``label`` is the column to predict (default: the last that is neither party nor ignored), ``party`` the column
    whose values are the natural parties (default: none), ``ignore`` columns to leave out, ``test`` the fraction
    of rows that are the test set: fixed, stratified by label, and spread over the parties. A label that occurs
    once stays in training.

    Types are inferred (``infer`` shows them). Numbers are standardised by the mean and standard deviation of the
    training rows: that pools all parties' rows, as only a simulation may; parties that must not pool theirs need
    agreed constants. A decimal comma (3,14) is understood; a column in which it could as well separate thousands
    (1,234) is refused. ISO dates and times (2024-12-31, 2024-12-31T23:59+01:00) are numbers, too: days since 1970.
    Other texts are categories, one column for each value seen in training; a value that only test rows have is all
    zeros. yes/no and true/false become 1/0. Columns that never vary are left out. A text column whose values all
    differ (an identifier), or that has more than 20 values and fewer than five rows for each of them on average (a
    free text), is refused until it is named in ``ignore``; so are more than 1000 values.

    A label of more than 20 numbers that are not the codes 0, 1, 2, ... or 1, 2, 3, ... is a quantity, not a class.
    With ``task=regression`` it is predicted as a number, and the test set is stratified by its tenths; without, it
    is refused.

    ``types`` and ``categories`` say what values cannot show, ``types='born:date grade:ordinal(low<mid<high)'``
    and ``categories=(sex, cp)``; kinds are number, binary, category, date, ordinal and identifier (left out).
    ``decimal`` and ``thousands`` are signs in numbers (comma, point, space, apostrophe), ``dates`` is the form of
    dates (%d.%m.%Y), ``encoding`` that of the file; ``delimiter`` may be semicolon or tab.

    Empty, ?, NA, N/A, NaN and null mean a missing value. ``missing="error"`` refuses them; ``"indicate"`` makes
    them 0 (after standardising; in all columns of a category) and adds a column ``<name>_missing``; ``"drop"``
    leaves their rows out; ``"keep"`` lets them be missing, NaN in all columns of a category, which trees can read
    and nets cannot. A label or party may not be missing, unless its row is dropped.
    """

    path: str
    label: str = ""
    party: str = ""
    test: float = 0.2
    missing: Missing = "error"
    delimiter: str = ","
    ignore: tuple[str, ...] = ()
    task: Kind = "classification"
    types: str = ""
    categories: tuple[str, ...] = ()
    decimal: str = ""
    thousands: str = ""
    dates: str = ""
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_test("csv", self.test)
        declarations(self.types, self.categories)
        ways_of(self.decimal, self.thousands, self.dates)

    def fingerprint(self) -> str:
        """The SHA-256 of the file's content."""
        return _fingerprint(self.path)

    def columns(self) -> list[Inferred]:
        """What was inferred of every column."""
        return inferred(self.table())

    def table(self) -> list[Column]:
        """The columns of the table, as they are, of the kinds that were said."""
        columns = CSVFile(_path(self.path), self.delimiter, self.encoding).columns()
        return declare(written(columns, self.decimal, self.thousands, self.dates), self.types, self.categories)

    def load(self) -> Dataset:
        """Read and code the table."""
        roles = Roles.choose(self.table(), self.label, self.party, self.ignore)
        return coded(_path(self.path).stem, roles, self.test, self.missing, self.task)


@register_dataset("parquet")
class Parquet:
    """Your own table, parquet:PATH(label=outcome): as csv, read from a Parquet file (needs pyarrow).

    The parameters mean what they mean for ``csv``; null and NaN are missing values.
    """

    path: str
    label: str = ""
    party: str = ""
    test: float = 0.2
    missing: Missing = "error"
    ignore: tuple[str, ...] = ()
    task: Kind = "classification"
    types: str = ""
    categories: tuple[str, ...] = ()
    decimal: str = ""
    thousands: str = ""
    dates: str = ""

    def __post_init__(self) -> None:
        check_test("parquet", self.test)
        declarations(self.types, self.categories)
        ways_of(self.decimal, self.thousands, self.dates)

    def fingerprint(self) -> str:
        """The SHA-256 of the file's content."""
        return _fingerprint(self.path)

    def columns(self) -> list[Inferred]:
        """What was inferred of every column."""
        return inferred(self.table())

    def table(self) -> list[Column]:
        """The columns of the table, as they are, of the kinds that were said."""
        columns = written(read_parquet(_path(self.path)), self.decimal, self.thousands, self.dates)
        return declare(columns, self.types, self.categories)

    def load(self) -> Dataset:
        """Read and code the table."""
        roles = Roles.choose(self.table(), self.label, self.party, self.ignore)
        return coded(_path(self.path).stem, roles, self.test, self.missing, self.task)


def table_loader(text: str) -> TableLoader:
    """The source of a table: FILE, or a data set that is one table, such as csv:FILE(delimiter=';')."""
    plain = re.sub(r"^(csv|parquet):", "", text)  # a name may well have brackets
    named = re.match(r"([A-Za-z][\w+-]+)[:(]", text)
    if named and not _path(plain).is_file():
        found = DATASETS.build(text)
        if not hasattr(found, "table"):
            tables = ", ".join(f"{entry.name}:..." for entry in DATASETS if hasattr(entry.cls, "table"))
            raise UserError(f"{named[1]} is not one table. Name a CSV or Parquet file, or use {tables}.")
        return cast("TableLoader", found)
    is_parquet = text.startswith("parquet:") or _path(plain).suffix == ".parquet"
    return Parquet(plain) if is_parquet else CSV(plain)


def read_table(text: str) -> list[Column]:
    """The columns of a table: of FILE, or of a data set that is one, such as csv:FILE(delimiter=';')."""
    return table_loader(text).table()


def infer(path: str, delimiter: str = ",") -> list[Inferred]:
    """The type, the number of missing and of distinct values of every column of a CSV or Parquet file.

    A file whose name ends in ``.parquet`` is read as one. ``constant`` columns are left out when the table is
    loaded, an ``identifier`` (a text that differs in every row) is refused until it is named in ``ignore``.
    """
    return inferred(
        Parquet(path).table() if _path(path).suffix == ".parquet" else CSV(path, delimiter=delimiter).table()
    )


def inferred(columns: Sequence[Column]) -> list[Inferred]:
    """What there is to show of every column of a table."""
    return [
        Inferred(column.name, column.kind, column.missing, column.variety, column.question) for column in columns
    ]


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _fingerprint(text: str) -> str:
    check_file(_path(text))
    try:
        with _path(text).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        raise NotFound(f"There is no readable file {text}. Check the path.") from None


def coding_of(
    columns: Sequence[Column], train: Array, missing: Missing
) -> tuple[tuple[Field, ...], tuple[str, ...]]:
    """The coding of every column that varies, and the names of the others; all that is wrong is told at once.

    Of a column that is always the same where it is known, whether it is missing may tell something.
    """

    def told(column: Column) -> bool:
        return missing == "indicate" or (missing == "keep" and column.kind == "constant")

    found = for_each(lambda column: fit(column, train, told(column)), columns)
    fields = tuple(one for one in found if one)
    if not fields:
        raise UserError("No column varies, so there is nothing to learn from. Check the table.")
    return fields, tuple(column.name for column, one in zip(columns, found, strict=True) if one is None)


def coded(name: str, roles: Roles, fraction: float | None, missing: Missing, task: Kind) -> Dataset:
    """A table's way from texts to numbers: rows that may be used, classes, test rows, and a coding of the rest.

    Without a ``fraction`` there are no test rows.
    """
    roles = complete(roles, missing)
    classes: tuple[str, ...] = ()
    if task == "regression":
        y = read_targets(roles.label)
        kinds = strata(y)
    else:
        y, classes = number_classes(roles.label)
        kinds = y
    party, names = np.zeros(len(y), np.int64), [""]
    if roles.party:
        names = sorted(roles.party.distinct)
        places = {name: place for place, name in enumerate(names)}
        party = roles.party.spread({text: places[value] for text, value in roles.party.values.items()}, -1)
    test = some_test_rows(name, kinds, party, fraction)
    fields, constant = coding_of(roles.features, ~test, missing)
    schema = Schema(roles.label.name, classes, fields, constant, missing)
    x = schema.rows(roles.features, missing)
    return Dataset(
        name=name,
        x=x[~test],
        y=y[~test],
        x_test=x[test],
        y_test=y[test],
        classes=classes,
        features=schema.features,
        **(natural_parties(np.array(names), party, test) if roles.party else {}),
        units=schema.units,
        task=task,
        schema=schema,
        gaps=missing == "keep",
    )
