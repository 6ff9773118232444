"""How the values of a score are told and compared, by all that shows runs: the unit, and which way is better.

The table of scores says both; nothing here knows a score by its name.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeGuard

from unalike.scores import Score, digits_of, key_of, named

_ROUNDING = 1e-9
"""Values that differ by less, in proportion, differ by rounding only."""


class Spread(NamedTuple):
    """Mean and standard deviation (over ``seeds`` seeds, n - 1 in the denominator; 0 of one seed)."""

    mean: float
    std: float
    seeds: int

    def text(self, digits: int = 1) -> str:
        """With that many digits after the point; of one seed, the mean alone."""
        mean = f"{self.mean:.{digits}f}"
        return f"{mean}±{self.std:.{digits}f}" if self.seeds > 1 else mean

    def __str__(self) -> str:
        return self.text()


def spread(values: Iterable[float]) -> Spread | None:
    """The spread of the values; None of none."""
    known = [float(value) for value in values]
    if not known:
        return None
    return Spread(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0, len(known))


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a figure from a file is a number that can be computed with."""
    return isinstance(value, int | float) and math.isfinite(value)


@dataclass(frozen=True)
class Scale:
    """The values of one score as people read them: a fraction in percent, a number as it is recorded."""

    score: Score

    @property
    def name(self) -> str:
        """The score's name, as ``--score`` takes it."""
        return self.score.name

    @property
    def words(self) -> str:
        """The score in a sentence: ``balanced accuracy``, ``RMSE``."""
        return self.score.title or self.name.replace("-", " ")

    @property
    def title(self) -> str:
        """The score at the beginning of a line."""
        return self.words[:1].upper() + self.words[1:]

    @property
    def is_percent(self) -> bool:
        """Whether values are told in percent."""
        return self.score.unit == "fraction"

    @property
    def unit(self) -> str:
        """What follows a value: `` %``, or nothing."""
        return " %" if self.is_percent else ""

    @property
    def column(self) -> str:
        """The heading of a column of values: ``accuracy, %``."""
        return f"{self.words}, %" if self.is_percent else self.words

    @property
    def factor(self) -> float:
        """From a recorded value to one that is told."""
        return 100.0 if self.is_percent else 1.0

    @property
    def sign(self) -> int:
        """1 where more is better, -1 where less is."""
        return 1 if self.score.better == "up" else -1

    @property
    def best(self) -> str:
        """What the best value is among all: ``highest`` or ``lowest``."""
        return "highest" if self.sign > 0 else "lowest"

    @property
    def ahead(self) -> str:
        """Where a better value is: ``above`` or ``below`` another."""
        return "above" if self.sign > 0 else "below"

    @property
    def bound(self) -> str:
        """What a value must be to reach another: ``at least`` or ``at most`` that."""
        return "at least" if self.sign > 0 else "at most"

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Between which told values lie, as far as that is known of the unit: errors are never below 0."""
        if self.is_percent:
            return 0.0, 100.0
        return (None, None) if self.sign > 0 else (0.0, None)

    @property
    def range_words(self) -> str:
        """What a value may be, for messages: ``accuracy in percent, above 0 and up to 100``."""
        low, high = self.bounds
        parts = ([] if low is None else [f"above {low:g}"]) + ([] if high is None else [f"up to {high:g}"])
        return ", ".join(filter(None, [f"{self.words}{' in percent' * self.is_percent}", " and ".join(parts)]))

    def told(self, recorded: Any) -> float | None:
        """A recorded value as it is told; None of what is no number."""
        return self.factor * recorded if is_number(recorded) else None

    def of(self, figures: Mapping[str, Any], before: str = "") -> float | None:
        """The told value in a result or a round; ``before`` is ``validation_`` for that of validation rows."""
        return self.told(figures.get(before + key_of(self.name)))

    def digits(self, value: float) -> int:
        """Digits after the point that tell a value."""
        return 1 if self.is_percent else digits_of(value)

    def text(self, value: float | Spread, unit: str | None = None) -> str:
        """A told value, or its spread over seeds: ``80.0±1.0 %``, ``53.212``; ``unit`` replaces the score's."""
        mean = value.mean if isinstance(value, Spread) else value
        made = value if isinstance(value, Spread) else Spread(value, 0.0, 1)
        return made.text(self.digits(mean)) + (self.unit if unit is None else unit)

    def short(self, value: float) -> str:
        """A told value that somebody chose, in a heading: ``70%``, ``53.3``."""
        return f"{value:g}{self.unit.strip()}"

    def difference(self, by: float, about: float) -> str:
        """How far two told values near ``about`` are apart: ``1.2 points``, or a plain number."""
        made = f"{by:.{self.digits(about)}f}"
        return f"{made} points" if self.is_percent else made

    def goodness(self, value: float | None) -> float:
        """A sort key: the larger, the better; who has no value comes last."""
        return -math.inf if value is None or math.isnan(value) else self.sign * value

    def same(self, one: float, other: float) -> bool:
        """Whether two told values differ by rounding only."""
        return abs(one - other) < _ROUNDING * max(1.0, abs(one))

    def gain(self, value: float | None, reference: float | None) -> float:
        """How much better a told value is than a reference: in percentage points, or in percent of the reference.

        Who failed (None) has the worst of all fractions, or is worse by 100 percent.
        """
        if self.is_percent:
            worst = 0.0 if self.sign > 0 else 100.0
            return self.sign * ((worst if value is None else value) - (worst if reference is None else reference))
        if value is None or reference is None or reference == 0:
            return 100.0 * self._order(value, reference)
        return 100.0 * self.sign * (value - reference) / abs(reference)

    def _order(self, value: float | None, reference: float | None) -> int:
        one, other = self.goodness(value), self.goodness(reference)
        return (one > other) - (one < other)

    def reaches(self, value: float | None, target: float) -> bool:
        """Whether a told value is as good as the target, but for rounding."""
        if value is None:
            return False
        return self.sign * (value - target) >= -_ROUNDING * max(1.0, abs(target))

    def easier(self, value: float) -> float:
        """A round number that is as good as the value or a little worse: whole percent, or three digits."""
        step = 1.0 if self.is_percent else 10.0 ** (math.floor(math.log10(max(abs(value), _ROUNDING))) - 2)
        whole = math.floor(self.sign * value / step + _ROUNDING)
        return float(f"{self.sign * whole * step:.12g}")


@cache
def scale_of(name: str) -> Scale:
    """The scale of the score of that name."""
    return Scale(named(name))
