"""Parties that know the same people by other columns, in the simulation of a protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unalike.algorithms.protocol import SERVER, Arrays, Me, Own, Pace, Protocol, PublicTerms
from unalike.data import Dataset
from unalike.data.dataset import Array
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.partition import Partition, apart_rows, as_held, common_rows
from unalike.rounds.conversation import InProcess, Spoken, converse, role_random, role_secret
from unalike.rounds.federation import SplitRows
from unalike.rounds.margins import Answers, Grown, as_table
from unalike.rounds.state import State
from unalike.runs.build import shares_of, split_columns
from unalike.runs.cast import arrays_of, read_by
from unalike.runs.meaning import is_grown
from unalike.runs.row_cast import APART
from unalike.runs.spec import RunSpec


class ColumnCast:
    """Parties with columns of their own, as roles of a protocol; one of them has the labels.

    They train on the people whom all of them know. ``rows`` are these people, as if one party had them whole.
    """

    engine_name = APART
    why_this_engine = "parties hold other columns: each makes its own steps"

    def __init__(self, spec: RunSpec, protocol: Protocol, data: Dataset | None) -> None:
        self.spec, self.protocol = spec, protocol
        dataset, self.partition = as_held(*split_columns(spec, data))
        assert self.partition.columns is not None
        self.columns: Sequence[Array] = self.partition.columns
        common = common_rows(self.partition)
        if not len(common):
            raise UserError(f"{spec.partition}: there is nobody whom all parties know. Let them share more rows.")
        people = Partition("people whom all parties know", (common,), ("everybody",), leaves_rows=True)
        self.rows = SplitRows(dataset, people, **shares_of(spec), by_labels=False)
        self.model = MODELS.build(str(spec.model))
        shift, scale = map(float, dataset.target)
        pace = Pace(spec.lr, spec.epochs or 1.0, spec.steps, spec.batch_size, spec.lr_decay)
        self.terms = PublicTerms(
            parties=len(self.columns),
            rounds=spec.rounds,
            seed=spec.seed,
            model=self.model,
            features=math.prod(dataset.shape),
            classes=len(dataset.classes),
            target=(shift, scale) if dataset.task == "regression" else (0.0, 1.0),
            label_holder=self.partition.label_holder,
            columns=tuple(map(len, self.columns)),
            pace=pace,
        )
        self._as_is = is_grown(self.model)  # trees read numbers in the units of the table
        self.roles = {SERVER: self._role(self.terms, SERVER, None)} | {
            number: self._role(self.terms, number, self._own(number)) for number in range(self.size)
        }

    @property
    def size(self) -> int:
        """How many parties take part."""
        return len(self.columns)

    def _role(self, terms: PublicTerms, number: int, own: Own | None) -> Me:
        seed = terms.seed
        return Me(terms, number, own, role_random(seed, number), draw_secret=role_secret(seed, number))

    def _own(self, number: int) -> Own:
        """What a party has: its columns of the people that all know, and of those that not all know."""
        data, (common,) = self.rows.dataset, self.rows.parties
        apart = apart_rows(self.partition, number)
        places: Array = np.concatenate([common.train, common.validation, apart])
        ends = np.cumsum([len(common.train), len(common.validation)])
        train, validation, rest = np.split(np.arange(len(places)), ends)
        x = as_table(data.x, places)
        x = x if self._as_is else scaled(x, data)
        labels = data.y[places] if number == self.terms.label_holder else data.y[:0]
        return Own(x[:, self.columns[number]], labels, train, validation, rest)

    def play(self, states: dict[int, Arrays], round: int) -> tuple[dict[int, Arrays], Spoken]:
        """What roles keep after a round, and what was said in it by all parties together."""
        return self._played(self.roles, states, round)

    def _played(
        self, roles: Mapping[int, Me], states: Mapping[int, Arrays], round: int
    ) -> tuple[dict[int, Arrays], Spoken]:
        carrier = InProcess(self.protocol, roles.values(), states)
        holder = roles[SERVER].terms.label_holder or 0
        spoken = converse(carrier, roles, round, record_of=(SERVER, holder))
        sums = sum(carrier.bytes_added.values())
        ways = {"sums": sums, "mail": sum(spoken.up.values())}, {"mail": sum(spoken.down.values())}
        spoken.up, spoken.down = ({name: size for name, size in way.items() if size} for way in ways)
        return carrier.states, spoken

    def told(self) -> dict[str, Any]:
        """For the record: how many columns each party has, who has the labels, how many people all know."""
        names = self.partition.names
        common = len(self.rows.partition.rows[0])
        return {
            "parties": {name: len(own) for name, own in zip(names, self.columns, strict=True)},
            "label_holder": names[self.partition.label_holder],
            "people": common,
        }

    def models(self, state: State) -> tuple[Arrays | None, dict[int, Arrays]]:
        """The arrays of the model that reads all columns; no party has it, each has its part."""
        return self._joined(self.roles, arrays_of(state), self.columns), {}

    def _joined(
        self, roles: Mapping[int, Me], states: Mapping[int, Arrays], columns: Sequence[Array]
    ) -> Arrays | None:
        terms, parts = roles[SERVER].terms, []
        for number in range(terms.parties):
            part = self.protocol.model(roles[number], states[number], states[SERVER])
            if part is None:
                return None
            parts.append(part)
        return self.protocol.joined(terms, parts, columns)

    def grown(self, arrays: Arrays) -> Grown:
        """A model that can be tried on rows as the data set has them."""
        return self._readable(arrays, self.terms, None)

    def _readable(self, arrays: Arrays, terms: PublicTerms, columns: Array | None) -> Grown:
        reader: Any = self.model
        made = read_by(self.protocol.predictor or reader.predictor, arrays, terms)
        if self._as_is and columns is None:
            return made
        return OnWholeRows(made, None if self._as_is else self.rows.dataset, columns)

    def predicted(self, state: State, x: Any) -> Array:
        """The margins of other people that the label holder gets when all parties predict together."""
        x = as_table(x, np.arange(x.shape[0]))
        x, everybody, nobody = (
            x if self._as_is else scaled(x, self.rows.dataset),
            np.arange(x.shape[0]),
            np.arange(0),
        )
        asked = {
            number: replace(me, data=Own(x[:, self.columns[number]], np.zeros(0), everybody, nobody), kept={})
            for number, me in self.roles.items()
            if number != SERVER
        }
        carrier = InProcess(self.protocol, [self.roles[SERVER], *asked.values()], arrays_of(state))
        converse(carrier, self.roles, state.round, "predict")
        found: Array = carrier.states[self.terms.label_holder or 0]["margins"]
        return found

    def alone(self) -> Grown | None:
        """The model that the label holder trains on its own columns, with nobody's help."""
        holder = self.terms.label_holder or 0
        width = len(self.columns[holder])
        terms = replace(self.terms, parties=1, features=width, label_holder=0, columns=(width,))
        roles = {
            SERVER: self._role(terms, SERVER, None),
            0: self._role(terms, 0, self.roles[holder].rows),
        }
        states: dict[int, Arrays] = {number: self.protocol.start(me) for number, me in roles.items()}
        for round in range(terms.rounds + 1):
            states, _ = self._played(roles, states, round)
            if round and self.protocol.finished(states[SERVER]) is not None:
                break
        arrays = self._joined(roles, states, [np.arange(width)])
        return None if arrays is None else self._readable(arrays, terms, self.columns[holder])


def scaled(x: Any, dataset: Dataset) -> Any:
    """Rows of a table as a batch has them: shifted and scaled; the same where that changes nothing."""
    if not np.any(dataset.shift) and np.all(np.asarray(dataset.scale) == 1):
        return x
    shift, scale = (
        np.broadcast_to(part, dataset.shape).reshape(-1).astype(x.dtype) for part in (dataset.shift, dataset.scale)
    )
    return (x - shift) / scale


@dataclass(frozen=True, eq=False)
class OnWholeRows:
    """A model of some columns, or of scaled ones, that is given rows as the data set has them."""

    model: Grown
    dataset: Dataset | None
    columns: Array | None

    @property
    def trees(self) -> int:
        """How many parts it is the sum of."""
        return self.model.trees

    @property
    def objective(self) -> Answers:
        """What its margins mean, where numbers are predicted."""
        return self.model.objective

    @property
    def sha256(self) -> str:
        """The SHA-256 of all that decides what it predicts."""
        return self.model.sha256

    def told(self, features: Sequence[str]) -> Mapping[str, Any]:
        """What a result says of it, where it has something to say."""
        return self.model.told(features) if hasattr(self.model, "told") else {}

    def margins(self, x: Any, first: int = 0, last: int | None = None) -> Array:
        """What it says of rows, [rows, outputs]."""
        x = x if self.dataset is None else scaled(x, self.dataset)
        return self.model.margins(x if self.columns is None else x[:, self.columns], first, last)
