"""Successive halving in numbers: how many trials are played until which round, and what that costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from unalike.errors import UserError

KEEP = 3
"""One trial in so many goes on to the next rung, which is so many times as long."""
USUAL_RUNGS = 3
"""A ninth of the rounds, a third, all of them: shorter ones say little where parties are unalike."""
USUAL_TRIALS = 9


@dataclass(frozen=True)
class Rung:
    """A round at which trials are compared, and how many are in it."""

    round: int
    trials: int


def make_rungs(trials: int, rounds: int, count: int, every: int = 1) -> tuple[Rung, ...]:
    """``count`` rungs for so many trials of runs of so many rounds, which are evaluated ``every`` some rounds."""
    made: dict[int, int] = {}
    for place in range(count):
        length = math.ceil(rounds / KEEP ** (count - 1 - place))
        made.setdefault(min(rounds, math.ceil(length / every) * every), max(1, trials // KEEP**place))
    return tuple(Rung(length, number) for length, number in made.items()) if trials else ()


def cost(rungs: tuple[Rung, ...], seeds: int) -> int:
    """The rounds of all trials with all seeds: no round is played twice."""
    before = (0, *(rung.round for rung in rungs))
    return seeds * sum(rung.trials * (rung.round - last) for rung, last in zip(rungs, before, strict=False))


@dataclass(frozen=True)
class Allowance:
    """What a search may cost, for every algorithm the same."""

    trials: int
    budget: int
    """Rounds over all trials and seeds."""

    def rungs(self, size: float, rounds: int, seeds: int, every: int = 1) -> tuple[Rung, ...]:
        """The fewest rungs that the budget pays for, in a space of so many points: longer ones are surer."""
        trials = int(min(self.trials, size))
        counts = range(1, most_rungs(rounds) + 1)
        plans = (make_rungs(trials, rounds, count, every) for count in counts)
        return next(plan for plan in plans if cost(plan, seeds) <= self.budget)


def most_rungs(rounds: int) -> int:
    """So many that the first has at least one round."""
    return 1 + int(math.log(rounds, KEEP) + 1e-9)


def allow(trials: int | None, budget: int | None, rounds: int, seeds: int, every: int = 1) -> Allowance:
    """What is allowed where trials, a budget, both or neither are given; both may contradict each other."""
    usual = min(USUAL_RUNGS, most_rungs(rounds))
    for name, value in (("trials", trials), ("budget", budget)):
        if value is not None and not 1 <= value <= 10**9:
            raise UserError(f"{name} must be a whole number of at least 1, got {value}.")
    if budget is None:
        wanted = trials or USUAL_TRIALS
        return Allowance(wanted, cost(make_rungs(wanted, rounds, usual, every), seeds))
    if trials is None:
        one = cost(make_rungs(1, rounds, usual, every), seeds)
        if budget < one:
            raise UserError(
                f"A budget of {budget} rounds is not enough for one trial: {rounds} rounds with {seeds} seed(s) "
                f"are {one}. Raise the budget, or use fewer rounds or tuning seeds."
            )
        return Allowance(_most_trials(budget, rounds, seeds, usual, every), budget)
    least = min(cost(make_rungs(trials, rounds, n, every), seeds) for n in range(1, most_rungs(rounds) + 1))
    if least > budget:
        raise UserError(
            f"{trials} trials of {rounds} rounds with {seeds} seed(s) need a budget of {least} rounds, "
            f"got {budget}. Raise the budget, or leave trials out: as many as fit are tried then."
        )
    return Allowance(trials, budget)


def _most_trials(budget: int, rounds: int, seeds: int, rungs: int, every: int) -> int:
    """By halving the interval: a trial more never costs less."""
    low, high = 1, budget + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = cost(make_rungs(middle, rounds, rungs, every), seeds) <= budget
        low, high = (middle, high) if fits else (low, middle)
    return low
