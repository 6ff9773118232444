"""Sealed JSON, of which it shows when somebody or something changed it after it was written.

A seal is the SHA-256 of the object that it stands in and, in a file with an object on every line, of the seal of
the line before. So a changed byte shows, and so does a line that was removed, added or moved. That lines are
missing at the end shows only to those who know the last seal. There is no secret in a seal: it shows damage and
careless edits, not the work of somebody who computes all seals anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

FIRST = "0" * 64
"""What the first line of a file follows."""

_FIELD = "seal"
_MOST_DIGITS = 300
# A quote inside a text is escaped, so this can only be the name of a field.
_PLACE = f'"{_FIELD}": "'.encode()


class Broken(Exception):
    """A seal does not fit; the text says so, and goes on from the name of what it is about."""


class SealedLines(NamedTuple):
    """The lines of a file up to the first that is damaged."""

    rows: list[dict[str, Any]]
    ends: list[tuple[int, str]]
    """After 0, 1, 2, ... rows: the bytes that they take, and the last seal."""
    damage: str | None
    """Which line is damaged, and how; None where only the end is missing, as after a kill or a power cut."""


def seal(fields: Mapping[str, Any], before: str = FIRST, indent: int | None = None) -> tuple[bytes, str]:
    """The fields as JSON with a seal among them, and the seal. Numbers must be finite."""
    text = json.dumps({**fields, _FIELD: ""}, allow_nan=False, indent=indent).encode() + b"\n"
    place = text.rindex(_PLACE) + len(_PLACE)
    made = hashlib.sha256(before.encode() + text).hexdigest()
    return text[:place] + made.encode() + text[place:], made


def unseal(data: bytes, before: str = FIRST) -> tuple[dict[str, Any], str]:
    """The fields that were sealed, and the seal. Raises Broken."""
    found = data.rfind(_PLACE)
    if found < 0:
        raise Broken("has no seal: it was damaged, or written by hand or by an older version")
    start, end = found + len(_PLACE), found + len(_PLACE) + len(FIRST)
    made = hashlib.sha256(before.encode() + data[:start] + data[end:]).hexdigest()
    if made.encode() != data[start:end]:
        after = "" if before == FIRST else ", or does not follow the line before it"
        raise Broken(f"is not as it was written{after}")
    try:
        fields = json.loads(data, parse_int=_whole_number)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise Broken("is not a JSON object")
    fields.pop(_FIELD, None)
    return fields, made


def read_chain(data: bytes, before: str = FIRST) -> SealedLines:
    """The rows of a file of sealed lines, as far as they are undamaged; the first follows the seal ``before``."""
    rows: list[dict[str, Any]] = []
    ends = [(0, before)]
    for line in _whole(data).split(b"\n")[:-1]:
        size, before = ends[-1]
        try:
            row, made = unseal(line + b"\n", before)
        except Broken as error:
            return SealedLines(rows, ends, f"line {len(ends)} {error}")
        rows.append(row)
        ends.append((size + len(line) + 1, made))
    return SealedLines(rows, ends, None)


def _whole_number(digits: str) -> int:
    """A whole number that can be computed with: no float holds one of more digits than this."""
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _whole(data: bytes) -> bytes:
    """``data`` without its torn end: half a line of a kill, lines with the zero bytes of a power cut."""
    end = data.rfind(b"\n") + 1
    while end:
        start = data.rfind(b"\n", 0, end - 1) + 1
        if b"\0" not in data[start:end]:
            break
        end = start
    return data[:end]
