"""An exchange as one party gets it, and as it answers: plain data, wherever the party is."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from unalike.algorithms.contract import Algorithm, Kind, MeasuredRows, Phase, Vectors
from unalike.channels import Coded, Summand
from unalike.models.task import Task

BUFFERS = "engine/buffers"
"""What a message calls running statistics: their values, or on a private channel their change."""
OWN_STATISTICS = "engine/own statistics"
"""Where a party's state has the running statistics of a model of its own, which its algorithm never sees."""


def seen_state(state: Vectors) -> Vectors:
    """A party's state as its algorithm sees it."""
    return {key: value for key, value in state.items() if key != OWN_STATISTICS}


@dataclass(frozen=True, eq=False)
class Order:
    """What one party is asked in one exchange. No closures: it can be packed, sent, hashed and rehearsed.

    ``payload`` is what it is sent, with its own rows of what differs by party. ``state``, ``buffers`` (the running
    statistics that it starts from) and ``memory`` (of its side of a private channel) are what it keeps.
    """

    party: int
    round: int
    turn: int
    """the exchange's number in its round"""
    kind: Kind
    payload: Vectors
    state: Vectors
    buffers: Tensor
    lr: float
    phases: tuple[Phase, ...] = (Phase(),)
    phase: str = ""
    """the ask's own, which a measuring pass sees too"""
    rows: MeasuredRows = "train"
    memory: Vectors = field(default_factory=dict)
    most_rows: int = 1
    """the training rows of the party that has most: a public number, which hidden sums scale weights by"""
    block: int | None = None
    """the block of its cohort, within which messages are added first; None: the party is one by itself"""

    def later(self, which: int) -> int:
        """How many phases follow one, which is a part of its :meth:`place`.

        The last phase, whose outcome is uploaded, has the streams of a training of one phase. So the shared model
        of an algorithm that trains another one before it is to the bit what it would be without.
        """
        return len(self.phases) - 1 - which

    def place(self, which: int) -> tuple[int, ...]:
        """What tells a phase's random streams apart: round, party, turn, and how many phases follow, if any do."""
        later = self.later(which)
        return (self.round, self.party, self.turn, *([later] if later else []))

    @property
    def own_statistics(self) -> Tensor:
        """The running statistics of the party's own model; before it has any, those that it is sent."""
        return self.state.get(OWN_STATISTICS, self.buffers)

    @property
    def trains(self) -> bool:
        """Whether the party trains in this exchange."""
        return self.kind not in ("measure", "offer")

    @property
    def measures(self) -> bool:
        """Whether the party passes over its rows without training."""
        return self.kind not in ("train", "offer")

    @property
    def measures_first(self) -> bool:
        """Whether it does so before any training."""
        return self.kind in ("measure", "measure+train")


def phases_of(algorithm: Algorithm, task: Task, kind: Kind, phase: str, round: int) -> tuple[Phase, ...]:
    """The phases of an exchange, which a real site works out in the same way as the server."""
    if kind in ("measure", "offer") or phase:
        return (Phase(phase),)
    return algorithm.phases(task, round)


@dataclass(frozen=True, eq=False)
class Reply:
    """One party's answer to an order.

    ``message`` is what leaves the party. Without a channel it is a summand: the party has multiplied what is
    weighted by its weight, and the server only ever adds. On a private channel it is what the channel made of it.
    ``outline`` has the keys and shapes of the upload (tensors on the meta device); ``single`` is the upload as the
    algorithm gave it, for algorithms that look at single ones. The rest is what the party keeps: its state, its
    running statistics after training, and what its side of the channel remembers.
    """

    party: int
    message: Summand | Coded
    outline: Vectors
    state: Vectors
    single: Vectors | None = None
    buffers: Tensor | None = None
    memory: Vectors = field(default_factory=dict)
