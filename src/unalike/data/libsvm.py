"""LIBSVM's text format, ``label index:value index:value ...``, read into a sparse matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from unalike.data.dataset import Array
from unalike.data.unpack import unpacked
from unalike.errors import UserError

_CHUNK = 1 << 23  # bytes parsed at once: bounds the memory that a file of a gigabyte needs
Parsed = tuple[Array, tuple[Array, Array, Array]]  # labels; and data, indices, indptr of a CSR matrix

_SPACE, _COLON, _END = ord(" "), ord(":"), ord("\n")


def read_libsvm(path: Path, features: int, rows: int, line_bytes: int) -> tuple[Any, Array]:
    """The rows (CSR, float32) and labels (0 for -1, 1 for +1) of a binary task with ``features`` features.

    Indices in the file count from 1 and increase within a row. Files that gzip or bzip2 packed are unpacked.
    The file must have ``rows`` rows; ``line_bytes`` is how long their lines are at most, on average.
    """
    from scipy import sparse  # slow to import, so only when it is needed

    labels: list[Array] = []
    parts: list[Any] = []
    line, found = 1, 0
    for block in _blocks(path, rows * line_bytes):
        parsed = _parse_fast(block, features)
        if parsed is None:  # something is wrong or unusual: read line by line, which can say what and where
            parsed = _parse_slowly(block, features, path, line)
        labels.append(parsed[0])
        parts.append(sparse.csr_matrix(parsed[1], shape=(len(parsed[0]), features)))
        line += block.count(b"\n")
        found += len(parsed[0])
        if found > rows:  # before all of a file is read that is longer than it can be
            check_count(path, found, rows)
    if not found:
        raise UserError(f"{path} is empty. Download it again.")
    check_count(path, found, rows)
    return sparse.vstack(parts, format="csr"), np.concatenate(labels)


def check_count(path: Path, found: int, expected: int) -> None:
    """Refuse a file that does not have the public file's number of rows: it was cut short, or is another."""
    if found != expected:
        raise UserError(f"{path} has {found:,} rows, the public file {expected:,}. Download it again.")


def _blocks(path: Path, most: int) -> Iterator[bytes]:
    """The file in pieces of whole lines, each ending in a line end."""
    with unpacked(path, most) as file:
        rest = b""
        while piece := file.read(_CHUNK):
            whole, end, after = piece.rpartition(b"\n")
            if end:
                yield rest + whole + end
                rest = after
            elif len(rest) > _CHUNK:
                raise UserError(f"{path} has a line of more than {_CHUNK:,} bytes. Download it again.")
            else:
                rest += piece
        if rest:
            yield rest + b"\n"


def _parse_fast(block: bytes, features: int) -> Parsed | None:
    """Labels and (data, indices, indptr); None where anything at all is not as it should be."""
    block = block.replace(b"\r\n", b"\n").replace(b" \n", b"\n")  # a9a has a blank at the end of each line
    text = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero((text == _SPACE) | (text == _COLON) | (text == _END))
    kinds = text[ends]
    before = np.concatenate(([_END], kinds[:-1]))
    # A colon follows "label index" or "value index"; a blank or a line end follows a label or a value.
    if (
        b"_" in block
        or ends[0] == 0
        or (np.diff(ends) == 1).any()
        or ((kinds == _COLON) != (before == _SPACE)).any()
    ):
        return None
    try:
        numbers = np.array(block.replace(b":", b" ").split(), np.float64)
    except ValueError:
        return None
    if len(numbers) != len(ends) or not np.isfinite(numbers).all():
        return None
    is_index, is_value = kinds == _COLON, before == _COLON
    labels, indices = numbers[before == _END], numbers[is_index]
    if (np.abs(labels) != 1).any() or (indices != np.floor(indices)).any():
        return None
    starts = np.concatenate(([0], np.cumsum(is_index)[kinds == _END]))
    inside = np.ones(len(indices), bool)  # entries that have another one before them in their row
    inside[starts[:-1][np.diff(starts) > 0]] = False
    if len(indices) and (indices.min() < 1 or indices.max() > features):
        return None
    if (np.diff(indices, prepend=0) <= 0)[inside].any():
        return None
    values = numbers[is_value].astype(np.float32)
    return (labels > 0).astype(np.int64), (values, (indices - 1).astype(np.int32), starts.astype(np.int32))


def _parse_slowly(block: bytes, features: int, path: Path, line: int) -> Parsed:
    """The same, line by line; blank lines are passed over, and the first mistake is an error with its line."""
    labels: list[int] = []
    indices: list[int] = []
    values: list[float] = []
    starts = [0]
    for number, text in enumerate(block.decode("ascii", "replace").split("\n"), line):
        if not text.strip():
            continue
        where = f"{path}, line {number}"
        first, *entries = text.split()
        label = _label(first)
        if label is None:
            raise UserError(f"{where}: the label must be -1 or +1, got {first[:20]!r}. Download the file again.")
        labels.append(label)
        last = 0
        for entry in entries:
            last, value = _entry(entry, last, features, where)
            indices.append(last - 1)
            values.append(value)
        starts.append(len(indices))
    data = np.array(values, np.float64).astype(np.float32), np.array(indices, np.int32), np.array(starts, np.int32)
    return np.array(labels, np.int64), data


def _label(text: str) -> int | None:
    """0 for -1, 1 for +1, however these are written; None for anything else."""
    try:
        return {-1.0: 0, 1.0: 1}.get(float(text)) if "_" not in text else None
    except ValueError:
        return None


def _entry(entry: str, last: int, features: int, where: str) -> tuple[int, float]:
    """The index and the value of one ``index:value`` that comes after index ``last``."""
    name, colon, number = entry.partition(":")
    try:
        index, value = float(name), float(number)
    except ValueError:
        index, value = math.nan, math.nan
        colon = ""
    if not colon or "_" in entry or not (math.isinf(index) or index.is_integer()):
        raise UserError(f"{where}: {entry[:30]!r} is not index:value. Download the file again.")
    if not math.isfinite(value):
        raise UserError(f"{where}: the value in {entry[:30]!r} is not finite. Remove or mend it.")
    if not 1 <= index <= features:
        raise UserError(f"{where}: the index in {entry[:30]!r} must be from 1 to {features}. Is it another file?")
    if index <= last:
        raise UserError(f"{where}: indices must increase, but {entry[:30]!r} follows {last}. Sort the line.")
    return int(index), value
