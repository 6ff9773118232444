"""The columns of a table of the user's own: their different texts, the types these show, mistakes by line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unalike.data.dataset import Array
from unalike.data.distinct import ChosenPlaces, Distinct, in_order
from unalike.data.limits import check_few, too_many
from unalike.data.numerals import (
    PLAIN,
    SHARE_OF_NUMBERS,
    WAYS,
    Reading,
    any_number,
    comma_number,
    in_threes,
    number,
    other_date,
    plain_number,
)
from unalike.errors import UserError
from unalike.part_text import as_text

Kind = Literal["number", "date", "binary", "category", "ordinal", "constant", "identifier", "unclear", "unusable"]
DeclaredKind = Literal["number", "date", "binary", "category", "ordinal", "identifier"]

MISSING = frozenset(
    ("", "?", "na", "n/a", "nan", "+nan", "-nan", "null")
)  # in any case, blanks around them left out
KEY = "the rows' key"  # why a column that tells rows apart cannot be used
BINARY = (("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t"))  # the second is 1
_MOST_CODES = 12  # whole numbers of which it is asked whether they are codes
_FEWEST_IDENTIFIERS = 20  # in a shorter table, values that all differ do not show an identifier


class Inferred(NamedTuple):
    """What is known of one column, for showing; ``question`` asks what its values cannot show."""

    column: str
    type: Kind
    missing: int
    distinct: int
    question: str = ""


class Declared(NamedTuple):
    """What somebody said that a column is, whatever its values show; ``order``: an ordinal one's values."""

    kind: DeclaredKind
    order: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Column:
    """One column as it was read: the different texts, and which of them every row has.

    ``codes`` are the rows' places in ``texts``, which are in the order of their first rows, each of them in one
    row or more. ``places`` are the rows' numbers in the file, and ``unit`` what they count. ``unusable`` is the
    type of a column that is neither number nor text nor date, as Parquet may have it: its values are not read. Or
    it is ``KEY``: such a column is never learnt from, and need not be ignored by name. ``declared`` is the kind
    that was said, and ``ways`` how texts may be read as numbers and dates.
    """

    name: str
    codes: NDArray[np.int32]
    texts: tuple[str, ...] = field(repr=False)
    places: Sequence[int] = field(repr=False)
    unit: str = "line"
    unusable: str = ""
    declared: Declared | None = None
    ways: tuple[Reading, ...] = WAYS

    @classmethod
    def of(cls, name: str, cells: Iterable[str], first: int = 1, unit: str = "row") -> Column:
        """The column of these texts, one for each row; an empty text is a missing value."""
        known = Distinct()
        codes = known.codes(list(cells))
        return cls(name, codes, tuple(known), range(first, first + len(codes)), unit)

    @property
    def rows(self) -> int:
        """How many rows the column has."""
        return len(self.codes)

    @property
    def cells(self) -> list[str]:
        """The text of every row: to look at, where there are not too many."""
        return [self.texts[code] for code in self.codes.tolist()]

    @cached_property
    def complete(self) -> Array | None:
        """The number of every text, where all are finite ones, else None: the usual case, and a fast one."""
        if PLAIN not in self.ways or (self.declared and self.declared.kind != "number"):
            return None
        try:
            found = np.fromiter(map(float, self.texts), np.float64, len(self.texts))
        except ValueError:
            return None
        together = "".join(self.texts)
        return found if np.isfinite(found).all() and together.isascii() and "_" not in together else None

    @cached_property
    def counts(self) -> Array:
        """How many rows have every text."""
        return np.bincount(self.codes, minlength=len(self.texts))

    @cached_property
    def gaps(self) -> Array:
        """A mask of the texts that mean that there is no value."""
        if self.complete is not None:
            return np.zeros(len(self.texts), bool)
        return np.array([text.strip().lower() in MISSING for text in self.texts], bool)

    @cached_property
    def missing(self) -> int:
        """How many values are missing."""
        return int(self.counts[self.gaps].sum())

    @property
    def absent(self) -> Array:
        """A mask of the rows whose value is missing."""
        gone: Array = self.gaps[self.codes]
        return gone

    @cached_property
    def values(self) -> dict[str, str]:
        """Every text that is a value, and that value without the blanks around it."""
        found = {text: text.strip() for text, gap in self._texts_and_gaps() if not gap}
        if self.declared and self.declared.kind in ("category", "binary", "ordinal"):  # 1.0 is the code 1
            return {text: plain_number(value) for text, value in found.items()}
        return found

    def spread(self, known: Mapping[str, Any], otherwise: Any) -> Array:
        """What is known of texts as an array with an entry for every row; ``otherwise`` for texts not in it."""
        each: Array = np.array([known.get(text, otherwise) for text in self.texts])[self.codes]
        return each

    def seen(self, rows: Array) -> list[str]:
        """The values that these rows have, without blanks around them, sorted."""
        codes = np.unique(self.codes[rows & ~self.absent]).tolist()
        return sorted({self.values[self.texts[code]] for code in codes})

    @cached_property
    def distinct(self) -> frozenset[str]:
        """The different values of the column, without blanks around them and without missing ones."""
        return frozenset(self.values.values())

    @cached_property
    def variety(self) -> int:
        """How many different values occur."""
        return len(self.distinct) if self.complete is None else len(np.unique(self.complete))

    @cached_property
    def reading(self) -> Reading | None:
        """The way in which (nearly) all values are numbers; None where they are texts, or not clear."""
        if self.declared:
            own = [way for way in self.ways if way.kind == self.declared.kind]
            return max(own, key=lambda way: self._rows_that(way.read)) if own else None
        if PLAIN in self.ways and (
            self.complete is not None or self._rows_that(number) == self.rows - self.missing
        ):
            return PLAIN
        commas = [value for value in self.distinct if "," in value]
        for way in sorted(self.ways, key=lambda way: -self._rows_that(way.read)):
            if way.read is comma_number and all(map(in_threes, commas)):  # 1,234 may be 1234: so it is not taken
                continue
            if self._mostly(way.read):
                return way
        return None

    def _rows_that(self, read: Callable[[str], float | None]) -> int:
        """In how many rows the value can be read so."""
        readable = [not gap and read(text.strip()) is not None for text, gap in self._texts_and_gaps()]
        return int(self.counts[np.array(readable, bool)].sum())

    def _texts_and_gaps(self) -> Iterable[tuple[str, bool]]:
        return zip(self.texts, self.gaps.tolist(), strict=True)

    def _mostly(self, read: Callable[[str], float | None]) -> bool:
        return self._rows_that(read) >= SHARE_OF_NUMBERS * (self.rows - self.missing)

    @cached_property
    def kind(self) -> Kind:
        """The type that the values show; only text is a category, numbers stay numbers."""
        present = self.rows - self.missing
        if self.unusable:
            return "unusable"
        if self.declared and self.declared.kind == "identifier":
            return "identifier"
        if self.variety <= 1:
            return "constant"
        if self.declared:
            return self.declared.kind
        if self.reading is not None:
            return self.reading.kind
        if self._mostly(any_number) or self._mostly(other_date):
            return "unclear"
        if {value.lower() for value in self.distinct} in map(set, BINARY):
            return "binary"
        if present >= _FEWEST_IDENTIFIERS and self.variety == present:
            return "identifier"
        return "category"

    @property
    def question(self) -> str:
        """What to ask of a few whole numbers, which may be codes; empty where there is nothing to ask."""
        if self.kind != "number" or self.declared or not 2 <= self.variety <= _MOST_CODES:
            return ""
        found = sorted({value for value in map(number, self.distinct) if value is not None})
        if found in ([0, 1], []) or not all(value.is_integer() for value in found):
            return ""
        return (
            f"{self.name}: {len(found)} whole numbers {found[0]:.0f}-{found[-1]:.0f}, taken as a quantity; "
            f"categories=({as_text(self.name)},) if they are codes"
        )

    @property
    def odd(self) -> UserError | None:
        """What is wrong with the column as a feature, if anything is."""
        try:
            self.check_feature()
            if self.kind in ("number", "date"):
                self.numbers()
        except UserError as error:
            return error
        return None

    def check_feature(self) -> None:
        """Refuse a column that cannot be coded: an identifier, or numbers that may mean this or that."""
        if self.kind == "identifier":
            raise UserError(
                f"column {self.name}: every value differs, as an identifier's. Set ignore={as_text(self.name)}."
            )
        if self.kind == "unclear":
            odd = next(value for value in self.values.values() if self.ways[0].read(value) is None)
            if other_date(odd) is not None:
                raise UserError(
                    f"column {self.name}: {odd[:30]!r} may be a date, but not in the ISO way. Write all dates as "
                    f"2024-12-31, say how they are written (dates='%d.%m.%Y'), or set ignore={as_text(self.name)}."
                )
            raise UserError(
                f"column {self.name}: it is not clear which number {odd[:30]!r} is. Say decimal=comma or "
                f"thousands=comma, write all as 1234.5, or set ignore={as_text(self.name)}."
            )
        if self.declared and self.declared.kind in ("ordinal", "binary"):
            self._check_values(*self.declared)
        if self.kind == "category":
            self._check_few()

    def _check_few(self) -> None:
        """Refuse too many categories; where most are numbers, the text among them is what is wrong."""
        present = self.rows - self.missing
        if too_many(self.variety, present) and not self.declared:
            kind, read = max(self.ways, key=lambda way: self._rows_that(way.read))
            alike = self._rows_that(read)
            if 2 * alike > present:
                odd = next(text for text, value in self.values.items() if read(value) is None)
                rule = f"is not a {kind}, as {alike} of {present} values are. Mend it, or leave it empty."
                raise self.mistake(odd, repr(odd[:30]), rule)
        check_few(self.name, self.variety, present)

    def _check_values(self, kind: DeclaredKind, order: tuple[str, ...]) -> None:
        """Refuse a value that is not in the order that was said, or neither yes nor no."""
        known = set(order) if kind == "ordinal" else {"0", "1", *(word for pair in BINARY for word in pair)}
        for text, value in self.values.items():
            if (value if kind == "ordinal" else value.lower()) not in known:
                rule = f"is not in the order {'<'.join(order)}" if order else "is neither yes, no, 0 nor 1"
                raise self.mistake(text, repr(text[:30]), f"{rule}. Mend it, or say another type.")

    def numbers(self) -> Array:
        """The values as numbers, NaN where missing; a text or an infinity is an error that names the line."""
        known = self.complete
        if known is None:
            kind, read = self.reading or PLAIN
            each = [math.nan if gap else read(text.strip()) for text, gap in self._texts_and_gaps()]
            for text, value in zip(self.texts, each, strict=True):
                if value is None:
                    raise self.mistake(text, f"{text[:30]!r}", f"is not a {kind}. Mend it, or leave it empty.")
                if math.isinf(value):
                    raise self.mistake(text, f"{text[:30]!r}", "is not finite. Mend it, or leave it empty.")
            known = np.array(each, np.float64)
        every: Array = known[self.codes]
        return every

    def where(self, keep: Array) -> Column:
        """The column with the rows that ``keep`` marks."""
        rows = np.flatnonzero(keep)
        codes, texts = in_order(self.codes[rows], self.texts)
        return replace(self, codes=codes, texts=texts, places=ChosenPlaces(self.places, rows))

    def gap(self, remedy: str) -> UserError:
        """The error for a value that is missing, at the first place where one is."""
        first = self.texts[int(np.argmax(self.gaps))]
        rest = f" ({self.missing} in all)" if self.missing > 1 else ""
        return self.mistake(first, "the value", f"is missing{rest}. {remedy}")

    def mistake(self, text: str, shown: str, rule: str) -> UserError:
        """The error for a text, at the first place where it stands."""
        place = self.places[int(np.argmax(self.codes == self.texts.index(text)))]
        return UserError(f"column {self.name}: {shown} in {self.unit} {place} {rule}")
