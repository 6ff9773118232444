"""Skew copied from a real federation: its party-by-label table, scaled to another data set."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.data.split import grouped_order
from unalike.errors import UserError
from unalike.partition.partition import PARTITIONS, Partition, count_parties, register_partition
from unalike.partition.sharing import apportion, random_order
from unalike.partition.storage import is_saved, load_partition, read_content

_HOW = "Write a CSV with the header party,label,label,... or JSON {party: {label: count}}."

Table = tuple[tuple[str, ...], tuple[str, ...], Array]
"""Parties, labels and counts, one row a party."""


@register_partition(
    "like", paper="after Li et al. 2022 (NIID-Bench), whose code copies FEMNIST's and Criteo's tables"
)
class Like:
    """Label skew of a real federation: who holds how much of each label, copied onto these data.

    The file is a CSV with a header (``party,label,...``, or labels alone), JSON {party: {label: count}}, or a
    saved partition. All rows are used: those of each label are shared in proportion to the label's column of
    the table, to whole rows by largest remainders, and at random. (Rows of a label that no party has are shared in
    proportion to the parties' sizes.) Labels are matched by name where the table has all labels of these data, and
    else by frequency: the most frequent of the table with the most frequent here, and so on. Labels that the table
    has beyond those are passed over. A party that is too small to get a row gets one of a label that it has.
    With fewer parties than the table has, so many of them are drawn at random.
    """

    path: str

    def fingerprint(self) -> str:
        """The SHA-256 of the file: its content is what makes a run, not its name."""
        return hashlib.sha256(read_content(Path(self.path))).hexdigest()

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Read the table, choose parties, match labels, and share each label's rows."""
        names, labels, table = read_table(Path(self.path))
        number = count_parties(dataset, len(names) if parties is None else parties)
        if number > len(names):
            raise UserError(f"{self.path} has {len(names)} parties, got {number}. Use at most {len(names)}.")
        if number < len(names):
            chosen = np.sort(random_order(len(names), rng)[:number])
            names, table = tuple(names[k] for k in chosen), table[chosen]
        sizes = np.bincount(dataset.labels, minlength=len(dataset.label_names))
        weights = table[:, _match(Path(self.path), labels, table, dataset, sizes)]
        counts = _scale(Path(self.path), names, weights, sizes[sizes > 0])
        owner = np.empty(dataset.size, np.int64)
        owner[grouped_order(dataset.labels, rng)] = np.repeat(
            np.tile(np.arange(number), counts.shape[1]), counts.T.ravel()
        )
        return Partition.of_owners(PARTITIONS.describe(self), owner, names)


def read_table(path: Path) -> Table:
    """The parties, the labels and the counts in a file."""
    if is_saved(path):
        saved = load_partition(path)
        return tuple(saved.names), saved.classes, saved.label_counts.astype(np.float64)
    content = read_content(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text. {_HOW}") from None
    names, labels, rows = _from_json(path, text) if text.lstrip()[:1] == "{" else _from_csv(path, text)
    for kind, words in (("party", names), ("label", labels)):
        twice = [word for word in words if words.count(word) > 1] if len(set(words)) < len(words) else []
        if twice:
            raise UserError(f"{path} has the {kind} {twice[0]!r} twice. Give it once.")
    table = np.array([[_count(path, name, value) for value in row] for name, row in zip(names, rows, strict=True)])
    empty = np.flatnonzero(table.sum(axis=1) == 0)
    if len(empty):
        raise UserError(f"{path}: party {names[empty[0]]!r} has no rows. Leave it out.")
    return tuple(names), tuple(labels), table


def _from_json(path: Path, text: str) -> tuple[list[str], list[str], list[list[Any]]]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{path} is not JSON. {_HOW}") from None
    if not read or not all(isinstance(row, dict) for row in read.values()):
        raise UserError(f"{path} is no table of parties and labels. {_HOW}")
    labels = list(dict.fromkeys(label for row in read.values() for label in row))
    if not labels:
        raise UserError(f"{path} has no labels. {_HOW}")
    return list(read), labels, [[row.get(label, 0) for label in labels] for row in read.values()]


def _from_csv(path: Path, text: str) -> tuple[list[str], list[str], list[list[Any]]]:
    try:
        lines = [line for line in csv.reader(io.StringIO(text)) if line]
    except csv.Error as error:
        raise UserError(f"{path} is not CSV: {error}. {_HOW}") from None
    if len(lines) < 2:
        raise UserError(f"{path} has no header or no parties. {_HOW}")
    header, rows = [cell.strip() for cell in lines[0]], lines[1:]
    for place, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise UserError(f"{path}: party {place} has {len(row)} cells, the header {len(header)}. {_HOW}")
    if header[0].lower() in ("party", "client", ""):
        names, labels, rows = [row[0].strip() for row in rows], header[1:], [row[1:] for row in rows]
    else:
        names, labels = [f"party {number}" for number in range(len(rows))], header
    if not labels:
        raise UserError(f"{path} has no labels. {_HOW}")
    return names, labels, rows


def _count(path: Path, party: str, value: Any) -> float:
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not 0 <= number <= 1e12:
        raise UserError(f"{path}: party {party!r} has {str(value)[:40]!r} rows of a label. Use a number >= 0.")
    return number


def _match(path: Path, labels: tuple[str, ...], table: Array, dataset: Dataset, sizes: Array) -> list[int]:
    """The column of the table for each label that has rows here, in the order of the labels."""
    here = np.flatnonzero(sizes)
    names = [dataset.label_names[label] for label in here]
    if set(names) <= set(labels):
        return [labels.index(name) for name in names]
    if len(labels) < len(here):
        raise UserError(
            f"{path} has {len(labels)} labels, but {dataset.name} has {len(here)}. Use a table with as many."
        )
    by_frequency = np.argsort(-table.sum(axis=0), kind="stable")
    place = np.empty(len(here), np.int64)
    place[np.argsort(-sizes[here], kind="stable")] = by_frequency[: len(here)]
    return place.tolist()


def _scale(path: Path, names: tuple[str, ...], weights: Array, sizes: Array) -> Array:
    """The party-by-label table of whole rows; each party has at least one."""
    party_sizes = weights.sum(axis=1)
    if not party_sizes.all():
        name = names[int(np.flatnonzero(party_sizes == 0)[0])]
        raise UserError(f"{path}: party {name!r} has none of the labels that are matched. Leave it out.")
    columns = [column if column.any() else party_sizes for column in weights.T]
    counts = np.stack([apportion(c, size) for c, size in zip(columns, sizes.tolist(), strict=True)], axis=1)
    for party in np.flatnonzero(counts.sum(axis=1) == 0):
        # From the party with most rows of the label, of those that have another row to keep.
        for label in np.argsort(-weights[party], kind="stable")[: np.count_nonzero(weights[party])]:
            giver = int(np.argmax(np.where(counts.sum(axis=1) > 1, counts[:, label], 0)))
            if counts[giver, label] and counts[giver].sum() > 1:
                counts[giver, label] -= 1
                counts[party, label] += 1
                break
        else:
            raise UserError(f"{path}: too few rows for party {names[party]!r}. Use fewer parties or more rows.")
    return counts
