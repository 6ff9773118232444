"""Many personal models judged at once are judged as one by one."""

import numpy as np
import pytest
import torch

from tests.helpers import NormBody, TanhBody, regression_data
from unalike.rounds import local, together
from unalike.rounds.evaluation import evaluate
from unalike.rounds.judging import joined, judge
from unalike.rounds.together import judge_each
from unalike.runs.simulation import Simulation
from unalike.runs.small import play, small_simulation
from unalike.runs.spec import RunSpec
from unalike.scores import SCORES

assert all((NormBody, TanhBody))  # nets that are registered
ROWS = [np.arange(7), np.arange(0), np.arange(3, 40), np.arange(5), np.array([9]), np.arange(10, 17)]
"""Unequal parties, one without rows, one with a single row, two of the same size."""


def one_by_one(simulation, rows, scores):
    """What a loop over the parties gives."""
    models, data = simulation.models(simulation.state), simulation.federation.train
    return joined(
        [
            judge(simulation.federation.task_of(k), *models.personal(k), data, torch.from_numpy(own), scores)
            for k, own in enumerate(rows)
        ]
    )


def at_once(simulation, rows, scores, threads=1):
    models = simulation.models(simulation.state)
    return judge_each(
        simulation.federation.task_of, models.personal, simulation.federation.train, rows, scores, threads
    )


@pytest.mark.parametrize("stack_rows", [4096, 20])
@pytest.mark.parametrize("score", ["accuracy", "auroc"])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"model": "logistic"},
        {"engine": "compiled"},
        {"model": "test-tanh"},
        {"model": "test-norm-body", "batch_size": 64},
        {"model": "mlp(6,4)|logistic"},
    ],
    ids=lambda fields: "-".join(map(str, fields.values())) or "mlp",
)
def test_as_one_by_one(fields, score, stack_rows, monkeypatch):
    monkeypatch.setattr(together, "STACK_ROWS", stack_rows)
    simulation = play(small_simulation("local", sample=1.0, **{"engine": "sequential", **fields}), 1)
    wanted, found = (way(simulation, ROWS, [SCORES[score]]) for way in (one_by_one, at_once))
    assert torch.equal(found.true, wanted.true)
    assert torch.allclose(found.table, wanted.table, atol=1e-5)
    assert found.table.dtype == wanted.table.dtype
    again = at_once(simulation, ROWS, [SCORES[score]], threads=3)
    assert torch.equal(found.table, again.table)


def test_a_party_with_more_rows_than_a_pass_goes_in_parts(monkeypatch):
    simulation = play(small_simulation("local", sample=1.0, engine="sequential"), 1)
    wanted = one_by_one(simulation, ROWS, [])
    monkeypatch.setattr(local, "MEASURE_ROWS", 8)
    monkeypatch.setattr(together, "STACK_ROWS", 8)
    assert torch.allclose(at_once(simulation, ROWS, []).table, wanted.table, atol=1e-6)


def test_nobody_has_rows():
    simulation = small_simulation("local")
    assert not len(at_once(simulation, [np.arange(0)] * 6, [SCORES["auroc"]]))


def test_errors_are_in_units_of_the_table():
    spec = RunSpec.from_mapping({"partition": "natural", "model": "mlp(4)", "algorithm": "local", "rounds": 1})
    simulation = play(Simulation(spec, data=regression_data(), say=lambda line: None), 1)
    rows = [party.train for party in simulation.federation.parties]
    wanted, found = (way(simulation, rows, [SCORES["rmse"]]) for way in (one_by_one, at_once))
    assert torch.allclose(found.table, wanted.table, rtol=1e-5, atol=1e-4)
    assert torch.equal(found.true, wanted.true)


@pytest.mark.parametrize("fields", [{}, {"model": "test-norm-body", "batch_norm": "drop", "batch_size": 64}])
def test_validation_and_held_out_rows_are_told_apart(fields):
    """Both are judged in one go, unless the rows of a set are normalised by each other."""
    sets = {"held_out": 0.3, "validation": 0.2, "newcomers": 0.34}
    simulation = play(
        small_simulation("local", sample=1.0, engine="sequential", **sets, **fields), 0 if fields else 1
    )
    assert simulation.task.rows_are_apart is not bool(fields)
    federation, score = simulation.federation, SCORES["accuracy"]
    figures = evaluate(federation, simulation.models(simulation.state))
    held_out = [party.held_out for party in federation.parties]
    away = set(federation.population.newcomers)
    validation = [np.arange(0) if k in away else own.validation for k, own in enumerate(federation.parties)]
    assert figures["validation_loss"] == pytest.approx(
        one_by_one(simulation, validation, []).figures([score])["loss"]
    )
    judged = one_by_one(simulation, held_out, [])
    least = 1 if simulation.task.rows_are_apart else 2
    sizes = np.array([len(own) if len(own) >= least else 0 for own in held_out])
    for k, value in enumerate(judged.each(score, sizes)):
        assert figures["newcomers" if k in away else "personal"]["each"][k] == value


def test_models_are_made_once_for_all_looks():
    simulation = play(small_simulation("local"), 1)
    models = simulation.models(simulation.state)
    assert models.personal(2)[0] is models.personal(2)[0]
