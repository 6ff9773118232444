"""Partitions in files: one small file without pickled objects, checked when it is read.

The file is an ``npz``: a JSON header, and the rows in bytes. Distortions are not in it, as they may be as large as
the data: they are made again from the recipe and the seed, by ``make_partition(saved.recipe, dataset,
saved.parties, saved.seed)``. The partition ``file(PATH)`` gives the rows alone, and distortions can be added to
it: ``file(PATH)+feature-noise(0.1)``.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.data.unpack import NPY_HEADER, read_member, read_npy
from unalike.data.whole_file import whole_file
from unalike.errors import UserError
from unalike.partition.by_party import RowsByParty, all_rows, sizes_of
from unalike.partition.partition import Partition

FORMAT = "unalike partition 2"
_HEADER = "header.json"
_MOST_HEADER = 1 << 24  # bytes; a million parties' names fit
_MOST_VALUES = 1 << 25  # in a file whose data set is not at hand; all data sets here need fewer
_AGAIN = "Save it again."
_UNREADABLE = (
    *(ValueError, KeyError, TypeError, AttributeError, OverflowError, EOFError, OSError, MemoryError),
    *(RecursionError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error),
)
_FLAGS = ("rounds_per_season", "label_holder", "shares_rows", "leaves_rows")


@dataclass(frozen=True, eq=False)
class SavedPartition:
    """A partition as it was saved, without its distortions, and what it was made of."""

    partition: Partition
    seed: int
    dataset: str
    size: int
    """The number of training rows of the data set."""
    classes: tuple[str, ...]
    label_counts: Array
    """The party-by-label table."""
    sha256: str

    @property
    def recipe(self) -> str:
        """The text that the partition was made by, distortions included."""
        return self.partition.recipe

    @property
    def names(self) -> Sequence[str]:
        """What the parties are called, in their order."""
        return self.partition.names

    @property
    def rows(self) -> Sequence[Array]:
        """The rows of each party, ascending."""
        return self.partition.rows

    @property
    def parties(self) -> int:
        """How many parties there are."""
        return self.partition.parties


def save_partition(path: str | Path, partition: Partition, dataset: Dataset, seed: int) -> str:
    """Write the partition to one file, whole or not at all, and return its SHA-256.

    The same partition always makes the same bytes (with the same version of zlib). The SHA-256 is that of the
    content before compression.
    """
    arrays = {
        "rows": _differences(partition.rows),
        "sizes": sizes_of(partition.rows),
        "label_counts": partition.label_counts(dataset).ravel(),
    }
    for name, parts in (("seasons", partition.seasons), ("columns", partition.columns)):
        if parts is not None:
            arrays[name] = all_rows(parts)
            arrays[f"{name}_sizes"] = sizes_of(parts)
    header = {
        "format": FORMAT,
        "recipe": partition.recipe,
        "seed": seed,
        "dataset": dataset.name,
        "size": dataset.size,
        "classes": list(dataset.label_names),
        "names": list(partition.names),
        "lengths": {name: len(values) for name, values in arrays.items()},
        **{flag: getattr(partition, flag) for flag in _FLAGS},
    }
    digest = _digest(header, arrays)
    with whole_file(Path(path)) as file:
        file.write(_pack(header | {"sha256": digest}, arrays))
    return digest


def load_partition(path: str | Path, dataset: Dataset | None = None) -> SavedPartition:
    """Read what ``save_partition`` wrote; a UserError where it is not that, or was changed since.

    With ``dataset``, one that was saved of another data set is refused as well. Nothing is unpacked that a
    partition of that data set (without it, of any data set of some million rows) cannot need.
    """
    content = read_content(Path(path))
    try:
        header, arrays = _unpack(content, Path(path), dataset)
        sha256 = header.pop("sha256")
        if _digest(header, arrays) != sha256:
            raise UserError(f"{path} was changed or damaged: its checksum does not fit. {_AGAIN}")
        return _saved(header, arrays, sha256)
    except _UNREADABLE as error:
        raise UserError(f"{path} is not a saved partition ({type(error).__name__}). {_AGAIN}") from None


def _saved(header: dict[str, Any], arrays: dict[str, Array], sha256: str) -> SavedPartition:
    """The saved partition; a ValueError where its parts do not fit together, as a forged checksum may hide."""
    partition = Partition(
        recipe=header["recipe"],
        rows=RowsByParty.of(map(np.cumsum, _split(arrays["rows"], arrays["sizes"]))),
        names=tuple(header["names"]),
        seasons=_split(arrays["seasons"], arrays["seasons_sizes"]) if "seasons" in arrays else None,
        columns=_split(arrays["columns"], arrays["columns_sizes"]) if "columns" in arrays else None,
        **{flag: header[flag] for flag in _FLAGS},
    )
    rows = all_rows(partition.rows)
    fits = len(partition.names) == partition.parties and rows.min() >= 0 and rows.max() < header["size"]
    if header["format"] != FORMAT or not fits or (partition.seasons and not _same_lengths(partition)):
        raise ValueError
    return SavedPartition(
        partition=partition,
        seed=header["seed"],
        dataset=header["dataset"],
        size=header["size"],
        classes=tuple(header["classes"]),
        label_counts=arrays["label_counts"].reshape(partition.parties, -1),
        sha256=sha256,
    )


def is_saved(path: Path) -> bool:
    """Whether the file says that it is a saved partition; it may be damaged nevertheless."""
    try:
        with zipfile.ZipFile(path) as file:
            return _HEADER in file.namelist()
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return False


def read_content(path: Path) -> bytes:
    """The bytes of a file that the user named."""
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UserError(f"Cannot read {path}: {reason}. Check the path.") from None


def _differences(rows: Sequence[Array]) -> Array:
    """The first row of each party and the steps between its rows: small numbers, which compress well."""
    steps = [np.diff(party, prepend=0) for party in rows]
    if any((step[1:] <= 0).any() for step in steps):
        raise UserError("The rows of a party must be ascending to be saved. Sort them.")
    return np.concatenate(steps)


def _split(values: Array, sizes: Array) -> tuple[Array, ...]:
    if sizes.min() < 0 or sizes.sum() != len(values):
        raise ValueError
    return tuple(np.split(values, np.cumsum(sizes)[:-1]))


def _same_lengths(partition: Partition) -> bool:
    return [len(part) for part in partition.seasons or ()] == [len(rows) for rows in partition.rows]


def _digest(header: dict[str, Any], arrays: dict[str, Array]) -> str:
    """The SHA-256 of the content, whatever compression makes of it."""
    digest = hashlib.sha256(_json(header))
    for name in sorted(arrays):
        digest.update(arrays[name].astype("<i8").tobytes())
    return digest.hexdigest()


def _json(header: dict[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True, ensure_ascii=False).encode()


def _pack(header: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    target = io.BytesIO()
    if len(_json(header)) > _MOST_HEADER:
        raise UserError(f"The parties' names take more than {_MOST_HEADER:,} bytes. Shorten them.")
    with zipfile.ZipFile(target, "w") as file:
        members = {_HEADER: _json(header)} | {f"{name}.npy": _planes(values) for name, values in arrays.items()}
        for name, content in members.items():
            # A date of its own would make other bytes at another time.
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            file.writestr(info, content, zipfile.ZIP_DEFLATED, compresslevel=9)
    return target.getvalue()


def _unpack(content: bytes, path: Path, dataset: Dataset | None = None) -> tuple[dict[str, Any], dict[str, Array]]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        header = json.loads(read_member(file, _HEADER, _MOST_HEADER, path, _AGAIN))
        if dataset is not None and (header["dataset"], header["size"]) != (dataset.name, dataset.size):
            raise UserError(
                f"{path} was saved of {header['dataset']} with {header['size']} rows, not of {dataset.name} with "
                f"{dataset.size}. Use that data set, or like({str(path)!r})."
            )
        _check_lengths(path, header, dataset)
        arrays = {}
        for name, length in header["lengths"].items():
            member = read_member(file, f"{name}.npy", 8 * length + NPY_HEADER, path, _AGAIN)
            arrays[name] = _values(member, length)
    return header, arrays


def _check_lengths(path: Path, header: dict[str, Any], dataset: Dataset | None) -> None:
    """Refuse a file that says to hold more values than a partition can have: before they are unpacked."""
    size, parties, lengths = header["size"], len(header["names"]), header["lengths"]
    columns = math.prod(dataset.shape) if dataset else _MOST_VALUES
    shared = header["shares_rows"]
    if any(type(number) is not int or number < 0 for number in (size, *lengths.values())):
        raise ValueError
    # No party is without rows, nor without columns where each has its own.
    if parties > (columns if "columns" in lengths else lengths["rows"]):
        raise ValueError
    most = {
        **dict.fromkeys(("rows", "seasons"), size * parties if shared else size),
        **dict.fromkeys(("sizes", "seasons_sizes", "columns_sizes"), parties),
        "label_counts": parties * len(header["classes"]),
        "columns": parties * columns,
    }
    for name, length in lengths.items():
        if length > most[name]:
            raise UserError(f"{path} says to hold {length:,} {name}, but there can be {most[name]:,}. {_AGAIN}")
    if dataset is None and sum(lengths.values()) > _MOST_VALUES:
        raise UserError(f"{path} says to hold more than {_MOST_VALUES:,} values. Use file({str(path)!r}) instead.")


def _planes(values: Array) -> bytes:
    """An ``npy`` of all first bytes, then all second ones, and so on: the higher bytes are nearly all zero."""
    target = io.BytesIO()
    planes = values.astype("<i8").view(np.uint8).reshape(-1, 8).T
    np.save(target, np.ascontiguousarray(planes), allow_pickle=False)
    return target.getvalue()


def _values(content: bytes, length: int) -> Array:
    planes = read_npy(content)
    if planes.shape != (8, length) or planes.dtype != np.uint8:
        raise ValueError
    return np.ascontiguousarray(planes.T).view("<i8").ravel().astype(np.int64, copy=False)
