"""A table of the user's own, ``csv:PATH`` and ``parquet:PATH``: checked, coded as numbers, split."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from unalike.data.columns import BINARY, Column, Inferred, check_few, check_file, read_csv
from unalike.data.dataset import Array, Dataset, Units, register_dataset
from unalike.data.folder import NotFound
from unalike.data.labels import number_classes, read_targets
from unalike.data.parquet import read_parquet
from unalike.data.targets import strata
from unalike.errors import UserError, unknown
from unalike.tallies import Kind

Missing = Literal["error", "indicate", "drop"]

_SPLIT_SEED = 271828  # constant: every run, whatever its seed, is tested on the same rows


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

    Empty, ?, NA, N/A, NaN and null mean a missing value. ``missing="error"`` refuses them; ``"indicate"`` makes
    them 0 (after standardising; in all columns of a category) and adds a column ``<name>_missing``; ``"drop"``
    leaves their rows out. A label or party may not be missing, unless its row is dropped.
    """

    path: str
    label: str = ""
    party: str = ""
    test: float = 0.2
    missing: Missing = "error"
    delimiter: str = ","
    ignore: tuple[str, ...] = ()
    task: Kind = "classification"

    def __post_init__(self) -> None:
        _check_test("csv", self.test)

    def fingerprint(self) -> str:
        """The SHA-256 of the file's content."""
        return _fingerprint(self.path)

    def columns(self) -> list[Inferred]:
        """What was inferred of every column."""
        return infer(self.path, self.delimiter)

    def load(self) -> Dataset:
        """Read and code the table."""
        columns = read_csv(_path(self.path), self.delimiter)
        roles = Roles.choose(columns, self.label, self.party, self.ignore)
        return _dataset(_path(self.path).stem, roles, self.test, self.missing, self.task)


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

    def __post_init__(self) -> None:
        _check_test("parquet", self.test)

    def fingerprint(self) -> str:
        """The SHA-256 of the file's content."""
        return _fingerprint(self.path)

    def columns(self) -> list[Inferred]:
        """What was inferred of every column."""
        return _inferred(read_parquet(_path(self.path)))

    def load(self) -> Dataset:
        """Read and code the table."""
        columns = read_parquet(_path(self.path))
        roles = Roles.choose(columns, self.label, self.party, self.ignore)
        return _dataset(_path(self.path).stem, roles, self.test, self.missing, self.task)


def infer(path: str, delimiter: str = ",") -> list[Inferred]:
    """The type, the number of missing and of distinct values of every column of a CSV or Parquet file.

    A file whose name ends in ``.parquet`` is read as one. ``constant`` columns are left out when the table is
    loaded, an ``identifier`` (a text that differs in every row) is refused until it is named in ``ignore``.
    """
    place = _path(path)
    columns = read_parquet(place) if place.suffix == ".parquet" else read_csv(place, delimiter)
    return _inferred(columns)


def _inferred(columns: Sequence[Column]) -> list[Inferred]:
    return [Inferred(column.name, column.kind, column.missing, column.variety) for column in columns]


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
                    f"or set ignore={column.name}."
                )

    @classmethod
    def choose(cls, columns: Sequence[Column], label: str, party: str, ignore: tuple[str, ...]) -> Roles:
        """The roles by name; the last column that is not otherwise used is the label where none is named."""
        named = {column.name: column for column in columns}
        for role, names in (("label", (label,)), ("party", (party,)), ("ignored", ignore)):
            for name in names:
                if name and name not in named:
                    raise unknown(f"{role} column", name, named)
        free = [column for column in columns if column.name not in (party, *ignore)]
        if not free or (label and named[label] not in free):
            raise UserError("The label cannot be the party or an ignored column. Name another.")
        target = named[label] if label else free[-1]
        features = tuple(column for column in free if column is not target)
        return cls(target, named[party] if party else None, features)


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _fingerprint(text: str) -> str:
    check_file(_path(text))
    try:
        with _path(text).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        raise NotFound(f"There is no readable file {text}. Check the path.") from None


def _check_test(name: str, test: float) -> None:
    if not 0 < test <= 0.5:
        raise UserError(f"{name}'s test must be above 0 and at most 0.5, got {test:g}. Use 0.2.")


def _dataset(name: str, roles: Roles, fraction: float, missing: Missing, task: Kind) -> Dataset:
    """The whole way from text to numbers."""
    roles = complete(roles, missing)
    classes: tuple[str, ...] = ()
    if task == "regression":
        y = read_targets(roles.label)
        kinds = strata(y)
    else:
        y, classes = number_classes(roles.label)
        kinds = y
    party, parties = np.zeros(len(y), np.int64), np.array([""])
    if roles.party:
        parties, party = np.unique([value.strip() for value in roles.party.cells], return_inverse=True)
    test = test_rows(kinds, party, fraction)
    if not test.any():
        raise UserError(f"{name} has too few rows for a test set: {len(y)}. Add rows, or make test larger.")
    x, features, units = _code(roles.features, ~test, indicate=missing == "indicate")
    present, group = np.unique(party[~test], return_inverse=True)
    place = np.full(len(parties), -1)  # a party with test rows only is no party
    place[present] = np.arange(len(present))
    return Dataset(
        name=name,
        x=x[~test],
        y=y[~test],
        x_test=x[test],
        y_test=y[test],
        classes=classes,
        features=features,
        group=group if roles.party else None,
        group_names=tuple(map(str, parties[present])) if roles.party else (),
        group_test=place[party[test]] if roles.party else None,
        units=units,
        task=task,
    )


def complete(roles: Roles, missing: Missing) -> Roles:
    """The columns without the rows to be dropped; an error where a value is missing that may not be."""
    needed = [roles.label] + ([roles.party] if roles.party else [])
    keep = np.ones(len(roles.label.cells), bool)
    for column in [*needed, *roles.features]:
        if not column.missing:
            continue
        if missing == "error" or (missing == "indicate" and column in needed):
            remedy = "drop" if column in needed else "indicate or missing=drop"
            first = next(text for text in column.cells if text in column.gaps)
            rest = f" ({column.missing} in all)" if column.missing > 1 else ""
            raise column.mistake(first, "the value", f"is missing{rest}. Fill it in, or use missing={remedy}.")
        if missing == "drop":
            keep &= ~column.absent
    if keep.all():
        return roles
    if not keep.any():
        raise UserError("Every row has a missing value. Use missing=indicate, or ignore the emptiest columns.")
    party = roles.party.where(keep) if roles.party else None
    return Roles(roles.label.where(keep), party, tuple(column.where(keep) for column in roles.features))


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


class _Coded(NamedTuple):
    """A coded column, float32; ``values * scale + shift`` are the table's own."""

    values: Array
    shift: float = 0.0
    scale: float = 1.0


def _code(columns: tuple[Column, ...], train: Array, indicate: bool) -> tuple[Array, tuple[str, ...], Units]:
    """The float32 matrix, the names of its columns, and their units."""
    coded: dict[str, _Coded] = {}
    for column in columns:
        made = {
            name: one._replace(values=np.where(column.absent, np.float32(0), one.values))
            for name, one in _feature(column, train).items()
        }
        if indicate and column.missing:
            made[f"{column.name}_missing"] = _Coded(column.absent.astype(np.float32))
        for name in made:
            if name in coded:
                raise UserError(f"column {column.name}: its coded column {name!r} is there already. Rename one.")
        coded |= made
    if not coded:
        raise UserError("No column varies, so there is nothing to learn from. Check the table.")
    values, shift, scale = zip(*coded.values(), strict=True)
    return np.stack(values, axis=1), tuple(coded), Units(np.array(shift), np.array(scale))


def _feature(column: Column, train: Array) -> dict[str, _Coded]:
    """The coded columns (float32) of one column; what they hold where a value is missing does not matter."""
    if column.kind == "constant":
        return {}
    if column.kind in ("number", "date"):
        return {column.name: _standardise(column, column.numbers(), train)}
    if column.kind == "binary":
        yes = {pair[1] for pair in BINARY}
        return {column.name: _Coded(np.array([text.strip().lower() in yes for text in column.cells], np.float32))}
    column.check_feature()
    values = sorted(column.distinct)
    check_few(column.name, len(values), len(column.cells) - column.missing)
    index = {value: place for place, value in enumerate(values)}
    codes = np.array([index.get(column.values.get(text, ""), -1) for text in column.cells])
    seen = np.unique(codes[train & (codes >= 0)])
    return {f"{column.name}_{values[code]}": _Coded((codes == code).astype(np.float32)) for code in seen}


def _standardise(column: Column, values: Array, train: Array) -> _Coded:
    """Minus the training rows' mean, divided by their standard deviation (1 where they do not vary)."""
    known = values[train & ~column.absent]
    mean, deviation = (known[0], 1.0) if len(known) else (0.0, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        if len(known) and known.min() < known.max():  # else rounding could leave a tiny deviation to divide by
            mean, deviation = known.mean(), known.std()
        scaled: Array = ((values - mean) / deviation).astype(np.float32)
    # An infinite deviation would make every value 0, which is finite: it needs a look of its own.
    if not (np.isfinite(deviation) and np.isfinite(scaled[~column.absent]).all()):
        raise UserError(f"column {column.name}: its values are too large to standardise. Rescale them.")
    return _Coded(scaled, float(mean), float(deviation))
