"""Notes of a study's file, which explain a known difference from a paper in the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unalike.errors import UserError
from unalike.partition import PARTITIONS
from unalike.runs.results import brief

_KEYS = {"dataset", "partition", "algorithm", "note"}


def read_notes(values: Sequence[Any]) -> dict[tuple[str, str, str], str]:
    """The ``[[notes]]`` by data set, partition and algorithm."""
    made: dict[tuple[str, str, str], str] = {}
    for number, found in enumerate(values, 1):
        key = f"notes ({number})"
        if not isinstance(found, dict) or set(found) != _KEYS:
            raise UserError(f"{key} needs exactly {', '.join(sorted(_KEYS))}, got {found!r}.")
        if any(not isinstance(value, str) for value in found.values()):
            raise UserError(f"{key} needs text, got {found!r}.")
        place = (found["dataset"], brief(PARTITIONS, found["partition"]), found["algorithm"])
        if place in made:
            raise UserError(f"{key} is the second for {', '.join(place)}. Keep one.")
        made[place] = found["note"].strip()
    return made
