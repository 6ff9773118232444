"""Parties that hold other rows, in the simulation of a protocol: apart, or merged into one with the same bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from unalike.algorithms import ALGORITHMS
from unalike.algorithms.protocol import SERVER, Arrays, Me, Own, Protocol, PublicTerms
from unalike.channels import parse_channel
from unalike.data import Dataset
from unalike.data.dataset import Array
from unalike.engines.table import RULES
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.rounds.conversation import InProcess, Spoken, converse, role_random
from unalike.rounds.margins import Grown, as_table
from unalike.rounds.masked_sums import INTRODUCTION, MaskedSums, SteppedSums
from unalike.rounds.state import State
from unalike.runs.build import split_rows
from unalike.runs.cast import arrays_of, read_by
from unalike.runs.spec import RunSpec

MERGED, APART = "compiled", "sequential"
"""The engines: all rows as one party's, where the server hears sums alone; or one party after the other."""


class RowCast:
    """Parties with rows of their own, as roles of a protocol."""

    def __init__(
        self,
        spec: RunSpec,
        protocol: Protocol,
        engine: str,
        data: Dataset | None,
        say: Callable[[str], None],
        several_trips: bool = False,
    ) -> None:
        self.spec, self.protocol = spec, protocol
        self.rows = split_rows(spec, data)
        if self.rows.partition.seasons is not None:
            raise UserError(f"{spec.partition} changes rows with time, which {spec.algorithm} cannot use.")
        self.model = MODELS.build(str(spec.model))
        self._pools = ALGORITHMS.entry_of(ALGORITHMS.build(spec.algorithm)).name == "pooled"
        apart = self._pools or protocol.sends == "nothing"
        everybody = list(range(self.rows.size))
        self.members = everybody if protocol.sends == "nothing" else self.rows.population.members
        """The parties that take part: role k is that of party ``members[k]``."""
        self.channel = parse_channel(None if apart else spec.channel)  # else there is nothing to carry
        self.channel.check_cohort(len(self.members))
        summing = SteppedSums if several_trips else MaskedSums
        self._masked = summing(len(self.members)) if self.channel.parts else None
        self._use(engine, say)

    @property
    def size(self) -> int:
        """How many parties take part."""
        return len(self.members)

    def _use(self, engine: str, say: Callable[[str], None]) -> None:
        """Play with all rows as one party's, where that gives the same bits, or with one party after the other."""
        why_not = "" if self._pools else self.why_apart()
        if why_not and engine == MERGED:
            say(f"{self.spec.algorithm} is played party by party: {why_not}.")
        self.engine_name = APART if why_not or (engine == APART and not self._pools) else MERGED
        named = "named by the spec or the checkpoint"
        merged = "the server hears sums alone: all rows are one party's, with the same bits"
        self.why_this_engine = why_not or (named if engine not in RULES else merged)
        parties = 1 if self.engine_name == MERGED else len(self.members)
        dataset = self.rows.dataset
        shift, scale = map(float, dataset.target)
        self.terms = PublicTerms(
            parties=parties,
            rounds=self.spec.rounds,
            seed=self.spec.seed,
            model=self.model,
            features=math.prod(dataset.shape),
            classes=len(dataset.classes),
            target=(shift, scale) if dataset.task == "regression" else (0.0, 1.0),
            hidden=self.channel.hides_single,
        )
        whose = [self.members] if self.engine_name == MERGED else [[number] for number in self.members]
        rows = {SERVER: None, **{role: self._own(numbers) for role, numbers in enumerate(whose)}}
        seed = self.spec.seed
        self.roles = {role: Me(self.terms, role, own, role_random(seed, role)) for role, own in rows.items()}

    def why_apart(self) -> str:
        """Why parties cannot be merged into one, in words; nothing where they can."""
        if not self.protocol.only_sums:
            return "the server hears more than sums of its parties"
        if getattr(self.model, "rows", 1.0) < 1:
            return "each party draws its own share of rows for a tree"
        return ""

    def _own(self, numbers: Sequence[int]) -> Own:
        """The rows of some parties, as one party has them."""
        data, parties = self.rows.dataset, [self.rows.parties[number] for number in numbers]
        train, validation = ([getattr(one, use) for one in parties] for use in ("train", "validation"))
        places: Array = np.concatenate([*train, *validation])
        count = sum(map(len, train))
        own = np.arange(len(places), dtype=np.int64)
        return Own(as_table(data.x, places), data.y[places], own[:count], own[count:])

    def play(self, states: dict[int, Arrays], round: int) -> tuple[dict[int, Arrays], Spoken]:
        """What roles keep after a round, and what was said in it by all parties together."""
        merged = self.engine_name == MERGED
        times = len(self.members) if merged else 1
        if merged and (quick := self._in_one_go(states, round)) is not None:
            states, up, down = quick
            spoken = Spoken(up={"sums": sum(up.values())}, down={"mail": sum(down.values())})
        else:
            carrier = InProcess(self.protocol, self.roles.values(), states, None if merged else self._masked)
            spoken = converse(carrier, self.roles, round)
            states = carrier.states
            mail = "mail" if self.protocol.only_sums else str(self.protocol.sends)
            spoken.up = {"sums": sum(carrier.bytes_added.values()), mail: sum(spoken.up.values())}
            spoken.down = {"mail": sum(spoken.down.values())}
        ways = (spoken.up, spoken.down)
        spoken.up, spoken.down = ({name: size * times for name, size in way.items() if size} for way in ways)
        if self._masked is not None and round == 0:  # all introduce their keys to each other
            spoken.up["keys"] = INTRODUCTION * len(self.members)
            spoken.down["keys"] = INTRODUCTION * len(self.members) * (len(self.members) - 1)
        return states, Spoken(spoken.turns, figures=spoken.figures) if self._pools else spoken

    def _in_one_go(
        self, states: Mapping[int, Arrays], round: int
    ) -> tuple[dict[int, Arrays], Mapping[str, int], Mapping[str, int]] | None:
        """A round of the one party that has all rows, where the protocol has a short cut for it."""
        made = self.protocol.whole_round(self.roles[0], states[SERVER], states[0], round)
        counted = None if made is None else self.protocol.said(self.roles[0], made[0], round)
        return None if made is None or counted is None else ({SERVER: made[0], 0: made[1]}, *counted)

    def grown(self, arrays: Arrays) -> Grown:
        """A model that can be tried on rows."""
        reader: Any = self.model
        return read_by(reader.predictor, arrays, self.terms)

    def models(self, state: State) -> tuple[Arrays | None, dict[int, Arrays]]:
        """The arrays of the one model for all, and of the parties' own by the party's number."""
        kept = arrays_of(state)
        server = kept.pop(SERVER)
        own = {
            self.members[number]: model
            for number, arrays in kept.items()
            if self.engine_name != MERGED
            if (model := self.protocol.model(self.roles[number], arrays, server)) is not None
        }
        return self.protocol.model(self.roles[SERVER], server, server), own

    def alone(self) -> Grown | None:
        """There is none: that is what the algorithm ``local`` is for."""
        return None
