"""Who the rows of a table are of: columns of ids as byte strings that are the same at every site.

People are known by what is written in these columns, so all sites must write an id in the same way, or have it
brought into one form by a rule that they declare. Ids never leave a site; what is wrong with them is told to the
site's own user only, by row and never by value.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from unalike.data.columns import KEY, Column
from unalike.data.dataset import Array
from unalike.errors import UserError, unknown

IdCase = Literal["fold", "keep"]
_WHOLE = re.compile(r"([+-]?(?:0|[1-9][0-9]{0,15}))\.0+")  # 17.0: a whole number from a column with gaps
_LENGTH = 4
_ORDER, _TEST = b"unalike order of people", b"unalike test people"


@dataclass(frozen=True)
class IdRule:
    """Which columns tell people apart, and how what is written in them is brought into one form.

    A text becomes Unicode's form NFKC, with ``strip`` without blanks around it, and with ``case="fold"`` the same
    in upper and lower case. 17.0 is the id 17, as programs write a column of numbers with gaps; 017 is another.
    """

    columns: tuple[str, ...]
    case: IdCase = "fold"
    strip: bool = True

    def __post_init__(self) -> None:
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise UserError(f"The id is one column or several, each once, got {self.columns!r}. Use id=patient.")
        if self.case not in get_args(IdCase):
            raise unknown("id_case", str(self.case), get_args(IdCase))

    def normal(self, text: str) -> str:
        """The one form of all texts that are the same id."""
        text = unicodedata.normalize("NFKC", text)
        if self.case == "fold":
            text = unicodedata.normalize("NFKC", text.casefold())
        if self.strip:
            text = text.strip()
        whole = _WHOLE.fullmatch(text)
        return whole[1] if whole else text

    def read(self, columns: Sequence[Column]) -> list[bytes]:
        """The id of every row; a UserError where one is missing or occurs twice.

        Several columns are joined with their lengths, so that ab and c are not a and bc.
        """
        parts = [self._parts(column) for column in self.of(columns)]
        ids = [b"".join(row) for row in zip(*parts, strict=True)]
        _check_once(ids, self.of(columns)[0])
        return ids

    def of(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """The columns that the id is in; a UserError, with the nearest name, where one is not there."""
        named = {column.name: column for column in columns}
        for name in self.columns:
            if name not in named:
                raise unknown("id column", name, named)
        return tuple(named[name] for name in self.columns)

    def _parts(self, column: Column) -> list[bytes]:
        """What every row adds to its id: the length of its text in one form, and the text."""
        if column.unusable not in ("", KEY):
            raise UserError(
                f"column {column.name}: {column.unusable} cannot be an id. Make it a text or a number."
            )
        forms = ["" if text.strip() == "" else self.normal(text) for text in column.texts]
        empty = np.array([form == "" for form in forms], bool) | column.gaps
        missing = int(column.counts[empty].sum())
        if missing:
            rows = "1 row has" if missing == 1 else f"{missing:,} rows have"
            raise UserError(f"column {column.name}: {rows} no id. Fill them in or leave these rows out.")
        coded = [form.encode("utf-8", "surrogatepass") for form in forms]
        coded = [len(form).to_bytes(_LENGTH, "big") + form for form in coded]
        return [coded[code] for code in column.codes.tolist()]


def _check_once(ids: Sequence[bytes], column: Column) -> None:
    """Refuse ids of which two rows have the same one: which row is the person's would be a matter of chance."""
    first: dict[bytes, int] = {}
    again: dict[bytes, tuple[int, int]] = {}
    for row, one in enumerate(ids):
        if first.setdefault(one, row) != row:
            again.setdefault(one, (first[one], row))
    if again:
        before, after = min(again.values())
        many = "1 id occurs" if len(again) == 1 else f"{len(again):,} ids occur"
        where = f"{column.unit}s {column.places[before]} and {column.places[after]}"
        raise UserError(f"{many} twice (first in {where}). Each person must have one row: merge them first.")


def in_order(ids: Sequence[bytes]) -> Array:
    """The places of these people in the order that all sites give them, which says nothing about anybody."""
    return np.array(sorted(range(len(ids)), key=lambda place: _hashed(_ORDER, ids[place])), np.int64)


def to_test(ids: Sequence[bytes], fraction: float) -> Array:
    """A mask of the people that are to be tested on: about this part of all, the same at every site for good."""
    most = int(fraction * 2**64)
    return np.array([int.from_bytes(_hashed(_TEST, one)[:8], "big") < most for one in ids], bool)


def ids_digest(ids: Sequence[bytes]) -> str:
    """SHA-256 of all ids of a table: by it a site sees that its people are still those that were matched."""
    return hashlib.sha256(b"".join(sorted(hashlib.sha256(one).digest() for one in ids))).hexdigest()


def _hashed(use: bytes, one: bytes) -> bytes:
    return hashlib.sha256(use + one).digest()
