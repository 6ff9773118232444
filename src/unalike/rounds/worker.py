"""What a party has: its rows, its task, and the run's recipe by which it answers an order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from unalike.algorithms.contract import Algorithm, Party, Phase, parts_of
from unalike.data.augment import crop_flip, draw
from unalike.data.dataset import Array
from unalike.errors import UserError
from unalike.models.task import Task
from unalike.randomness import stream
from unalike.rounds.optimisers import LocalOptimiser
from unalike.rounds.order import Order, seen_state
from unalike.rounds.rows import Rows
from unalike.rounds.upload import Wire
from unalike.rounds.work import PADDING, LocalWork

Plan = dict[str, Array]
"""Of every step, all [steps, batch]: row numbers (``index``), places among the rows, how each row is augmented."""

OWN = ("number", "size", "steps", "key", "state", "measured")
"""What belongs to one party: the names that :class:`Party` has for it."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """How every party of a run works. ``keeps_statistics``: each keeps its own running statistics."""

    algorithm: Algorithm
    optimiser: LocalOptimiser
    work: LocalWork
    seed: int = 0
    augment: bool = False
    keeps_statistics: bool = False
    wire: Wire | None = None
    """the private channel, where there is one"""


@dataclass(frozen=True, eq=False)
class SeenRows:
    """The rows that a phase sees: where they are, which of those, and as what ``batch.index`` counts them."""

    rows: Rows
    index: Array
    places: Array


@dataclass(frozen=True, eq=False)
class Worker:
    """One party. ``train`` gives the numbers of its training rows in a round, which may change with time."""

    number: int
    task: Task
    recipe: Recipe
    data: Rows
    train: Callable[[int], Array]
    validation: Callable[[], Array]
    public: Rows | None = None

    def size(self, order: Order) -> int:
        """How many training rows it has in this round."""
        return len(self.train(max(1, order.round)))

    def rows_of(self, phase: Phase, order: Order) -> SeenRows:
        """Where the rows of a phase are, and which they are."""
        found = self._rows_of(phase, order)
        if not phase.copies:
            return found
        label = found.rows.y.cpu().numpy()[found.index]
        times = np.clip(order.payload[phase.copies].double().cpu().numpy()[label], 1, phase.most)
        chance = stream(self.recipe.seed, "copies", order.round, self.number).random(len(times))
        often = np.floor(times).astype(np.int64) + (chance < times % 1)
        return SeenRows(found.rows, found.index.repeat(often), found.places.repeat(often))

    def _rows_of(self, phase: Phase, order: Order) -> SeenRows:
        own = self.train(max(1, order.round))
        if phase.rows == "own":
            places = np.arange(len(own)) if phase.part is None else self.dealt(phase.part, len(own))
            return SeenRows(self.data, own[places], places)
        given = self.given(phase.share)
        if phase.drawn < 1:
            given = np.intersect1d(given, self.task.public_part(max(1, order.round), phase.drawn).cpu().numpy())
        if phase.rows == "public":
            return SeenRows(self._public(), given, given)
        both = np.concatenate([own, len(self.data) + given])
        places = np.concatenate([np.arange(len(own)), len(own) + given])
        return SeenRows(self.data.joined(self._public()), both, places)

    def given(self, share: float) -> Array:
        """Which public rows this party has been given, where that is a fraction of them; always the same."""
        count = len(self._public())
        if share == 1:
            return np.arange(count)
        chosen = stream(self.recipe.seed, "shared rows", self.number).permutation(count)[: round(share * count)]
        return np.sort(chosen)

    def dealt(self, part: tuple[int, int, int], rows: int) -> Array:
        """The places of a part of this party's rows: the i-th of n, of the d-th deal; always the same."""
        which, parts, deal = part
        order = stream(self.recipe.seed, "parts of rows", self.number, deal).permutation(rows)
        return np.sort(order[which::parts]) if which < rows else order[which % rows :][:1]

    def measured_rows(self, order: Order) -> tuple[Rows, Array]:
        """The rows that a measuring pass goes over."""
        if order.rows == "public":
            return self._public(), np.arange(len(self._public()))
        own = self.train(max(1, order.round)) if order.rows == "train" else self.validation()
        if not len(own):
            raise UserError(
                f"Party {self.number} has no {order.rows} rows to measure. "
                "Use --validation 0.1 or more, and parties with more rows."
            )
        return self.data, own

    def work(self, phase: Phase) -> LocalWork:
        """The local work of a phase: its own, else the run's."""
        usual = self.recipe.work
        if phase.epochs is None and phase.steps is None:
            return usual
        return LocalWork(usual.batch_size, phase.epochs, phase.steps, usual.drop_last)

    def steps(self, phase: Phase, order: Order) -> int:
        """How many local steps a phase has."""
        # Of its own rows the number is enough: a site may claim very many, and no list of them is made.
        plain = phase.rows == "own" and not phase.copies
        return self.work(phase).count(self.size(order) if plain else len(self.rows_of(phase, order).index))

    def steps_in_all(self, order: Order) -> tuple[int, ...]:
        """The local steps of each phase."""
        return tuple(self.steps(phase, order) for phase in order.phases) if order.trains else (0,)

    def own(self, order: Order) -> dict[str, Any]:
        """What belongs to one party, its numbers as the 0-d tensors that the contract promises."""
        task, recipe = self.task, self.recipe
        key = int(stream(recipe.seed, "noise", order.round, self.number, order.turn).integers(-(2**63), 2**63))
        steps = self.steps(order.phases[0], order) if order.trains else 0
        return {
            "number": torch.tensor(self.number, device=task.device),
            "size": torch.tensor(self.size(order), dtype=task.dtype, device=task.device),
            "steps": torch.tensor(steps, dtype=task.dtype, device=task.device),
            "key": torch.tensor(key, device=task.device),
            "state": seen_state(order.state),
            "measured": {},
        }

    def party(self, order: Order, own: Mapping[str, Any], phase: str) -> Party:
        """The party as its algorithm sees it; ``own`` is what :meth:`own` gives, and may be a share of a stack."""
        return Party(
            task=self.task,
            received=own["received"] if "received" in own else dict(order.payload),
            lr=order.lr,
            optimiser=self.recipe.optimiser,
            round=order.round,
            phase=phase,
            trained=own.get("trained"),
            **{key: own[key] for key in OWN},
        )

    def plan(self, order: Order, which: int) -> Plan:
        """Which rows each step of a phase sees, and how they are augmented."""
        phase, seed = order.phases[which], self.recipe.seed
        found = self.rows_of(phase, order)
        place = order.place(which)
        drawn = self.work(phase).plan(len(found.index), stream(seed, "batches", *place))
        positions = _taken(found.places, drawn)
        plan = {"index": _taken(found.index, drawn), "position": positions}
        if not self.recipe.augment or phase.rows == "public":
            return plan
        top, left, flip = draw(stream(seed, "augment", *place), positions.shape)
        return plan | {"top": top, "left": left, "flip": flip}

    def moving(self, phase: Phase, size: int) -> Tensor | None:
        """For each of ``size`` weights whether the phase moves it; None where it moves them all."""
        if not phase.trains:
            return None
        mask = torch.zeros(size, dtype=torch.bool, device=self.task.device)
        mask[self.task.positions(*parts_of(phase.trains))] = True
        return mask

    def _public(self) -> Rows:
        if self.public is None:
            raise UserError("This algorithm trains or measures on public rows. Give some with --public.")
        return self.public


def _taken(values: Array, drawn: Array) -> Array:
    """What is at these places, and ``PADDING`` where a short batch is filled up."""
    taken = values[drawn]
    taken[drawn == PADDING] = PADDING
    return taken


def step_rows(rows: Rows, step: Plan) -> tuple[Tensor, Tensor]:
    """The rows and labels of one step of a plan (or of a stack of plans), augmented as it says."""
    device = rows.y.device
    used = {key: value for key, value in step.items() if key != "position"}
    on_device = {key: torch.from_numpy(np.ascontiguousarray(v)).to(device) for key, v in used.items()}
    x, y = rows.take(on_device["index"])
    if "top" in on_device:
        x = crop_flip(x, on_device["top"], on_device["left"], on_device["flip"])
    return x, y


class Workers(Protocol):
    """All parties of a federation that are at hand."""

    def worker(self, number: int) -> Worker:
        """The party of that number."""
        ...
