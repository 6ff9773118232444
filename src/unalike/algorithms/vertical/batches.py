"""Which people are in which batch of a round: all parties draw the same, and nobody has to say it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import PublicTerms


def batches(terms: PublicTerms, people: int, round: int) -> list[NDArray[np.int64]]:
    """The places of the people in each batch of a round, among so many that all parties know.

    A round has ``pace.steps`` batches, or as many as make ``pace.epochs``. Everybody has a turn before anybody has
    the next; the last batch of a pass may be smaller.
    """
    pace, found = terms.pace, list[NDArray[np.int64]]()
    a_pass = max(1, -(-people // pace.batch_size))
    wanted = pace.steps if pace.steps is not None else max(1, round_half_up(pace.epochs * a_pass))
    while len(found) < wanted:
        order = terms.random("batches", round, len(found) // a_pass).permutation(people)
        found += [order[at : at + pace.batch_size] for at in range(0, people, pace.batch_size)]
    return found[:wanted]


def round_half_up(number: float) -> int:
    """The nearest whole number; of two that are as near, the greater."""
    return int(np.floor(number + 0.5))


def learning_rate(terms: PublicTerms, round: int) -> float:
    """The step size of a round, counted from 1."""
    return terms.pace.lr * terms.pace.lr_decay ** (round - 1)


def outputs_of(terms: PublicTerms) -> int:
    """How many numbers a model says of a person: one for two classes or a number to predict, else one a class."""
    return 1 if terms.classes in (0, 2) else terms.classes
