"""A protocol's conversation played in one process, round by round, as a run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from unalike.algorithms.contract import Vectors
from unalike.algorithms.protocol import SERVER, Arrays, Me, Protocol
from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.own_code import explained
from unalike.rounds.evaluation import chosen_scores, figures_of_round, without_each
from unalike.rounds.federation import SplitRows
from unalike.rounds.ledger import Traffic
from unalike.rounds.margins import MarginLook, TriedRows
from unalike.rounds.state import State
from unalike.runs.cast import arrays_of
from unalike.runs.column_cast import ColumnCast
from unalike.runs.kept import MOST_BYTES, OwnModels, RoundModels
from unalike.runs.row_cast import RowCast
from unalike.runs.selection import Selection
from unalike.runs.spec import RunSpec
from unalike.scores import Figures, choose, goodness

Layout = dict[str, tuple[torch.dtype, torch.Size]]
"""What a state keeps: types and shapes by name."""


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
        self._several_trips = several_trips
        self._data = load_dataset(spec.dataset) if data is None else data
        self._played: State | None = None
        self._layout: Layout = {}
        self._kept: tuple[State, dict[int, Arrays]] | None = None  # the last state that was played, as arrays
        self.evaluated: tuple[int, Figures] | None = None
        self.use(spec.engine, say)
        dataset = self.federation.dataset
        if dataset.kind != "numbers":
            raise UserError(f"{spec.model} reads numbers, but the rows of {dataset.name} are {dataset.kind}.")
        if not dataset.is_tested:
            say(f"{dataset.name} has no test rows: there is no score on a global test set.")
        self.score = choose(spec.score, dataset.task)
        apart = protocol.splits == "columns"  # then a model is in parts, one at each party
        self.selection = Selection(self.score, whole=apart or bool(self.cast.models(self.state)[1]))

    def use(self, engine: str, say: Callable[[str], None]) -> None:
        """Play on the engine of that name, from before the first round."""
        self.cast: RowCast | ColumnCast
        if self.protocol.splits == "columns":
            self.cast = ColumnCast(self.spec, self.protocol, self._data)
        else:
            self.cast = RowCast(self.spec, self.protocol, engine, self._data, say, self._several_trips)
        self._tried = TriedRows(self.federation.dataset)
        with explained(self.protocol):
            states = {number: self.protocol.start(me) for number, me in self.cast.roles.items()}
        self.state = _state(0, states)

    @property
    def federation(self) -> SplitRows:
        """The data, and which rows are kept for what."""
        return self.cast.rows

    @property
    def roles(self) -> Mapping[int, Me]:
        """The roles that are played, by number."""
        return self.cast.roles

    @property
    def engine_name(self) -> str:
        """The engine that plays it; the bits may depend on it."""
        return self.cast.engine_name

    @property
    def why_this_engine(self) -> str:
        """Why it is this one."""
        return self.cast.why_this_engine

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
        return self.protocol.finished(_arrays(self.state.server)) if self.state.round else None

    def play_round(self) -> tuple[State, Figures]:
        """Play the next round; nothing changes until ``state`` is set to what is returned."""
        with explained(self.protocol):
            return self._play_round()

    def _play_round(self) -> tuple[State, Figures]:
        began, number = time.perf_counter(), self.state.round + 1
        states = arrays_of(self.state) if self._kept is None or self._kept[0] is not self.state else self._kept[1]
        traffic: Traffic = {"up": {}, "down": {}}
        figures: Figures = {}
        for round in [0, 1] if number == 1 else [number]:
            states, spoken = self.cast.play(states, round)
            figures = spoken.figures | dict(self.protocol.figures(states[SERVER], round))
            for way, sizes in (("up", spoken.up), ("down", spoken.down)):
                for name, size in sizes.items():
                    traffic[way][name] = traffic[way].get(name, 0) + size
        after = _state(number, states)
        self._check(after)
        self._played, self._kept = after, (after, states)
        row: Figures = {"round": number, "train_loss": math.nan, **figures}
        last = number == self.spec.rounds or self.protocol.finished(states[SERVER]) is not None
        if last or number % self.spec.evaluate_every == 0:
            self.evaluated = number, self.figures(after, everything=last)
            row |= without_each(self.evaluated[1])
        totals = {f"bytes_{way}": sum(sizes.values()) for way, sizes in traffic.items()}
        row |= {"cohort": self.cast.size, **totals, "traffic": traffic}
        return after, row | {"seconds": time.perf_counter() - began}

    def _check(self, after: State) -> None:
        """Refuse states that changed their layout: what is saved in one round must fit in the next."""
        before = self._layout if self._played is self.state else _layout(self.state)
        self._layout = now = _layout(after)
        if before == now:
            return
        for name in sorted(before.keys() | now.keys()):
            was, came = (found and (found[0], tuple(found[1])) for found in (before.get(name), now.get(name)))
            if was != came:
                raise UserError(
                    f"{self.spec.algorithm} changed what is kept as {name} from {was} to {came} in round "
                    f"{after.round}. Keep names, types and shapes."
                )

    # Models, and how good they are.

    def figures(self, state: State, *, everything: bool = True) -> Figures:
        """The figures on the global test set and on the parties' own rows, with each party's own."""
        scores = chosen_scores(self.score, everything=everything)
        shared, personal = self.cast.models(state)
        look = MarginLook(
            self.federation,
            None if shared is None else self.cast.grown(shared),
            {number: self.cast.grown(arrays) for number, arrays in personal.items()},
            self._tried,
        )
        found = figures_of_round(look, self.federation, scores, test_by=self.spec.test_by)
        if self.protocol.splits == "rows":
            return found
        # People belong to all parties: there are no figures of single ones, but what each could do alone counts.
        held_out = found.pop("parties", {})
        found[f"held_out_{self.score.key}"] = held_out.get("mean")
        return found | self._gain(found) if everything else found

    def _gain(self, found: Figures) -> Figures:
        """What the label holder's own columns are worth, and what the other parties' add to that."""
        together = found[self.score.key]
        model = self.cast.alone() if together is not None else None
        if model is None:
            return {}
        look = MarginLook(self.federation, model, {}, TriedRows(self.federation.dataset))
        alone = look.test([self.score])[self.score.key]
        gain = goodness(self.score.name, together) - goodness(self.score.name, alone)
        return {"alone": alone, "gain": gain}

    def round_models(self, state: State) -> RoundModels:
        """The models that a state gives, as files keep them."""
        shared, own = self.cast.models(state)
        tensors = None if shared is None else _tensors(shared)
        if not own:
            return RoundModels(tensors, None)
        each = [_tensors(own[number]) for number in sorted(own)]
        if (size := sum(value.nbytes for one in each for value in one.values())) > MOST_BYTES:
            return RoundModels(tensors, None, size)
        return RoundModels(tensors, OwnModels.of_all(each, torch.arange(len(each))[:, None]))

    def final_weights(self) -> Vectors:
        """The arrays of the model that all share, or what the server keeps where there is none."""
        shared, _ = self.cast.models(self.state)
        return dict(self.state.server) if shared is None else _tensors(shared)

    def about_model(self) -> dict[str, Any]:
        """How many numbers the model is made of, and its digest: the same however rows are split."""
        shared, own = self.cast.models(self.state)
        one = shared if shared is not None else next(iter(own.values()), None)
        size = 0 if one is None else sum(array.size for array in one.values())
        if shared is None:
            return {"weights": size}
        model = self.cast.grown(shared)
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


def _layout(state: State) -> Layout:
    return {name: (value.dtype, value.shape) for name, value in state.tensors().items()}


def _tensors(arrays: Arrays) -> Vectors:
    """Arrays as tensors, which share their memory where they can."""
    return {name: torch.from_numpy(np.array(array, order="C", copy=None)) for name, array in arrays.items()}


def _arrays(tensors: Vectors) -> Arrays:
    return {name: value.numpy() for name, value in tensors.items()}
