"""The run's chosen score: in the record, in the selection of a round, in the parties' summary."""

import numpy as np
import pytest
import torch
from sklearn import metrics

from unalike.errors import UserError
from unalike.rounds.evaluation import evaluate
from unalike.rounds.judging import judge
from unalike.runs.run import run
from unalike.runs.simulation import Simulation
from unalike.runs.small import small_dataset
from unalike.runs.spec import RunSpec
from unalike.scores import scores_of, value_of

FIELDS = {"partition": "natural", "model": "mlp(6)", "rounds": 4, "seed": 2, "held_out": 0.3}
ALL = {score.key for score in scores_of("classification")}


def test_the_result_has_all_scores_and_rounds_the_cheap_ones():
    result = run(data=small_dataset(), **FIELDS)
    assert result.figures.keys() >= ALL
    assert result.figures["score"] == "accuracy"
    first, *_, last = result.rows
    assert {"score", "accuracy", "loss", "validation_accuracy", "validation_loss"} <= first.keys()
    assert not first.keys() & (ALL - {"accuracy"})
    assert last.keys() >= ALL
    assert result.score == result.accuracy == value_of(result.figures)


def test_scores_of_a_run_are_scikit_learns():
    data = small_dataset()
    simulation = Simulation(RunSpec.from_mapping(FIELDS), data=data)
    for _ in range(4):
        simulation.state, row = simulation.play_round()
    layers = {
        name: v.numpy() for name, v in simulation.task.parameters.unflatten(simulation.state.server["w"]).items()
    }
    hidden = np.maximum(data.x_test @ layers["body.0.weight"].T + layers["body.0.bias"], 0)
    logits = (hidden @ layers["head.weight"].T + layers["head.bias"]).astype(np.float64)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    guesses = probabilities.argmax(axis=1)
    assert row["auroc"] == pytest.approx(metrics.roc_auc_score(data.y_test, probabilities, multi_class="ovr"))
    assert row["macro_f1"] == pytest.approx(metrics.f1_score(data.y_test, guesses, average="macro"))
    assert row["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(data.y_test, guesses))


@pytest.mark.parametrize("score", ["auroc", "brier", "macro-f1"])
def test_the_chosen_score_selects_the_round_and_compares_parties(score):
    plain, chosen = (run(data=small_dataset(), **FIELDS, score=name) for name in (None, score))
    key = score.replace("-", "_")
    assert chosen.figures["weights_sha256"] == plain.figures["weights_sha256"]
    values = [row[f"validation_{key}"] for row in chosen.rows]
    best = min(values) if score == "brier" else max(values)
    assert chosen.figures["selected"][f"validation_{key}"] == best
    assert chosen.figures["selected"]["round"] == 1 + values.index(best)
    parties = chosen.figures["parties"]
    each = [value for value in parties["each"] if value is not None]
    assert parties["worst"] == (max(each) if score == "brier" else min(each))
    assert parties["each"] != plain.figures["parties"]["each"]
    assert all(key in row and "accuracy" in row for row in chosen.rows)


def test_a_party_with_one_class_has_no_auroc():
    data = small_dataset()
    data.y[data.group == 0] = 1
    result = run(data=data, **FIELDS, score="auroc")
    assert result.figures["parties"]["each"][0] is None
    assert result.figures["parties"]["count"] == len(result.figures["parties"]["each"]) - 1


def test_party_by_party_is_the_same_as_each_alone():
    """The one pass over all parties' rows gives what a pass for each gives."""
    simulation = Simulation(RunSpec.from_mapping(FIELDS | {"score": "brier"}), data=small_dataset())
    figures = evaluate(simulation.federation, simulation.models(simulation.state), 1, [simulation.score])
    w, buffers = simulation.state.server["w"], simulation.state.buffers
    for party, value in zip(simulation.federation.parties, figures["parties"]["each"], strict=True):
        index = torch.from_numpy(party.held_out)
        judged = judge(simulation.task, w, buffers, simulation.federation.train, index, [simulation.score])
        assert judged.figures([simulation.score])["brier"] == pytest.approx(value)


def test_a_wrong_score_is_one_line():
    with pytest.raises(UserError, match=r"Unknown score 'aurocs'\. Did you mean 'auroc'\?"):
        RunSpec(score="aurocs")
    with pytest.raises(UserError, match=r"r2 is a score of regression, but the task is classification\."):
        run(data=small_dataset(), **FIELDS, score="r2")


def test_a_score_is_another_run_and_none_is_the_run_of_before():
    assert RunSpec(score="auroc").key != RunSpec().key
    assert RunSpec(score=None, loss=None).key == RunSpec().key
    told = {name: value for name, value in RunSpec().to_dict().items() if name not in ("score", "loss")}
    assert RunSpec.from_mapping(told).key == RunSpec().key
