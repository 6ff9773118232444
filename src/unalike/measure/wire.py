"""The messages of steps 1 to 3 as JSON, read strictly: bytes that anybody may have sent end in a ``UserError``."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from unalike.errors import UserError

MOST_BYTES = 2**24
"""Of a message: a million labels, or half a million features."""
MOST_LETTERS = 1000
"""Of a label's name."""


def pack(message: Any) -> bytes:
    """A dataclass as canonical JSON."""
    return json.dumps(asdict(message), sort_keys=True, separators=(",", ":")).encode()


def unpack(raw: bytes, kind: Any, sender: str) -> dict[str, Any]:
    """The fields of a message, which must be those of the dataclass ``kind``."""
    if len(raw) > MOST_BYTES:
        raise UserError(f"{sender} sent a message of {len(raw):,} bytes; at most {MOST_BYTES:,} are read.")
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{sender} sent what is not a message of this measurement.") from error
    if not isinstance(found, dict) or found.keys() != kind.__dataclass_fields__.keys():
        raise UserError(f"{sender} sent a message with other fields than a {kind.__name__} has.")
    return found


def whole(value: Any, least: int, most: int, what: str, sender: str) -> int:
    """A whole number within bounds."""
    if type(value) is not int or not least <= value <= most:
        raise UserError(f"{sender} sent a wrong number of {what}: it must be from {least} to {most}.")
    return value


def names(value: Any, sender: str) -> tuple[str, ...]:
    """Names of labels: text, none of them twice."""
    found = _list(value, sender)
    if not all(isinstance(name, str) and is_name(name) for name in found) or len(set(found)) != len(found):
        raise UserError(f"{sender} sent labels that are not text, too long, or there twice.")
    return tuple(found)


def is_name(name: str) -> bool:
    """Whether a label's name can be sent."""
    return len(name) <= MOST_LETTERS and not any("\ud800" <= letter <= "\udfff" for letter in name)


def ranges(low: Any, high: Any, sender: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The lower and the upper ends of ranges: finite numbers, in order."""
    below, above = (tuple(_number(one, sender) for one in _list(side, sender)) for side in (low, high))
    if len(below) != len(above) or any(a > b for a, b in zip(below, above, strict=True)):
        raise UserError(f"{sender} sent a range that ends before it begins, or has one end.")
    return below, above


def _number(value: Any, sender: str) -> float:
    try:
        if type(value) in (int, float) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise UserError(f"{sender} sent a range whose ends are not finite numbers.")


def _list(value: Any, sender: str) -> list[Any]:
    if not isinstance(value, list):
        raise UserError(f"{sender} sent a message in which a list is missing.")
    return value
