"""Data that a user hands over: trained on, or refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import unalike
from unalike.errors import UserError
from unalike.runs.checkpoint import Checkpoint
from unalike.runs.run import Watcher
from unalike.runs.saving import _foreign, _origin
from unalike.runs.simulation import Simulation

X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


class Said(Watcher):
    """Keeps what is said."""

    def __init__(self, said: list[str]) -> None:
        self.say = said.append  # type: ignore[method-assign]


def run(data: Any) -> unalike.Result:
    return unalike.run(data=data, partition="iid", parties=2, rounds=1)


def test_tensors_are_trained_on_as_arrays_are() -> None:
    def made(make: Any) -> unalike.Dataset:
        return unalike.Dataset("mine", make(X), make(Y), make(X[:20]), make(Y[:20]), ("no", "yes"))

    arrays, tensors = run(made(np.array)), run(made(torch.tensor))
    assert arrays.figures["weights_sha256"] == tensors.figures["weights_sha256"]
    assert arrays.figures["data_sha256"] == tensors.figures["data_sha256"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ((X, Y), "The data must be an unalike.Dataset, got a tuple of ndarray, ndarray"),
        (X, "The data must be an unalike.Dataset, got a ndarray"),
        ("digits", "The data must be an unalike.Dataset, got a str"),
        (
            unalike.Dataset("mine", X, 0 * Y, X, Y, ("no", "yes")),
            "All 60 training rows of mine have the label",
        ),
    ],
    ids=["tuple", "array", "name", "one class"],
)
def test_what_cannot_be_trained_on_is_one_line(data: Any, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        run(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [{}, {"algorithm": "fedper"}, {"test_by": "labels"}, {"newcomers": 0.5},
     {"algorithm": "local"}, {"algorithm": "ditto", "held_out": 0.0, "validation": 0.0}],
    ids=["global", "personal", "by labels", "newcomers", "alone", "nothing held out"],
)  # fmt: skip
def test_without_test_rows_a_run_has_all_but_test_scores(fields: Any, tmp_path: Any) -> None:
    data = unalike.Dataset("mine", X, Y, None, None, ("no", "yes"))
    said: list[str] = []
    result = unalike.run(data=data, parties=2, rounds=2, runs=tmp_path, watcher=Said(said), **fields)
    assert said == ["mine has no test rows: there is no score on a global test set."]
    assert (result.accuracy, result.score, result.figures["loss"]) == (None, None, None)
    assert result.figures["train_loss"] > 0
    held_out = fields.get("held_out", 0.1) > 0
    assert (result.figures["selected"] is not None) == held_out
    kind = "personal" if "personal" in result.figures else "parties"
    assert (result.figures[kind]["count"] > 0) == held_out
    again = unalike.run(data=data, parties=2, rounds=2, runs=tmp_path, **fields)
    assert again.to_dict() == result.to_dict()


def test_a_data_set_has_a_run_folder_by_its_content(tmp_path: Any) -> None:
    def key(**change: Any) -> str:
        fields = {"x": X, "y": Y, "parties": Y} | change
        data = unalike.dataset(fields.pop("x"), fields.pop("y"), **fields)
        result = unalike.run(dataset=data, partition="natural", rounds=1, runs=tmp_path)
        assert result.run_dir is not None
        assert unalike.run(data=data, partition="natural", rounds=1, runs=tmp_path).figures == result.figures
        return result.spec.key

    other = X.copy()
    other[7, 2] += 1e-6
    keys = [key(), key(x=other), key(parties=1 - Y), key(classes=("no", "yes")), key(test=0.3), key()]
    assert len(set(keys)) == 5
    assert keys[0] == keys[-1]


def test_rows_of_another_program_are_named_with_what_to_do() -> None:
    spec = unalike.run(dataset=unalike.dataset(X, Y), rounds=1).spec
    with pytest.raises(
        UserError, match=r"given.*Make them again by unalike\.dataset\(\.\.\.\).*data\.save\(FOLDER\)"
    ):
        unalike.run(spec)


@pytest.mark.parametrize("data", ["digits", unalike.dataset(X, Y)])
def test_data_cannot_be_given_twice(data: Any) -> None:
    with pytest.raises(UserError, match=r"run was given data and the data set .*Leave one of the two out"):
        unalike.run(data=unalike.dataset(X, Y), dataset=data)


def test_a_checkpoint_of_a_narrower_hash_is_not_gone_on_from() -> None:
    """Checkpoints once had a hash of rows and labels alone: that is said, and not that the data have changed."""
    data = unalike.dataset(X, Y)
    simulation = Simulation(unalike.RunSpec(rounds=1, parties=2), data=data, say=lambda text: None)
    state = simulation.state
    meta = {**_origin(simulation), "engine": "sequential", "digest": state.digest()}
    assert _foreign(Checkpoint(0, state.tensors(), meta), simulation) is None
    old = Checkpoint(0, state.tensors(), meta | {"data_sha256": data.rows_digest})
    assert "only rows and labels were compared" in str(_foreign(old, simulation))
    other = Checkpoint(0, state.tensors(), meta | {"data_sha256": "0" * 64})
    assert _foreign(other, simulation) == "the data have changed since"
