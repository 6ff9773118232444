"""The figures of a finished run."""

from __future__ import annotations

from dataclasses import asdict

import torch

import unalike
from unalike.data import Dataset
from unalike.measure.situation import simulated_situation
from unalike.rounds.ledger import total_traffic
from unalike.runs.column_cast import ColumnCast
from unalike.runs.conversing import Conversing
from unalike.runs.playable import Playable
from unalike.runs.saving import cpu_kind
from unalike.runs.selection import selected
from unalike.runs.simulation import Simulation
from unalike.runs.training import Training
from unalike.scores import Figures

COUNTED = ("bytes_up", "bytes_down", "seconds")
"""What every recorded round has, and the outcome adds up."""


def outcome(played: Playable, rows: list[Figures]) -> Figures:
    """The figures of a finished run."""
    last, data = rows[-1], played.federation.dataset
    round, final = played.evaluated or (None, {})
    if round != played.state.round:  # the run was stopped between its last round and its end
        final = played.figures(played.state)
    return {
        "key": played.spec.key,
        "train_loss": last["train_loss"],
        "rounds": last["round"],
        **_early(played),
        **final,
        **_target(data),
        "selected": selected(rows, played.score),
        **{key: sum(row[key] for row in rows) for key in COUNTED},
        "traffic": total_traffic(rows),
        **played.privacy(last),
        **(played.cohorts.told(rows) if isinstance(played, Training) else {}),
        **_parties(played),
        "weights_sha256": played.state.digest(),
        "server_sha256": played.state.server_digest(),
        **played.about_model(),
        **(played.elsewhere.told() if isinstance(played, Simulation) and played.elsewhere else {}),
        "engine": played.engine_name,
        "why_this_engine": played.why_this_engine,
        "version": unalike.__version__,
        "data_sha256": data.rows_digest,
        "test_rows": len(data.y_test),
        "torch": torch.__version__,
        "cpu": cpu_kind(),
    }


def _parties(played: Playable) -> Figures:
    """How unalike the parties' rows are; where they hold columns of the same people, who has how many."""
    if isinstance(played, Conversing) and isinstance(played.cast, ColumnCast):
        return {"columns": played.cast.told()}
    return {"degrees": asdict(simulated_situation(played.federation.dataset, played.federation.partition))}


def _early(played: Playable) -> Figures:
    """Where and why a training ended before its last round, if it did."""
    if played.state.round >= played.spec.rounds:
        return {}
    return {"stopped": {"round": played.state.round, "why": played.stopped}}


def _target(data: Dataset) -> Figures:
    """How to read a net that predicts numbers: its output times scale, plus shift."""
    shift, scale = map(float, data.target)
    return {"target": {"shift": shift, "scale": scale}} if data.task == "regression" else {}
