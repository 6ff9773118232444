"""How parameters are searched for: the space, the seeds, what it may cost; from a study's file or the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unalike.errors import UserError
from unalike.studies.tuning.binding import check_names
from unalike.studies.tuning.space import Dimension, dimension, read_space

SEEDS = 3
"""Tuning seeds by default: what one seed chooses transfers badly to others."""
FIRST_SEED = 100
KEYS = ("trials", "budget", "draw_seed")
"""Of ``[tuning]``, what is about the search; the other keys are fields in which tuning runs differ."""


@dataclass(frozen=True)
class Search:
    """What is tried: drawn from ``space``, on ``seeds`` that are not those of the final runs."""

    space: tuple[Dimension, ...]
    seeds: tuple[int, ...]
    trials: int | None = None
    budget: int | None = None
    """Rounds over all trials and seeds, for every algorithm; None is what the trials need."""
    draw_seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """For a record of the search, ready for TOML and JSON."""
        told = {"trials": self.trials, "budget": self.budget}
        space = {each.name: str(each) for each in self.space}
        known = {name: value for name, value in told.items() if value is not None}
        return {"seeds": list(self.seeds), "draw_seed": self.draw_seed, **known, "space": space}


def make_search(
    space: Sequence[Dimension],
    seeds: Sequence[int] | None,
    reporting: Sequence[int],
    trials: Any = None,
    budget: Any = None,
    draw_seed: Any = 0,
) -> Search:
    """A search whose values are checked; without ``seeds`` it has three that are not reported."""
    for name, value in (("trials", trials), ("budget", budget)):
        if value is not None and (type(value) is not int or not 1 <= value <= 10**9):
            raise UserError(f"{name} must be a whole number of at least 1, got {value!r}.")
    if type(draw_seed) is not int or not 0 <= draw_seed < 2**32:
        raise UserError(f"draw_seed must be a whole number from 0 to {2**32 - 1:,}, got {draw_seed!r}.")
    check_names(space)
    if seeds is None:
        seeds = seeds_apart(reporting, SEEDS)
    check_apart(seeds, reporting)
    return Search(tuple(space), tuple(seeds), trials, budget, draw_seed)


def seeds_apart(reporting: Sequence[int], count: int) -> tuple[int, ...]:
    """So many seeds for tuning that are not those of the final runs."""
    free = (seed for seed in range(FIRST_SEED, 2**32) if seed not in reporting)
    return tuple(next(free) for _ in range(count))


def check_apart(tuning: Sequence[int], reporting: Sequence[int]) -> None:
    """Refuse seeds on which parameters are both chosen and judged: the figures would be too good."""
    if both := sorted(set(tuning) & set(reporting)):
        raise UserError(
            f"Seed(s) {', '.join(map(str, both))} are for tuning and for reporting. Parameters must be judged on "
            f"other seeds than they were chosen on: tune with {FIRST_SEED}, {FIRST_SEED + 1}, {FIRST_SEED + 2}."
        )


def read_search(
    tune: Mapping[str, Any], tuning: dict[str, Any], seeds: Sequence[int] | None, reporting: Sequence[int]
) -> Search | None:
    """The search of a study's ``[tune]`` and ``[tuning]``, whose own keys are taken out; None without a space.

    Grids of single algorithms, as in ``[tune.fedprox]``, are dimensions of a space that is there, too.
    """
    given = {name: tuning.pop(name) for name in KEYS if name in tuning}
    space = tune.get("space")
    if space is None:
        if given:
            raise UserError(f"tuning.{next(iter(given))} is for a search. Add what is searched, in [tune.space].")
        return None
    if not isinstance(space, Mapping):
        raise UserError(f"tune.space must be a table such as lr = 'log(1e-3, 1)', got {space!r}.")
    grids = {name: grid for name, grid in tune.items() if name != "space"}
    own = [
        dimension(f"{name}.{parameter}", values)
        for name, grid in grids.items()
        for parameter, values in grid.items()
    ]
    return make_search([*read_space(space), *own], seeds, reporting, **given)
