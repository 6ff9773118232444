"""A way to choose the parties of a round, and what it has to know of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError, shown
from unalike.registry import Registry

Array = NDArray[Any]
C = TypeVar("C", bound=type)


@dataclass(frozen=True, eq=False)
class KnownParties:
    """What is known of the parties that can be asked, in their order: their number, and what a rule needs."""

    parties: int
    rows: Array | None = None
    """how many training rows each party has"""
    labels: Array | None = None
    """how many of them have each label, [parties, labels]"""


class CohortRule:
    """Draws the cohort of a round. All of it follows from the random stream and from what is known."""

    uniform: ClassVar[bool] = False
    """True: every cohort is as likely as any other, and no party's data have a say in it."""
    needs_labels: ClassVar[bool] = False
    """True: it must know how many rows of each label each party has."""
    needs_rows: ClassVar[bool] = False
    """True: it must know how many rows each party has."""
    by_loss: ClassVar[bool] = False
    """True: ``draw`` gives candidates, of which ``choose`` takes some by the model's loss on their rows."""

    @property
    def reveals(self) -> str:
        """What of single parties the choice is made by, in words; empty where it is nothing."""
        return ""

    def draw(self, random: np.random.Generator, known: KnownParties, size: int) -> list[int]:
        """The parties of a round, by their place among those that can be asked; or the candidates."""
        raise NotImplementedError

    def choose(self, candidates: Sequence[int], losses: Sequence[float], size: int) -> list[int]:
        """The cohort among candidates, where that goes by the loss of each."""
        raise NotImplementedError

    def informed(self, known: KnownParties) -> KnownParties:
        """What is known, with what the rule's own text declares in place of what was looked at."""
        text = getattr(self, "declared", "")
        if not text:
            return known
        counts = declared_counts(text)
        if len(counts) != known.parties:
            raise UserError(
                f"The cohort's declared label counts are of {len(counts)} parties, but {known.parties} can be "
                "asked. Give one group of numbers for each, in the parties' order."
            )
        return KnownParties(known.parties, counts.sum(axis=1), counts)

    def check(self, known: KnownParties, size: int) -> None:
        """Refuse to choose by what is not known."""
        if self.needs_labels and known.labels is None:
            raise UserError(
                "Cohorts are to be chosen by the label counts of each party, which are not known here. A "
                "simulation of a task with classes knows them; else declare them, party by party, as in "
                'label-balanced(declared="30 10|5 40"), or use --cohort uniform.'
            )


def declared_counts(text: str) -> Array:
    """Label counts as they are written: numbers of rows of each label, one group for each party."""
    try:
        groups = [[int(number) for number in group.split()] for group in text.split("|")]
    except ValueError:
        groups = []
    widths = {len(group) for group in groups}
    if len(widths) != 1 or widths == {0} or min(min(group) for group in groups) < 0 or not all(map(sum, groups)):
        raise UserError(
            f"Declared label counts must be whole numbers, as many for each party and one of them above 0, got "
            f'{shown(text)}. Write declared="30 10|5 40|0 20" for three parties and two labels.'
        )
    return np.array(groups)


COHORTS: Registry[CohortRule] = Registry("cohort")


@dataclass_transform(frozen_default=True)
def register_cohort(name: str, *, paper: str = "") -> Callable[[C], C]:
    """Class decorator: make the class a frozen dataclass and register it as a way to choose cohorts."""
    return COHORTS.register(name, paper=paper)
