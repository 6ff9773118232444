"""What an algorithm asks of its parties: what each is sent, and in which parts it trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from unalike.algorithms.replies import Vectors

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["train", "measure", "measure+train", "train+measure", "offer"]
MeasuredRows = Literal["train", "validation", "public"]
PhaseRows = Literal["own", "public", "own+public"]


@dataclass(frozen=True, eq=False)
class ByParty:
    """A value in a payload of which every party gets a part of its own.

    Party k is sent row ``which[k]`` of ``values`` [rows, ...], and nothing else of it: it finds that row in
    ``received`` under the value's name. ``which`` has a whole number for each party of the population.
    """

    values: Tensor
    which: Tensor

    def of(self, party: int) -> Tensor:
        """The row that a party is sent."""
        return self.values[int(self.which[party])]


Payload = Mapping[str, "Tensor | ByParty"]
"""What a cohort is sent, by name: the same for all, or a row for each."""


def sent_to(payload: Payload, party: int) -> Vectors:
    """A payload as one party gets it: of a :class:`ByParty` its own row alone."""
    return {key: value.of(party) if isinstance(value, ByParty) else value for key, value in payload.items()}


@dataclass(frozen=True)
class Phase:
    """A part of local training: phases follow each other, and each has new slots of the local optimiser.

    ``name`` reaches the party as ``party.phase``. ``epochs`` or ``steps`` are its local work; with neither it is
    the run's. ``rows``: the steps see the party's own rows, or the public ones that everybody has (``--public``),
    or both together; of the public ones, ``share`` is the fraction that each party has been given, the same rows
    in every round, and ``drawn`` is the part of all that is drawn anew for each round, the same for everybody
    (``task.public_part``). Where both are seen, ``batch.index`` counts the public rows after the party's own: the
    p-th of all public rows is ``party.size + p``. ``part`` (i, n, d): of its own rows the
    i-th of n parts, into which they are dealt by the d-th random deal, the same in every round; a party with fewer
    rows than parts has one in each.
    ``trains`` names the part of the net whose weights move ("head", "body", "norm", or any layer's name, see
    ``task.parts``), or several parts; all others keep their values exactly. Empty: all weights move.

    ``own_statistics``: what is trained is another model than the shared one, and so are batch norm's running
    statistics. The party keeps them at home, the next such phase goes on from them, and its personal model is used
    with them; those of the other phases are as if this one were not there.

    ``copies`` names a vector in what the party is sent: a row of class y is among the phase's rows that often,
    once at least and ``most`` times at most. Of 2.3 the 2 are certain, and the 0.3 is the chance of one more,
    drawn anew in every round. ``batch.index`` counts all copies of a row as that row.
    """

    name: str = ""
    epochs: int | None = None
    steps: int | None = None
    rows: PhaseRows = "own"
    trains: str | tuple[str, ...] = ""
    own_statistics: bool = False
    share: float = 1.0
    copies: str = ""
    most: int = 10
    drawn: float = 1.0
    part: tuple[int, int, int] | None = None


def is_work(phase: Phase) -> bool:
    """Whether a phase says its local work once, in whole numbers above 0, on rows that there are."""
    given = [number for number in (phase.epochs, phase.steps) if number is not None]
    known = phase.rows in get_args(PhaseRows) and 0 < phase.share <= 1 and phase.most >= 1 and _is_part(phase)
    return len(given) < 2 and all(type(n) is int and n > 0 for n in given) and known


def _is_part(phase: Phase) -> bool:
    """Whether a phase sees all of its rows, or a part of the party's own that there is."""
    which, parts, deal = phase.part if isinstance(phase.part, tuple) and len(phase.part) == 3 else (0, 0, 0)
    return phase.part is None or (phase.rows == "own" and 0 <= which < parts and deal >= 0)


def parts_of(trains: str | tuple[str, ...]) -> tuple[str, ...]:
    """The parts of the net that a phase's ``trains`` names; none where all weights move."""
    return (trains,) * bool(trains) if isinstance(trains, str) else trains


@dataclass(frozen=True, eq=False)
class Ask:
    """One exchange: what every party of the cohort is sent, and what it is to do.

    ``train``: local training from ``start``, then ``upload``. ``measure``: one pass over all of the party's
    training rows with ``measure``, then ``report``. ``measure+train``: the pass first (its result is
    ``party.measured``), then training. ``train+measure``: training first (it ends in ``party.trained``), then the
    pass, then ``upload``. ``offer``: one look at all of the party's training rows, as one batch, with ``offer``.

    ``phase`` reaches the party as it is, for algorithms whose exchanges differ; where it is set, the exchange is
    one phase of that name and ``Algorithm.phases`` is not asked. ``rows``: what the measuring pass goes over.
    ``to``: the parties of the cohort that are asked, by number; the others stay in the round.
    """

    kind: Kind
    payload: Payload
    phase: str = ""
    rows: MeasuredRows = "train"
    to: tuple[int, ...] | None = None
