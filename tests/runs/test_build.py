"""Data that a user hands over: trained on, or refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import unalike
from unalike.errors import UserError
from unalike.runs.run import Watcher

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
        ((X, Y), "data must be an unalike.Dataset, got a tuple of ndarray, ndarray"),
        (X, "data must be an unalike.Dataset, got a ndarray"),
        ("digits", "data must be an unalike.Dataset, got a str"),
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
