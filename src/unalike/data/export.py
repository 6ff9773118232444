"""Every natural party's own table, as it might lie there: what real sites of a federation would have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from unalike.data.columns import Column
from unalike.data.dataset import Array, Dataset
from unalike.data.heart import Heart
from unalike.data.sites import Sites
from unalike.data.table import read_table
from unalike.errors import UserError

_AT_ONCE = 10_000  # rows that are made dense together


class PartyTable(NamedTuple):
    """A party's table: the names of its columns, and the texts of its rows."""

    name: str
    header: list[str]
    rows: Iterator[Sequence[Any]]


def party_tables(loader: Any, data: Dataset, text: str) -> Iterator[PartyTable]:
    """The table of every natural party, training and test rows: a table's own texts, or else the numbers."""
    if isinstance(loader, Heart):
        for name, patients in loader.tables().items():
            yield PartyTable(name, list(patients[0]), (list(row.values()) for row in patients))
    elif isinstance(loader, Sites):
        for name, path in loader.tables().items():
            yield _of_columns(name, read_table(str(path)))
    elif getattr(loader, "party", "") and hasattr(loader, "table"):
        yield from _by_column([column for column in loader.table() if not column.unusable], loader.party)
    elif data.group is None:
        raise UserError(f"{text} has no natural parties. Name the column that tells them: party=...")
    else:
        yield from (_of_party(data, number) for number in range(len(data.group_names)))


def safe_names(names: Sequence[str]) -> list[str]:
    """A name for the file of every party: signs but letters, digits and - become _, and each is there once."""
    made: dict[str, None] = {}
    for name in names:
        plain = re.sub(r"[^\w-]+", "_", name).strip("_") or "party"
        while plain in made:
            plain += "_"
        made[plain] = None
    return list(made)


def _of_columns(name: str, columns: Sequence[Column]) -> PartyTable:
    return PartyTable(name, [column.name for column in columns], zip(*(c.cells for c in columns), strict=True))


def _by_column(columns: Sequence[Column], party: str) -> Iterator[PartyTable]:
    """A table cut by the column that names the parties, which is left out; so are rows without a party."""
    (key,) = (column for column in columns if column.name == party)
    others = [column for column in columns if column is not key]
    for name in sorted(key.distinct):
        own = key.spread({text: value == name for text, value in key.values.items()}, False)
        yield _of_columns(name, [column.where(own) for column in others])


def _of_party(data: Dataset, number: int) -> PartyTable:
    width = int(np.prod(data.shape))
    names = list(data.features) if len(data.features) == width else [f"x{place}" for place in range(1, width + 1)]
    label = "label"
    while label in names:
        label += "_"
    return PartyTable(data.group_names[number], [*names, label], _rows(data, number))


def _rows(data: Dataset, number: int) -> Iterator[Sequence[Any]]:
    """The rows of a party as numbers that read back to the same ones, and their class or target."""
    assert data.group is not None
    tested = np.full(len(data.y_test), -1) if data.group_test is None else data.group_test
    for x, y, group in ((data.x, data.y, data.group), (data.x_test, data.y_test, tested)):
        own = np.flatnonzero(group == number)
        for start in range(0, len(own), _AT_ONCE):
            some = own[start : start + _AT_ONCE]
            dense: Array = x[some].toarray() if data.is_sparse else x[some]
            texts = dense.reshape(len(some), -1).astype(str)  # float32 in as many digits as it needs
            texts[texts == "nan"] = ""
            answers = [data.classes[k] for k in y[some]] if data.classes else y[some].astype(str).tolist()
            yield from ([*row, answer] for row, answer in zip(texts.tolist(), answers, strict=True))
