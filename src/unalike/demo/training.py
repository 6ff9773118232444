"""Train once and keep what the demonstration needs: which test rows the parties' models get right, by round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from unalike.data.dataset import Array
from unalike.rounds.judging import judge
from unalike.runs.playable import Playable
from unalike.runs.run import Watcher, run
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec
from unalike.scores import Figures

Tick = Callable[[str, int], None]
"""Called after each round with what is being trained and how much work the round was."""
Owned = Callable[[Simulation], Sequence[Array]]
"""By party, the test rows that are its own."""


def round_work(parties: int) -> int:
    """About how long a round takes, in arbitrary units, so that the time left can be told."""
    return 2 + parties


@dataclass(frozen=True, eq=False)
class Trained:
    """One finished run.

    right: after each round, is test row i got right by the party that it belongs to, with the model that this
    party has then? Where rows belong to several parties, all of these are asked, and a row that more of them have
    counts for more, so that the mean over rows is the share of right answers. [rounds, test rows]
    answers: after the last round, whether each party's model gets each test row right; one line of one model.
    owned: by party, its own test rows.
    """

    right: Array
    answers: Array
    owned: Sequence[Array]

    @property
    def worst_tenth(self) -> float:
        """The mean over the worst tenth of the parties (at least one), each on its own test rows."""
        models = np.broadcast_to(self.answers, (len(self.owned), self.answers.shape[1]))
        each = sorted(float(own[rows].mean()) for own, rows in zip(models, self.owned, strict=True))
        return float(np.mean(each[: -(-len(each) // 10)]))


class _Keep(Watcher):
    """Asks the models about every test row after each round."""

    def __init__(self, spec: RunSpec, what: str, tick: Tick, *, curve: bool) -> None:
        self._rounds, self._what, self._tick, self._curve = spec.rounds, what, tick, curve
        self.simulation: Simulation | None = None
        self.answers: list[Array] = []

    def started(self, simulation: Playable) -> None:
        assert isinstance(simulation, Simulation)  # the demo trains nets
        self.simulation = simulation

    def round_done(self, row: Figures) -> None:
        assert self.simulation is not None
        if self._curve or row["round"] == self._rounds:
            self.answers.append(_answers(self.simulation))
        self._tick(self._what, round_work(self.simulation.federation.size))


def train(spec: RunSpec, what: str, tick: Tick, owned: Owned, *, curve: bool = True) -> Trained:
    """Run ``spec`` in memory; without a ``curve`` the models are asked after the last round alone."""
    keep = _Keep(spec, what, tick, curve=curve)
    run(spec, watcher=keep)
    assert keep.simulation is not None, "a run that ended has started"
    rows = owned(keep.simulation)
    return Trained(np.stack([_right(table, rows) for table in keep.answers]), keep.answers[-1], rows)


def _answers(simulation: Simulation) -> Array:
    """Does each party's model get each test row right? One line where all use the same model."""
    models = simulation.models(simulation.state)
    test, task = simulation.federation.test, simulation.task
    index = torch.arange(len(test), device=task.device)
    used = [(models.global_model, models.buffers)]
    if models.personal is not None:
        used = [models.personal(number) for number in range(simulation.federation.size)]
    found = [judge(task, w, buffers, test, index).table[:, 1] for w, buffers in used if w is not None]
    right: Array = torch.stack(found).cpu().numpy().astype(np.float64)
    return right


def _right(answers: Array, owned: Sequence[Array]) -> Array:
    mine = np.zeros((len(owned), answers.shape[1]))
    for number, rows in enumerate(owned):
        mine[number, rows] = 1
    right: Array = (answers * mine).sum(axis=0) * mine.shape[1] / mine.sum()
    return right


def curve_of(run: Trained) -> list[Figures]:
    """The share of right answers after each round."""
    return [{"round": number, "accuracy": float(row.mean())} for number, row in enumerate(run.right, start=1)]
