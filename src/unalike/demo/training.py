"""Train once and keep what the demonstration needs: the rows of figures, and each test row right or wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from unalike.data.dataset import Array, Dataset
from unalike.rounds.evaluation import Figures
from unalike.rounds.judging import judge
from unalike.runs.run import Watcher, run
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

Tick = Callable[[str, int], None]
"""Called after each round with what is being trained and how much work the round was."""


def round_work(parties: int) -> int:
    """About how long a round takes, in arbitrary units, so that the time left can be told."""
    return 2 + parties


@dataclass(frozen=True, eq=False)
class Trained:
    """One finished run; ``right[i]`` says whether the final model gets test row i right."""

    figures: Figures
    rows: list[Figures]
    right: Array


class _Keep(Watcher):
    """Holds on to the simulation, whose final model is then asked about every test row."""

    def __init__(self, what: str, tick: Tick) -> None:
        self._what, self._tick = what, tick
        self.simulation: Simulation | None = None

    def started(self, simulation: Simulation) -> None:
        self.simulation = simulation

    def round_done(self, row: Figures) -> None:
        assert self.simulation is not None
        self._tick(self._what, round_work(self.simulation.federation.size))


def train(spec: RunSpec, what: str, tick: Tick, data: Dataset | None = None) -> Trained:
    """Run ``spec`` in memory, on ``data`` instead of the registered data set if given."""
    keep = _Keep(what, tick)
    result = run(spec, data=data, watcher=keep)
    return Trained(result.figures, result.rows, _right(keep.simulation))


def _right(simulation: Simulation | None) -> Array:
    assert simulation is not None, "a run that ended has started"
    models = simulation.models(simulation.state)
    assert models.global_model is not None, "the demonstration trains algorithms with one global model"
    test = simulation.federation.test
    index = torch.arange(len(test), device=models.global_model.device)
    judged = judge(simulation.task, models.global_model, models.buffers, test, index)
    right: Array = judged.table[:, 1].cpu().numpy().astype(np.int64)
    return right


def curve_of(rows: list[Figures]) -> list[Figures]:
    """The accuracy in each evaluated round: without times, so that the same run gives the same rows."""
    return [{key: row[key] for key in ("round", "accuracy")} for row in rows if "accuracy" in row]
