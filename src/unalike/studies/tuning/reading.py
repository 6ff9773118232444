"""The parts of a study's file that are about tuning: ``[tune]``, ``[tuning]`` and ``[chosen]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from unalike.algorithms import ALGORITHMS
from unalike.errors import UserError
from unalike.studies.tuning.chosen import Chosen, read_chosen
from unalike.studies.tuning.search import Search, read_search

Grids = dict[str, dict[str, tuple[Any, ...]]]
"""By algorithm and parameter, the values to try."""
SPACE = "space"


def read_tuning(
    tune: Mapping[str, Any],
    tuning: dict[str, Any],
    tuning_seeds: Sequence[int] | None,
    seeds: Sequence[int],
    chosen: Mapping[str, Any],
) -> tuple[Grids, Search | None, dict[str, Chosen]]:
    """The grids, the search, and what an earlier one chose; takes the search's own keys out of ``tuning``."""
    grids = {name: _grid(name, grid) for name, grid in tune.items() if name != SPACE}
    return grids, read_search(tune, tuning, tuning_seeds, seeds), read_chosen(chosen, seeds)


def _grid(name: str, grid: Any) -> dict[str, tuple[Any, ...]]:
    key = f"tune.{name}"
    try:
        known = [each.name for each in ALGORITHMS.entry(name).parameters]
    except UserError as error:
        raise UserError(f"{key} is no algorithm: {error}") from None
    if not isinstance(grid, dict) or not grid:
        raise UserError(f"{key} must be a table of parameters and lists of values, got {grid!r}.")
    for parameter, found in grid.items():
        if parameter not in known:
            near = get_close_matches(parameter, known, n=1, cutoff=0.5)
            remedy = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(sorted(known))}."
            raise UserError(f"{key}.{parameter} is not known. {remedy}")
        if not isinstance(found, list) or not found:
            raise UserError(f"{key}.{parameter} must be a list that is not empty, got {found!r}.")
        if len({repr(each) for each in found}) < len(found):
            raise UserError(f"{key}.{parameter} has a value twice: {found}. Write each once.")
    return {parameter: tuple(found) for parameter, found in grid.items()}
