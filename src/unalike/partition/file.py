"""Partitions that others have written: a map from party to rows, or a saved partition."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.data.unpack import NPY_HEADER, read_member, read_npy
from unalike.errors import UserError
from unalike.partition.disagreement import Inconsistency
from unalike.partition.partition import PARTITIONS, Distortion, Partition, make_partition, register_partition
from unalike.partition.storage import SavedPartition, is_saved, load_partition, read_content


@register_partition("file")
class File:
    """A partition from a file: {party: [rows]} in JSON, an npz of one array a party, or a saved partition.

    A list of lists in JSON is the same with parties without names. Rows are numbered from 0, as in the data
    set. A row that is in no party is an error, unless ``partial=true`` or the saved partition left it out itself.
    A saved partition comes back with its seasons, and with its distortions, which are made again from its recipe
    and seed. It must have been saved of this data set, which its name, its number of rows and the labels of the
    rows tell. Nothing is random here: each seed gives the same rows.
    """

    path: str
    partial: bool = False

    def fingerprint(self) -> str:
        """The SHA-256 of the file: its content is what makes a run, not its name."""
        return hashlib.sha256(read_content(Path(self.path))).hexdigest()

    def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
        """Read the file and check each of its rows."""
        path = Path(self.path)
        recipe = PARTITIONS.describe(self)
        if is_saved(path):
            saved = load_partition(path, dataset)
            made = replace(
                _of_saved(path, saved, dataset),
                recipe=recipe,
                distortions=_distortions(saved, dataset),
                disagreement=_disagreement(saved, dataset),
            )
            made = replace(made, leaves_rows=made.leaves_rows or self.partial)
        else:
            read = read_map(path, dataset)
            checked = [check_rows(path, name, rows, dataset) for name, rows in read.items()]
            made = Partition(recipe, tuple(checked), tuple(read), leaves_rows=self.partial)
        if parties not in (None, made.parties):
            raise UserError(f"{path} has {made.parties} parties, got {parties}. Leave the number out.")
        _check_whole(path, made, dataset)
        return made


def _distortions(saved: SavedPartition, dataset: Dataset) -> tuple[Distortion, ...]:
    """The distortions of a saved partition: its recipe and seed give the same ones again."""
    split, plus, added = saved.recipe.partition("+")
    if split.startswith("file("):  # its rows come from another file, which may be gone
        split = "iid"
    if not plus and not split.startswith("attribute-label("):
        return ()
    return make_partition(f"{split}{plus}{added}", dataset, len(saved.names), saved.seed).distortions


def _disagreement(saved: SavedPartition, dataset: Dataset) -> Inconsistency | None:
    """What parties have wrong of shared columns: a saved partition's recipe and seed give the same again."""
    split, _, _ = saved.recipe.partition("+")
    if saved.partition.columns is None or split.startswith("file("):
        return None
    return make_partition(split, dataset, None, saved.seed).disagreement


def read_map(path: Path, dataset: Dataset) -> dict[str, Any]:
    """The parties and their rows in a JSON or npz file, as they stand there."""
    content = read_content(path)
    wrong = UserError(f"{path} is no map of parties to rows. Write {{party: [rows]}} in JSON, or an npz.")
    try:
        if content[:2] == b"PK":
            read: Any = _read_npz(path, content, dataset)
        else:
            read = json.loads(content, object_pairs_hook=_no_name_twice)
    except (ValueError, EOFError, OSError, RuntimeError, RecursionError, zipfile.BadZipFile, zlib.error):
        raise wrong from None
    if isinstance(read, list):
        read = {f"party {number}": rows for number, rows in enumerate(read)}
    if not isinstance(read, dict) or not read:
        raise wrong
    return read


def _read_npz(path: Path, content: bytes, dataset: Dataset) -> dict[str, Array]:
    """The arrays of an npz; a UserError where they have more values than a partition can need.

    All rows twice are still read: then it can be said which row two parties have.
    """
    left = most = 2 * dataset.size
    remedy = f"{dataset.name} has {dataset.size:,} rows: give each to one party, in a list of whole numbers."
    arrays: dict[str, Array] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            party = name.removesuffix(".npy")
            arrays[party] = read_npy(read_member(archive, name, 8 * left + NPY_HEADER, path, remedy))
            left -= max(1, arrays[party].size)
            if left < 0:
                raise UserError(f"{path} lists more than {most:,} rows. {remedy}")
    return arrays


def check_rows(path: Path, party: str, rows: Any, dataset: Dataset) -> Array:
    """The rows of one party, ascending; the first that cannot be is named."""
    where = f"{path}, party {party!r}"
    if not isinstance(rows, list | np.ndarray) or (isinstance(rows, np.ndarray) and rows.ndim != 1):
        raise UserError(f"{where}: its rows must be a list of numbers. Write [0, 1, 2].")
    if len(rows) == 0:
        raise UserError(f"{where} has no rows. Leave the party out.")
    if isinstance(rows, list):
        wrong = next((row for row in rows if type(row) is not int), None)
    else:
        wrong = None if np.issubdtype(rows.dtype, np.integer) else rows[0]
    if wrong is not None:
        raise UserError(f"{where}: row {str(wrong)[:40]!r} is not a whole number. Number the rows from 0.")
    if isinstance(rows, list):
        beyond = next((row for row in rows if not 0 <= row < dataset.size), None)
    else:
        beyond = next(iter(rows[(rows < 0) | (rows >= dataset.size)].tolist()), None)
    if beyond is not None:
        raise UserError(f"{where}: row {beyond} is not in {dataset.name}, which has rows 0 to {dataset.size - 1}.")
    ascending = np.sort(np.array(rows, np.int64))
    again = ascending[1:][np.diff(ascending) == 0]
    if len(again):
        raise UserError(f"{where} has row {again[0]} twice. Give it once.")
    return ascending


def _check_whole(path: Path, partition: Partition, dataset: Dataset) -> None:
    """Refuse rows in two parties, and rows in none unless that is meant."""
    owner = np.full(dataset.size, -1)
    for number, rows in enumerate(partition.rows):
        before = owner[rows]
        if (before >= 0).any() and not partition.shares_rows:
            place = int(np.flatnonzero(before >= 0)[0])
            first, second = partition.names[before[place]], partition.names[number]
            raise UserError(f"{path}: row {rows[place]} is in {first!r} and in {second!r}. Give it to one party.")
        owner[rows] = number
    missing = np.flatnonzero(owner < 0)
    if len(missing) and not partition.leaves_rows:
        raise UserError(
            f"{path}: {len(missing)} row(s) of {dataset.name}, such as {missing[0]}, are in no party. "
            f"Add them, or use partial=true."
        )


def _of_saved(path: Path, saved: SavedPartition, dataset: Dataset) -> Partition:
    """The saved partition, if the labels of its rows are those of this data set."""
    made = replace(saved.partition, distortions=())
    counts = made.label_counts(dataset)
    if saved.classes != dataset.label_names or not np.array_equal(counts, saved.label_counts):
        raise UserError(f"{path} was saved of a {dataset.name} with other labels. Save it again.")
    return made


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError
    return made
