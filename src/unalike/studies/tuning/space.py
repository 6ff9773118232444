"""The space that a search draws from: ``lr=log(1e-3,1)``, ``optimiser.momentum=0,0.5,0.9``, ``model=a(1)|b(2)``.

A draw depends on the seed of the draws, the number of the trial and the dimension's name alone, so that all
algorithms try the same learning rates, and a trial is the same whoever asks for it and however many there are.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unalike.errors import UserError, shown
from unalike.part_text import split, value_of

_RANGE = re.compile(r"\s*(log|uniform)\s*\((.*)\)\s*", re.DOTALL)
_BOUNDS = {"low", "high", "log"}
_NAME = re.compile(r"[A-Za-z][\w-]*(\.[A-Za-z]\w*)?")
_FORM = "Write lr=log(1e-3,1), epochs=uniform(1,5) or batch_size=16,32,64."
ATTEMPTS = 200
"""Draws of a trial until it differs from those before it; only a small space needs more than one."""


@dataclass(frozen=True)
class Dimension:
    """One parameter and what it may be: one of some values, or a number between two."""

    name: str
    """A field of a run, or a part and its parameter: ``lr``, ``optimiser.momentum``, ``algorithm.mu``."""
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    """Whether factors count and not differences: 0.01 is in the middle between 0.001 and 0.1."""
    whole: bool = False
    """Whether the numbers of a range are whole."""

    @property
    def size(self) -> float:
        """How many different values there are."""
        if self.choices:
            return len(self.choices)
        return self.high - self.low + 1 if self.whole else math.inf

    @property
    def extremes(self) -> tuple[Any, ...]:
        """Values that show whether all are allowed: every choice, or both ends."""
        return self.choices or tuple(int(end) if self.whole else end for end in (self.low, self.high))

    def draw(self, *place: int) -> Any:
        """The value at a place (seed, trial, attempt)."""
        own = int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:4], "big")
        u = float(np.random.default_rng(np.random.SeedSequence([*place, own])).random())
        if self.choices:
            return self.choices[min(int(u * len(self.choices)), len(self.choices) - 1)]
        margin = 0.5 if self.whole else 0.0
        low, high = self.low - margin, self.high + margin
        value = math.exp(math.log(low) + u * math.log(high / low)) if self.log else low + u * (high - low)
        value = round(value) if self.whole else float(f"{value:.3g}")
        inside = min(max(value, self.low), self.high)
        return int(inside) if self.whole else inside

    def of_whole_numbers(self) -> Dimension:
        """The same where the parameter takes whole numbers only."""
        if self.choices:
            return self
        if not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise UserError(f"The space of {self.name} needs whole numbers, got {self.low:g} and {self.high:g}.")
        return replace(self, whole=True)

    def __str__(self) -> str:
        if self.choices:
            return " | ".join(map(str, self.choices))
        return f"{'log' if self.log else 'uniform'}({self.low:g}, {self.high:g})"


def parse_space(texts: Iterable[str]) -> tuple[Dimension, ...]:
    """The dimensions in texts such as ``lr=log(1e-3,1)``, as ``--space`` takes them."""
    made = []
    for text in texts:
        name, equals, values = text.partition("=")
        if not (name.strip() and equals and values.strip()):
            raise UserError(f"Cannot read --space {shown(text)}. {_FORM}")
        made.append(dimension(name.strip(), values.strip()))
    return _different(made)


def read_space(table: Mapping[str, Any]) -> tuple[Dimension, ...]:
    """The dimensions of a table such as ``[tune.space]``; parameters of a part may be in a table of its own."""
    made = []
    for name, value in table.items():
        if isinstance(value, Mapping) and not (value and set(value) <= _BOUNDS):
            made += [dimension(f"{name}.{inner}", each) for inner, each in value.items()]
        else:
            made.append(dimension(name, value))
    return _different(made)


def _different(made: list[Dimension]) -> tuple[Dimension, ...]:
    names = [each.name for each in made]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"The space has {name} twice. Give it once.")
    if not made:
        raise UserError(f"The space is empty: there is nothing to tune. {_FORM}")
    return tuple(made)


def dimension(name: str, value: Any) -> Dimension:
    """A dimension from its name and a text, a list of values, or a table of low, high and log."""
    if not _NAME.fullmatch(name):
        raise UserError(f"The space has no parameter {shown(name)}. {_FORM}")
    if isinstance(value, str) and (found := _RANGE.fullmatch(value)):
        bounds = [_number(each) for each in split(found[2], ",")]
        if len(bounds) != 2:
            raise UserError(f"The space of {name} needs two numbers, low and high, got {shown(value)}. {_FORM}")
        return _between(name, bounds[0], bounds[1], log=found[1] == "log")
    if isinstance(value, Mapping):
        if not {"low", "high"} <= set(value) <= _BOUNDS or not isinstance(value.get("log", False), bool):
            raise UserError(f"The space of {name} needs low and high, and perhaps log = true, got {shown(value)}.")
        return _between(name, value["low"], value["high"], log=value.get("log", False))
    if isinstance(value, str):
        sign = "|" if len(split(value, "|")) > 1 else ","
        value = [_plain(each.strip()) for each in split(value, sign)]
    if not isinstance(value, list | tuple) or not value or "" in value:
        raise UserError(f"The space of {name} needs values, or a range, got {shown(value)}. {_FORM}")
    if len({repr(each) for each in value}) < len(value):
        raise UserError(f"The space of {name} has a value twice: {shown(list(value))}. Write each once.")
    return Dimension(name, tuple(value))


def _between(name: str, low: Any, high: Any, *, log: bool) -> Dimension:
    if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high)):
        raise UserError(f"The space of {name} needs two numbers, got {shown(low)} and {shown(high)}. {_FORM}")
    if not (-1e18 < low < high < 1e18):
        raise UserError(
            f"The space of {name} must go from a smaller number to a larger, got {low:g} and {high:g}."
        )
    if log and low < 1e-18:
        raise UserError(f"The space of {name} is by factors (log), so it begins above 0, got {low:g}. Try 0.001.")
    return Dimension(name, (), float(low), float(high), log)


def _number(text: str) -> Any:
    try:
        return value_of(text.strip())
    except ValueError:
        return text.strip()


def _plain(text: str) -> Any:
    """A number, a word, or the text of a part such as ``mlp(64)``."""
    try:
        value = value_of(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float | str) else text
