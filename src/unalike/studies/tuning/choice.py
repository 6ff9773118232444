"""What every way of tuning can say: which runs it wants next, how far it is, and what it has chosen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from unalike.runs.results import Record
from unalike.studies.planned import Planned

Look = Callable[[Planned], Record]
"""What there is of a run now."""


@dataclass(frozen=True)
class Choice:
    """What tuning has shown: an algorithm with its parameters, or a problem; neither while runs are missing."""

    algorithm: str = ""
    problem: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The other fields of a run that were chosen with it, such as ``lr``."""


@dataclass(frozen=True)
class Tuned:
    """Parameters that were chosen on validation rows: where, among what, what was chosen, and how."""

    fields: Mapping[str, Any]
    """The combination of the axes."""
    algorithm: str
    chosen: str
    validation: Mapping[str, float | None]
    """By candidate, the mean of the final scores on validation rows, as they are told; None of one that failed."""
    score: str
    """What was looked at."""
    how: str = ""
    """How many runs and seeds the choice is from, in a sentence."""


@dataclass(frozen=True)
class Tuning(ABC):
    """One algorithm in one combination of the axes, whose parameters are to be chosen."""

    fields: Mapping[str, Any]
    algorithm: str

    @abstractmethod
    def runs(self) -> Iterator[Planned]:
        """All runs that may be needed."""

    @abstractmethod
    def wanted(self, look: Look) -> Iterator[tuple[Planned, int | None]]:
        """The runs that are missing now, each with the round until which it is needed; None is its last."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """How many times a run is played, until its end or until a stop."""

    @abstractmethod
    def done(self, look: Look) -> int:
        """How many of the steps are made."""

    @abstractmethod
    def choose(self, look: Look) -> Choice:
        """What the validation rows have shown; test figures take no part."""

    @property
    @abstractmethod
    def how(self) -> str:
        """From what is chosen, and at which cost, in a sentence."""

    @abstractmethod
    def tell(self, look: Look) -> Tuned:
        """What was chosen among what, once there is a choice."""

    def failures(self, look: Look) -> list[Record]:
        """Runs whose failure is worth a word to the user, beside that they lost."""
        return []

    def rounds_to_come(self, look: Look) -> int:
        """Rounds of runs that are not wanted yet, but will be."""
        return 0
