"""A data set in memory: training rows, the global test rows, and what is known about them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, dataclass_transform, get_args

import numpy as np
from numpy.typing import NDArray

from unalike.data.arrays import as_array, check_groups, check_labels, check_rows, check_scaling
from unalike.data.targets import check_targets, cut_points, range_names, ranges
from unalike.errors import UserError
from unalike.registry import Registry
from unalike.tallies import Kind

if TYPE_CHECKING:
    from unalike.data.columns import Column
    from unalike.data.schema import Schema

C = TypeVar("C", bound=type)

Array = NDArray[Any]


class Units(NamedTuple):
    """From coded features back to the table's own values: ``x * scale + shift``, one number for each feature."""

    shift: Array = np.zeros(())
    scale: Array = np.ones(())

    def read(self, x: Array) -> Array:
        """The values as they stood in the table: years, not standard deviations from the mean age.

        What was standardised was kept in float32, so it is rounded to the digits that this has.
        """
        own = np.asarray(x, np.float64) * self.scale + self.shift
        last = 10.0 ** np.floor(np.log10(np.maximum(np.abs(self.shift), self.scale)) - 5)
        coded: Array = (self.scale != 1) | (self.shift != 0)
        return np.where(coded, np.round(own / last) * last, own) + 0.0  # no -0


@dataclass(frozen=True, eq=False)
class Holders:
    """Who has which columns of a data set: parties that know other things about the same people.

    ``columns[k]`` are the numbers of party k's columns, and the party ``label_holder`` has the labels.
    ``apart[k]`` are rows, of these columns alone, that party k has of people whom not all parties know;
    ``apart_y`` are the labels of the label holder's.
    """

    names: tuple[str, ...]
    columns: tuple[Array, ...]
    label_holder: int = 0
    apart: tuple[Array, ...] = ()
    apart_y: Array | None = None

    def hashed(self) -> str:
        """SHA-256 of all of it."""
        arrays = (*self.columns, *self.apart, self.apart_y)
        return _hashed(arrays, about=repr((self.names, self.label_holder)))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows ``x`` with labels ``y`` for training, and a global test set that no party trains on.

    With ``task="regression"`` there are no classes, and ``y`` are numbers to predict. A net is trained on
    ``(y - shift) / scale`` of ``target``, by default the mean and standard deviation of the training rows; its
    scores are in the units of ``y``.

    ``x`` keeps its storage type (images stay uint8) until a batch is made; the batch is
    ``(x - shift) / scale`` in floating point. ``group`` is the natural party of each training row (its
    hospital, writer, ...), an index into ``group_names``; it is None where the data have no natural parties.
    ``group_test`` is the same of the test rows (-1: of no party that has training rows). ``x`` may be a scipy CSR
    matrix, which stays sparse until the batch. Rows of ``tokens`` are whole numbers that mean words or characters
    and stay so. Images are [rows, channels, height, width]. Torch tensors and lists become numpy arrays. ``units``
    says how to read ``x`` in the units of the table that it was coded from. ``public`` are rows and labels that
    everybody has, beside those of the parties, where the data bring some. ``schema`` is the coding of the table
    that ``x`` was made from, where it was one: a table of new rows is coded by it, too. Without a global test set,
    ``x_test`` and ``y_test`` None, there is no score on one. With ``gaps``, NaN in ``x`` is a missing value, which
    trees can read and nets cannot. ``holders`` says who has which columns, where sites with different ones brought
    them.
    """

    name: str
    x: Any
    y: Array
    x_test: Any
    y_test: Array
    classes: tuple[str, ...]
    features: tuple[str, ...] = ()
    group: Array | None = None
    group_names: tuple[str, ...] = ()
    group_test: Array | None = None
    shift: Array = field(default_factory=lambda: np.zeros((), np.float32))
    scale: Array = field(default_factory=lambda: np.ones((), np.float32))
    kind: Literal["numbers", "tokens"] = "numbers"
    units: Units = field(default_factory=Units)
    public: tuple[Array, Array] | None = None
    task: Kind = "classification"
    target: Units = field(default_factory=Units)
    schema: Schema | None = None
    gaps: bool = False
    holders: Holders | None = None

    def __post_init__(self) -> None:
        if self.task not in get_args(Kind):
            raise UserError(f"{self.name}'s task is {self.task!r}. Use classification or regression.")
        classes: Any = self.classes  # what a user gives may be of another type
        if isinstance(classes, str) or not isinstance(classes, Iterable):
            raise UserError(f"{self.name}'s classes must be names, got {classes!r}. Use ('no', 'yes').")
        object.__setattr__(self, "classes", tuple(map(str, classes)))
        tests: tuple[Any, Any] = self.x_test, self.y_test
        if all(part is None for part in tests):
            self._leave_untested()
        for part in ("x", "y", "x_test", "y_test", "group", "group_test", "shift", "scale"):
            value = getattr(self, part)
            if value is not None or not part.startswith("group"):
                object.__setattr__(self, part, as_array(value, f"{self.name}'s {part}"))
        check_rows(self.x, f"{self.name}'s training rows", gaps=self.gaps)
        check_rows(self.x_test, f"{self.name}'s test rows", fewest=0, gaps=self.gaps)
        self._check_answers()
        if self.x.shape[1:] != self.x_test.shape[1:] or self.is_sparse != hasattr(self.x_test, "indptr"):
            raise UserError(
                f"{self.name}'s training rows are {_shown(self.x)}, its test rows {_shown(self.x_test)}. "
                "Make them alike."
            )
        for part, rows in (("group", self.x.shape[0]), ("group_test", self.x_test.shape[0])):
            if getattr(self, part) is not None:
                check_groups(getattr(self, part), f"{self.name}'s {part}", rows)
        for part in ("shift", "scale"):
            check_scaling(getattr(self, part), f"{self.name}'s {part}", self.shape)

    def _leave_untested(self) -> None:
        """Make the global test set one of no rows."""
        for part in ("x", "y"):
            rows = as_array(getattr(self, part), f"{self.name}'s {part}")
            object.__setattr__(self, f"{part}_test", rows[:0] if rows.ndim else rows)

    def _check_answers(self) -> None:
        """Check what is to be predicted; where that are numbers, see how they are standardised."""
        for part, which, rows in (("y", "training", self.x.shape[0]), ("y_test", "test", self.x_test.shape[0])):
            if self.task == "classification":
                check_labels(getattr(self, part), f"{self.name}'s {which} labels", rows, len(self.classes))
            else:
                check_targets(getattr(self, part), f"{self.name}'s {which} targets", rows)
                object.__setattr__(self, part, getattr(self, part).astype(np.float64))
        if self.task == "regression":
            if self.classes:
                raise UserError(f"{self.name} has classes, but its task is regression. Use classes=().")
            if self.target == Units():
                object.__setattr__(self, "target", Units(self.y.mean(), self.y.std() or np.ones(())))

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        answers = f"{len(self.classes)} classes" if self.classes else "a number to predict"
        whose = f", {len(self.group_names)} parties" if self.group_names else ""
        return (
            f"Dataset {self.name}: {self.size} rows to train on and {len(self.y_test)} to test, "
            f"each {shape} {self.kind}; {answers}{whose}"
        )

    @property
    def size(self) -> int:
        """The number of training rows."""
        return len(self.y)

    @property
    def is_tested(self) -> bool:
        """Whether there is a global test set."""
        return len(self.y_test) > 0

    @cached_property
    def labels(self) -> Array:
        """What label skew goes by, of each training row: its class, or the tenth of all numbers that it is in."""
        return self.y if self.task == "classification" else ranges(self.y, cut_points(self.y))

    @cached_property
    def label_names(self) -> tuple[str, ...]:
        """What to call these labels: the classes, or the ranges of numbers."""
        return self.classes if self.task == "classification" else range_names(self.y, cut_points(self.y))

    @property
    def labels_test(self) -> Array:
        """The same of the test rows: ranges are those of the training rows."""
        return self.y_test if self.task == "classification" else ranges(self.y_test, cut_points(self.y))

    @cached_property
    def rows_digest(self) -> str:
        """SHA-256 of all rows and labels: what runs must share to be compared."""
        return _hashed([self.x, self.x_test, self.y, self.y_test])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that a run could depend on: rows, labels, natural parties, names, shift and scale."""
        texts: tuple[Any, ...] = (self.task, self.kind, self.classes, self.features, self.group_names)
        if self.holders is not None:  # others keep the digest that they had before there was this field
            texts = (*texts, self.holders.hashed())
        arrays = (self.group, self.group_test, self.shift, self.scale, *self.target, *(self.public or ()))
        return _hashed(arrays, about=repr((self.rows_digest, texts)))

    def save(self, folder: Path | str) -> None:
        """Keep the data set in a folder of its own: ``saved:FOLDER`` then is its name, in any program or study."""
        from unalike.data.saved import save

        save(self, Path(folder).expanduser())

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are kept as a sparse matrix."""
        return hasattr(self.x, "indptr")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return tuple(self.x.shape[1:])


def _hashed(arrays: Iterable[Any], about: str = "") -> str:
    """SHA-256 of a text and of arrays: their types, shapes and values."""
    sha = hashlib.sha256(about.encode())
    for array in arrays:
        sparse = hasattr(array, "indptr")
        if sparse:
            sha.update(f"sparse {array.shape}".encode())
        for part in (array.data, array.indices, array.indptr) if sparse else (array,):
            own = np.asarray(() if part is None else part)
            sha.update(f"{own.dtype} {own.shape}".encode())
            sha.update(np.ascontiguousarray(own).data)
    return sha.hexdigest()


def _shown(rows: Any) -> str:
    return f"{'sparse' if hasattr(rows, 'indptr') else 'dense'} of shape {rows.shape}"


def trainable(data: Any) -> Dataset:
    """The data set, if it is one and its labels differ; a UserError where there is nothing to learn.

    A single site of a federation may well have one class alone: this is asked of all rows together.
    """
    if not isinstance(data, Dataset):
        shown = f"a {type(data).__name__}"
        if isinstance(data, tuple | list):
            shown += f" of {', '.join(type(part).__name__ for part in data[:4])}"
        raise UserError(f"The data must be an unalike.Dataset, got {shown}. Make one: unalike.dataset(x, y).")
    found = np.unique(data.y)
    if len(found) < 2 and data.task == "regression":
        raise UserError(f"The target of {data.name} is {found[0]:g} in every training row. It must vary.")
    if len(found) < 2:
        raise UserError(
            f"All {data.size:,} training rows of {data.name} have the label {data.classes[found[0]]!r}. "
            "There must be two classes or more."
        )
    return data


class Loader(Protocol):
    """A registered data set: its fields say which variant, ``load`` reads it."""

    def load(self) -> Dataset:
        """Read the data set; a UserError with the remedy where that is not possible."""
        ...


class TableLoader(Loader, Protocol):
    """A registered data set that is one table: its columns can be had as they are, before any coding."""

    def table(self) -> list[Column]:
        """Read the columns; fields that only ``load`` needs, such as the label, are not looked at."""
        ...

    def fingerprint(self) -> str:
        """The SHA-256 of what the table holds."""
        ...


DATASETS: Registry[Loader] = Registry("data set")


@dataclass_transform(frozen_default=True)
def register_dataset(name: str, *, paper: str = "") -> Callable[[C], C]:
    """Class decorator: make the class a frozen dataclass and register it as a data set."""
    return DATASETS.register(name, paper=paper)
