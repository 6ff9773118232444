"""The second contract: a protocol is a conversation of roles, for what is not "the server averages vectors".

Boosted trees add integers level by level; parties that hold different columns of the same people send each other
sums of rows. A :class:`Protocol` says what each role (every party, and the server) does with its mail, as one pure
step: what it kept and what it was told give what it keeps and what it says. Whoever drives it, in one process or
between real sites, carries the mail; nobody ever waits for a particular message, so nobody can wait for ever.

1. A round begins with turn 0, in which every role has its step with an empty inbox. Later only roles that have
   mail are called. A round is over when nobody says anything.
2. Mail comes by the number of its sender, in ascending order. What was said to be added comes to the server as one
   sum, under ``SUM``.
3. A step is pure: the same arguments give the same bytes. Random numbers come from ``me.random``.
4. New states count when the round is whole. After a stop it is played again from the states before it.
5. A step reads its inbox with :func:`want`, which refuses what has another type or shape and names the sender.
6. Round 0 prepares: it is played once, before round 1.
7. Where columns are split, the same roles also predict: in a conversation of that purpose a party's rows are those
   to predict, and at its end the label holder keeps their ``margins``, float64 [rows, outputs]. States of such a
   conversation are thrown away. A protocol of columns also works with the label holder alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError
from unalike.randomness import stream

if TYPE_CHECKING:
    from unalike.randomness import Purpose as Use

SERVER: Final = -1
"""The number of the server's role; parties are 0, 1, and so on."""
SUM: Final = -2
"""In the server's inbox: who the sum of what parties added comes from."""
TYPES: Final = ("uint8", "int32", "int64", "float32", "float64")
"""What arrays in mail, sums and states may be made of."""

Arrays = dict[str, NDArray[Any]]
Inbox = Mapping[int, Arrays]
Splits = Literal["rows", "columns"]
Sends = Literal[
    "nothing", "sums of gradients", "trees", "scores", "sums of scores", "features", "encrypted gradients"
]
Intent = Literal["train", "predict"]
T = TypeVar("T")


class WrongMail(UserError):
    """Somebody said what the protocol has no place for; ``sender`` is the number of that role."""

    def __init__(self, sender: int, problem: str) -> None:
        self.sender = sender
        super().__init__(f"{role_name(sender)} {problem}")


def role_name(number: int) -> str:
    """How a role is called in messages to people."""
    return {SERVER: "The server", SUM: "The sum"}.get(number, f"Party {number}")


@dataclass(frozen=True)
class Turn:
    """When a step is made: the turn's number within a round, counted from 0; round 0 prepares."""

    round: int
    number: int
    purpose: Intent = "train"


@dataclass(frozen=True)
class Pace:
    """How far a round goes, for models that are trained in small steps; from the options of a run."""

    lr: float = 0.1
    epochs: float = 1.0
    steps: int | None = None
    """Batches in a round; None: as many as make ``epochs``."""
    batch_size: int = 32
    lr_decay: float = 1.0


@dataclass(frozen=True, eq=False)
class PublicTerms:
    """What all roles know: it is public, equal for all, and part of what real sites agree on."""

    parties: int
    rounds: int
    seed: int
    model: Any
    """The model's settings, such as :class:`~unalike.models.trees.Trees`."""
    features: int
    classes: int
    """0 where numbers are predicted."""
    target: tuple[float, float] = (0.0, 1.0)
    """Where numbers are predicted: the shift and scale that standardise them."""
    hidden: bool = False
    """Whether sums are opened only whole, so that no single party's part is ever seen."""
    label_holder: int | None = None
    """With columns split: who has the labels."""
    columns: tuple[int, ...] = ()
    """With columns split: how many each party has."""
    pace: Pace = Pace()

    def random(self, use: Use, *place: int) -> np.random.Generator:
        """Random numbers that all roles draw alike, such as which people are in a batch."""
        return stream(self.seed, use, 0, *place)


@dataclass(frozen=True, eq=False)
class Own:
    """A party's own rows: features, labels, and the places of the rows that each purpose has.

    Features are as the data set has them, float32 or float64, perhaps a scipy CSR matrix, NaN where missing;
    labels are int64, or numbers to predict in their own units; none (length 0) at a party that has no labels.
    Where columns are split, ``train`` are the same people in the same order at all parties.
    """

    x: Any
    y: NDArray[Any]
    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    apart: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """With columns split: rows to train on of people that not all parties know."""


@dataclass(frozen=True, eq=False)
class Me:
    """All that one role can see: the terms, its number, and a party's rows; the server has none."""

    terms: PublicTerms
    number: int
    data: Own | None
    draw: Callable[[Use, tuple[int, ...]], np.random.Generator]
    kept: dict[str, Any] = field(default_factory=dict)
    """What :meth:`remember` has made."""
    least_rows: int = 0
    """A party's own rule: of fewer rows than this, but some, it adds nothing to a sum, whatever it is told."""
    draw_secret: Callable[[str, tuple[int, ...]], bytes] | None = None

    @property
    def rows(self) -> Own:
        """This party's rows; the server must not ask."""
        if self.data is None:
            raise ValueError(f"{role_name(self.number)} has no rows.")
        return self.data

    def random(self, use: Use, *place: int) -> np.random.Generator:
        """This role's random numbers for one use at one place, such as a round: the same whenever it is asked."""
        return self.draw(use, place)

    def secret(self, use: str, *place: int) -> bytes:
        """32 bytes that only this role knows, for keys and masks: the same whenever it is asked.

        Between real sites they come from the site's own key, in a simulation from the seed.
        """
        if self.draw_secret is None:
            raise ValueError(f"{role_name(self.number)} has no secrets.")
        return self.draw_secret(use, place)

    def remember(self, name: str, make: Callable[[], T]) -> T:
        """What ``make`` gives, made once: for what follows from rows and state and is dear, such as binned rows.

        A step must give the same bytes with nothing remembered.
        """
        if name not in self.kept:
            self.kept[name] = make()
        made: T = self.kept[name]
        return made


@dataclass(frozen=True, eq=False)
class Say:
    """What a role says in a turn: mail to single roles, and integers that are only ever added.

    ``mail`` is by the number of the role that gets it. All parties that add in a turn add arrays of the same
    names, types (int64) and shapes; the server, or the role ``to``, gets their sum and no single part. ``figures``
    of the server, or of the label holder, are kept in the round's record.
    """

    mail: Mapping[int, Arrays] = field(default_factory=dict)
    add: Arrays | None = None
    to: int = SERVER
    """Who gets the sum; the same for all that add in a turn."""
    figures: Mapping[str, float] = field(default_factory=dict)


NOTHING: Final = Say()


class Protocol:
    """A conversation that trains a model: a frozen dataclass, registered as an algorithm is.

    The fields are its parameters. ``start`` is what a role keeps before round 0, ``step`` what it does in a turn.
    """

    splits: ClassVar[Splits] = "rows"
    """What parties hold: different rows, or different columns of the same rows."""
    models: ClassVar[tuple[str, ...]] = ()
    """The names of the models that it can train."""
    uses: ClassVar[frozenset[str]] = frozenset()
    """The fields of a run's spec that decide its outcome, beside those that every run has."""
    sends: ClassVar[Sends] = "sums of gradients"
    """What leaves a party, in words that real sites consent to."""
    only_sums: ClassVar[bool] = False
    """Whether the server hears of parties by sums alone, so that one party with all rows gives the same model."""

    reasons: ClassVar[Mapping[str, str]] = {}
    """Why an option that it makes no use of has no meaning here, and what may be meant instead."""
    predictor: ClassVar[str] = ""
    """``module:class`` of what reads the arrays of :meth:`joined`; empty: the model says it."""

    most_parties: ClassVar[int | None] = None
    """How many parties can take part at most; None: any number."""
    server_begins: ClassVar[bool] = False
    """Whether parties say nothing in turn 0, so that real sites need not be woken for it."""

    def start(self, me: Me) -> Arrays:
        """What a role keeps before anything is said.

        Names, types and shapes are the same after every round; within a round a role may keep more.
        """
        raise NotImplementedError

    def step(self, me: Me, state: Arrays, turn: Turn, inbox: Inbox) -> tuple[Arrays, Say]:
        """What a role keeps after a turn, and what it says. Nothing that it is given may be changed."""
        raise NotImplementedError

    def whole_round(self, me: Me, server: Arrays, party: Arrays, round: int) -> tuple[Arrays, Arrays] | None:
        """The server's and the only party's states after a round, in one go: the bits of the conversation, sooner.

        ``me`` is the party. None: play the conversation. Only asked where ``only_sums`` holds, and where
        :meth:`said` counts what the conversation would have said.
        """
        return None

    def said(self, me: Me, server: Arrays, round: int) -> tuple[dict[str, int], dict[str, int]] | None:
        """How many bytes one party sends and gets in such a round, by name; ``server`` is what it leaves.

        What a party adds counts as sent. None: nobody has counted, so the conversation itself is played.
        """
        return None

    def figures(self, server: Arrays, round: int) -> Mapping[str, float]:
        """Figures of a round for its record, such as ``train_loss``, from what the server keeps after it."""
        return {}

    def model(self, me: Me, state: Arrays, server: Arrays) -> Arrays | None:
        """The arrays of the model that a party would use; ``me`` the server: the one that all share, if any.

        ``server`` is what the server keeps. None where this role has no model of its own.
        """
        raise NotImplementedError

    def joined(self, terms: PublicTerms, parts: Sequence[Arrays], columns: Sequence[NDArray[np.int64]]) -> Arrays:
        """With columns split: the model of somebody who has all columns, from all parties' parts of it.

        ``parts`` are what :meth:`model` gives for each party, in order; ``columns`` says which columns of the
        whole table each of them has.
        """
        raise NotImplementedError

    def learns(self, terms: PublicTerms) -> Mapping[str, str]:
        """With columns split: what each kind of role learns of the others, in words that real sites consent to.

        The keys are "label holder", "other holders" and "server".
        """
        return {}

    def finished(self, server: Arrays) -> str | None:
        """Why training ends before its last round, in words; None to go on."""
        return None


def want(
    inbox: Inbox, sender: int, name: str, dtype: str, shape: tuple[int | None, ...] | None = None
) -> NDArray[Any]:
    """The array of that name that a role sent, or an error that names it; None in a shape: any length."""
    array = inbox.get(sender, {}).get(name)
    if array is None:
        raise WrongMail(sender, f"was to say {name!r} and did not. Ask again.")
    fits = shape is None or (
        array.ndim == len(shape) and all(w is None or w == n for w, n in zip(shape, array.shape, strict=True))
    )
    if array.dtype != dtype or not fits:
        told = "" if shape is None else f" {tuple('any' if n is None else n for n in shape)}"
        raise WrongMail(sender, f"said {name!r} as {array.dtype} {array.shape}, it must be {dtype}{told}.")
    return array
