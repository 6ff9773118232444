"""A protocol's conversation played in one process, round by round, as a run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch

from unalike.algorithms import ALGORITHMS
from unalike.algorithms.contract import Vectors
from unalike.algorithms.protocol import SERVER, Arrays, Me, Own, Protocol, PublicTerms
from unalike.channels import parse_channel
from unalike.data import Dataset
from unalike.data.dataset import Array
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.own_code import explained
from unalike.rounds.conversation import InProcess, Spoken, converse, role_random
from unalike.rounds.evaluation import Figures, chosen_scores, figures_of_round, without_each
from unalike.rounds.ledger import Traffic
from unalike.rounds.margins import Grown, MarginLook, TriedRows, as_table
from unalike.rounds.masked_sums import INTRODUCTION, MaskedSums, SteppedSums
from unalike.rounds.state import State
from unalike.runs.build import split_rows
from unalike.runs.kept import MOST_BYTES, OwnModels, RoundModels
from unalike.runs.selection import Selection
from unalike.runs.spec import RunSpec
from unalike.scores import choose

MERGED, APART = "compiled", "sequential"
"""The engines: all rows as one party's, where the server hears sums alone; or one party after the other."""


class Conversing:
    """A protocol between simulated parties. What a role keeps are arrays; between rounds they are tensors."""

    def __init__(
        self,
        spec: RunSpec,
        protocol: Protocol,
        *,
        data: Dataset | None = None,
        say: Callable[[str], None] = print,
        several_trips: bool = False,
    ) -> None:
        """``several_trips``: how masked sums are made, as between sites of which some may vanish on the way."""
        self.spec, self.protocol = spec, protocol
        self.federation = split_rows(spec, data)
        dataset = self.federation.dataset
        if dataset.kind != "numbers":
            raise UserError(f"{spec.model} reads numbers, but the rows of {dataset.name} are {dataset.kind}.")
        if self.federation.partition.seasons is not None:
            raise UserError(f"{spec.partition} changes rows with time, which {spec.algorithm} cannot use.")
        if not dataset.is_tested:
            say(f"{dataset.name} has no test rows: there is no score on a global test set.")
        self.model = MODELS.build(str(spec.model))
        self._pools = ALGORITHMS.entry_of(ALGORITHMS.build(spec.algorithm)).name == "pooled"
        apart = self._pools or protocol.sends == "nothing"
        everybody = list(range(self.federation.size))
        self.members = everybody if protocol.sends == "nothing" else self.federation.population.members
        """The parties that take part: role k is that of party ``members[k]``."""
        self.channel = parse_channel(None if apart else spec.channel)  # else there is nothing to carry
        self.channel.check_cohort(len(self.members))
        summing = SteppedSums if several_trips else MaskedSums
        self._masked = summing(len(self.members)) if self.channel.parts else None
        self.score = choose(spec.score, dataset.task)
        self.evaluated: tuple[int, Figures] | None = None
        self._tried = TriedRows(dataset)
        self._played: State | None = None
        self.use(spec.engine, say)
        self.selection = Selection(self.score, whole=bool(self.models(self.state)[1]))

    # Who plays, and how.

    def use(self, engine: str, say: Callable[[str], None]) -> None:
        """Play with all rows as one party's, where that gives the same bits, or with one party after the other."""
        why_not = "" if self._pools else self.why_apart()
        if why_not and engine == MERGED:
            say(f"{self.spec.algorithm} is played party by party: {why_not}.")
        self.engine_name = APART if why_not or (engine == APART and not self._pools) else MERGED
        named = "named by the spec or the checkpoint"
        merged = "the server hears sums alone: all rows are one party's, with the same bits"
        self.why_this_engine = why_not or (named if engine != "auto" else merged)
        parties = 1 if self.engine_name == MERGED else len(self.members)
        dataset = self.federation.dataset
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
        with explained(self.protocol):
            states = {number: self.protocol.start(me) for number, me in self.roles.items()}
        self.state = _state(0, states)

    def why_apart(self) -> str:
        """Why parties cannot be merged into one, in words; nothing where they can."""
        if not self.protocol.only_sums:
            return "the server hears more than sums of its parties"
        if getattr(self.model, "rows", 1.0) < 1:
            return "each party draws its own share of rows for a tree"
        return ""

    def _own(self, numbers: Sequence[int]) -> Own:
        """The rows of some parties, as one party has them."""
        data, parties = self.federation.dataset, [self.federation.parties[number] for number in numbers]
        train, validation = ([getattr(one, use) for one in parties] for use in ("train", "validation"))
        places: Array = np.concatenate([*train, *validation])
        count = sum(map(len, train))
        own = np.arange(len(places), dtype=np.int64)
        return Own(as_table(data.x, places), data.y[places], own[:count], own[count:])

    # Rounds.

    @property
    def state(self) -> State:
        """What all roles keep after the last whole round."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        if state is not self._played:  # it did not grow out of the one before
            self._tried.forget()
        self._state = state

    @property
    def stopped(self) -> str | None:
        """Why the protocol ends before the last round, if it does."""
        return self._stopped(self.state) if self.state.round else None

    def _stopped(self, state: State) -> str | None:
        return self.protocol.finished(_arrays(state.server))

    def play_round(self) -> tuple[State, Figures]:
        """Play the next round; nothing changes until ``state`` is set to what is returned."""
        with explained(self.protocol):
            return self._play_round()

    def _play_round(self) -> tuple[State, Figures]:
        began, number = time.perf_counter(), self.state.round + 1
        states = {SERVER: _arrays(self.state.server)}
        states |= {role: _arrays(kept) for role, kept in self.state.parties.items()}
        traffic: Traffic = {"up": {}, "down": {}}
        figures: Figures = {}
        for round in [0, 1] if number == 1 else [number]:
            states, spoken = self._conversation(states, round)
            figures = spoken.figures | dict(self.protocol.figures(states[SERVER], round))
            for way, sizes in (("up", spoken.up), ("down", spoken.down)):
                for name, size in sizes.items():
                    traffic[way][name] = traffic[way].get(name, 0) + size
        after = _state(number, states)
        self._check(after)
        self._played = after
        row: Figures = {"round": number, "train_loss": math.nan, **figures}
        last = number == self.spec.rounds or self._stopped(after) is not None
        if last or number % self.spec.evaluate_every == 0:
            self.evaluated = number, self.figures(after, everything=last)
            row |= without_each(self.evaluated[1])
        totals = {f"bytes_{way}": sum(sizes.values()) for way, sizes in traffic.items()}
        row |= {"cohort": len(self.members), **totals, "traffic": traffic}
        return after, row | {"seconds": time.perf_counter() - began}

    def _conversation(self, states: dict[int, Arrays], round: int) -> tuple[dict[int, Arrays], Spoken]:
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

    def _check(self, after: State) -> None:
        """Refuse states that changed their layout: what is saved in one round must fit in the next."""
        before, now = (
            {name: (value.dtype, tuple(value.shape)) for name, value in state.tensors().items()}
            for state in (self.state, after)
        )
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) != now.get(name):
                raise UserError(
                    f"{self.spec.algorithm} changed what is kept as {name} from {before.get(name)} to "
                    f"{now.get(name)} in round {after.round}. Keep names, types and shapes."
                )

    # Models, and how good they are.

    def figures(self, state: State, *, everything: bool = True) -> Figures:
        """The figures on the global test set and on the parties' own rows, with each party's own."""
        scores = chosen_scores(self.score, everything=everything)
        shared, personal = self.models(state)
        look = MarginLook(
            self.federation,
            None if shared is None else self.grown(shared),
            {number: self.grown(arrays) for number, arrays in personal.items()},
            self._tried,
        )
        return figures_of_round(look, self.federation, scores, by_labels=self.spec.test_by == "labels")

    def grown(self, arrays: Arrays) -> Grown:
        """A model that can be tried on rows."""
        reader: Any = self.model.predictor
        if isinstance(reader, str):
            module, _, name = reader.partition(":")
            reader = getattr(import_module(module), name)
        made: Grown = reader.of(arrays, self.model, self.terms.classes, self.terms.target)
        return made

    def models(self, state: State) -> tuple[Arrays | None, dict[int, Arrays]]:
        """The arrays of the one model for all, and of the parties' own by the party's number."""
        server = _arrays(state.server)
        own = {
            self.members[number]: model
            for number, kept in state.parties.items()
            if self.engine_name != MERGED
            if (model := self.protocol.model(self.roles[number], _arrays(kept), server)) is not None
        }
        return self.protocol.model(self.roles[SERVER], server, server), own

    def round_models(self, state: State) -> RoundModels:
        """The models that a state gives, as files keep them."""
        shared, own = self.models(state)
        tensors = None if shared is None else _tensors(shared)
        if not own:
            return RoundModels(tensors, None)
        each = [_tensors(own[number]) for number in sorted(own)]
        if (size := sum(value.nbytes for one in each for value in one.values())) > MOST_BYTES:
            return RoundModels(tensors, None, size)
        return RoundModels(tensors, OwnModels.of_all(each, torch.arange(len(each))[:, None]))

    def final_weights(self) -> Vectors:
        """The arrays of the model that all share, or what the server keeps where there is none."""
        shared, _ = self.models(self.state)
        return dict(self.state.server) if shared is None else _tensors(shared)

    def about_model(self) -> dict[str, Any]:
        """How many numbers the model is made of, and its digest: the same however rows are split."""
        shared, own = self.models(self.state)
        one = shared if shared is not None else next(iter(own.values()), None)
        size = 0 if one is None else sum(array.size for array in one.values())
        if shared is None:
            return {"weights": size}
        model = self.grown(shared)
        told = model.told(self.federation.dataset.features) if hasattr(model, "told") else {}
        return {"model_sha256": model.sha256, "weights": size, **told}

    # What nets have and conversations have not.

    @property
    def threads(self) -> int:
        """How many threads an operation of the evaluation may use."""
        return 1

    def placed(self, tensors: Vectors) -> Vectors:
        """Tensors from a file, as they are."""
        return tensors

    def fixed(self) -> dict[str, str]:
        """Nothing: spec and data decide everything."""
        return {}

    def privacy(self, last: Figures) -> dict[str, Any]:
        """Nothing: there is no noise."""
        return {}


def _state(round: int, states: Mapping[int, Arrays]) -> State:
    """What roles keep, as a run's state."""
    parties = {number: _tensors(kept) for number, kept in sorted(states.items()) if number != SERVER}
    return State(round, _tensors(states[SERVER]), torch.zeros(0), parties)


def _tensors(arrays: Arrays) -> Vectors:
    """Arrays as tensors, which share their memory where they can."""
    return {name: torch.from_numpy(np.array(array, order="C", copy=None)) for name, array in arrays.items()}


def _arrays(tensors: Vectors) -> Arrays:
    return {name: value.numpy() for name, value in tensors.items()}
