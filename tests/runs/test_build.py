"""Data that a user hands over: trained on, or refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import unalike
from unalike.errors import UserError

X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


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
