"""Which of several models each party of a run deploys, and how many deploy that of their own planted group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unalike.errors import UserError
from unalike.runs.checkpoint import load_latest
from unalike.runs.record import read_spec
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec
from unalike.runs.state_log import StateLog
from unalike.toml import read_toml


def clusters_of(simulation: Simulation) -> list[int]:
    """By party, the number of the server's model that it deploys, newcomers included."""
    models, personal = simulation.state.server["w"], simulation.models(simulation.state).personal
    if personal is None or models.dim() != 2 or personal(0)[0].dim() != 1:
        raise UserError(f"The parties of {simulation.spec.algorithm} do not choose between models. Try ifca.")
    return [
        int((models - personal(number)[0]).abs().amax(dim=1).argmin())
        for number in range(simulation.federation.size)
    ]


def clusters_in(folder: Path) -> list[int]:
    """The same of a run's folder, from the last round that it holds."""
    text, saved = read_spec(folder), load_latest(folder, print)
    if text is None or saved is None:
        raise UserError(f"{folder} holds no run with a checkpoint. Name the folder of a run.")
    simulation = Simulation(RunSpec(**RunSpec.complete(read_toml(text, folder))), say=lambda line: None)
    simulation.state = StateLog(folder).state_of(saved, simulation.placed)
    return clusters_of(simulation)


def right(clusters: Sequence[int], groups: Sequence[int]) -> float:
    """The share of parties that are in the cluster of their group, where every group has one cluster at most.

    Clusters have no names: of all ways to give them to groups, the one that suits most parties counts.
    """
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((max(clusters) + 1, max(groups) + 1), np.int64)
    np.add.at(table, (np.asarray(clusters), np.asarray(groups)), 1)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / len(clusters))
