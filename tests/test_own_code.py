"""Mistakes in parts of the user's own and in calls of ``run`` are one line each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from unalike import DATASETS, PARTITIONS, Algorithm, Dataset, Partition, algorithm, run
from unalike.algorithms import ALGORITHMS, FedAvg
from unalike.algorithms.checked import checked
from unalike.channels import CHANNELS, parse_channel
from unalike.channels.stage import Bound, Coder, Hidden, Noise, Sparse
from unalike.data import load_dataset
from unalike.errors import UserError
from unalike.partition import as_seen, make_partition
from unalike.registry import Registry
from unalike.rounds.optimisers import OPTIMISERS, build_optimiser
from unalike.runs.small import small_dataset

Method = Callable[..., Any]


@pytest.fixture(autouse=True)
def for_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in (ALGORITHMS, CHANNELS, DATASETS, OPTIMISERS, PARTITIONS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))  # type: ignore[attr-defined]


def register(registry: Registry[Any], *bases: type, **names: Any) -> None:
    """Register a part of somebody's own under the name ``test-broken``."""
    registry.register("test-broken")(type("Mine", bases, {"__module__": __name__, "__doc__": "Mine.", **names}))


def line(call: Callable[[], object]) -> str:
    with pytest.raises(UserError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def fails(*arguments: Any) -> Any:
    return {}["absent"]


LOADERS = {
    "an argument too many": (
        lambda self, folder: None,
        r"takes \(folder\), but is called with \(\): .*Write def load\(self",
    ),
    "no method": (3, r"Mine.load must be a method"),
    "an error": (lambda self: fails(), r"Mine.load failed \(test_own_code.py, line \d+\): KeyError: 'absent'"),
    "nothing": (
        lambda self: None,
        r"Mine.load \(test_own_code.py, line \d+\) must return a Dataset, got NoneType\.",
    ),
    "arrays": (lambda self: (1, 2), r"must return a Dataset, got tuple\."),
}


@pytest.mark.parametrize(("load", "message"), LOADERS.values(), ids=LOADERS)
def test_a_wrong_data_set(load: Any, message: str) -> None:
    register(DATASETS, load=load)
    assert re.search(message, line(lambda: load_dataset("test-broken")))


def whole(*shares: Any, names: tuple[str, ...] = ("one", "two")) -> Partition:
    return Partition("mine", tuple(shares), names)


def test_an_error_in_this_package_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unalike.data.digits.Digits.load", lambda self: fails())
    with pytest.raises(KeyError):
        load_dataset("digits")


SPLITS = {
    "other arguments": (
        lambda self, dataset: None,
        r"takes \(dataset\), but is called with \(dataset, parties, rng\)",
    ),
    "an error": (
        lambda self, dataset, parties, rng: fails(),
        r"Mine.split failed \(test_own_code.py, line \d+\): KeyError",
    ),
    "a list": (lambda self, dataset, parties, rng: [[1], [2]], r"Mine.split .* must return a Partition, got list"),
    "no parties": (lambda self, dataset, parties, rng: whole(), "has 0 parties and 2 names"),
    "a name too few": (
        lambda self, dataset, parties, rng: whole(np.arange(3), np.arange(3), names=("one",)),
        "has 2 parties and 1 names. Give each party one",
    ),
    "rows that are no numbers": (
        lambda self, dataset, parties, rng: whole(np.arange(3), np.array([0.5, 1.0])),
        "must give the rows of 'two' as a vector of their numbers",
    ),
    "rows in a table": (
        lambda self, dataset, parties, rng: whole(np.zeros((2, 2), int), np.arange(3)),
        "must give the rows of 'one' as a vector",
    ),
}


@pytest.mark.parametrize(("split", "message"), SPLITS.values(), ids=SPLITS)
def test_a_wrong_partition(split: Method, message: str) -> None:
    register(PARTITIONS, split=split)
    assert re.search(message, line(lambda: make_partition("test-broken", small_dataset(), 2, 0)))


def test_a_partition_that_neither_splits_nor_distorts() -> None:
    register(PARTITIONS)
    found = line(lambda: make_partition("test-broken", small_dataset(), 2, 0))
    assert found == "Mine.distort must be a method. Write def distort(self, dataset, partition, rng)."


class Distorted:
    """A distortion that a test gives its ``apply``."""

    changes_features = True

    def __init__(self, apply: Method) -> None:
        self._apply = apply

    def apply(self, party: int, x: Any, y: Any) -> Any:
        return self._apply(x, y)


DISTORTIONS = {
    "other arguments": (
        lambda self, dataset: None,
        r"takes \(dataset\), but is called with \(dataset, partition, rng\)",
    ),
    "no distortion": (
        lambda self, dataset, partition, rng: 3,
        r"Mine.distort .* must return a Distortion, got int",
    ),
    "an error": (
        lambda self, *_: Distorted(fails),
        r"Distorted.apply failed \(test_own_code.py, line \d+\): KeyError",
    ),
    "one value": (
        lambda self, *_: Distorted(lambda x, y: x),
        r"Distorted.apply .* must return a tuple, got ndarray",
    ),
    "three values": (
        lambda self, *_: Distorted(lambda x, y: (x, y, y)),
        "must return features and labels, got 3 values",
    ),
    "a number": (lambda self, *_: Distorted(lambda x, y: (x, 1)), r"returned 1 rows for \d+"),
}


@pytest.mark.parametrize(("distort", "message"), DISTORTIONS.values(), ids=DISTORTIONS)
def test_a_wrong_distortion(distort: Method, message: str) -> None:
    register(PARTITIONS, distort=distort)
    data = small_dataset()
    assert re.search(message, line(lambda: as_seen(data, make_partition("test-broken", data, 2, 0))))


def good_step(self: Any, w: Any, grad: Any, slots: Any, lr: float, step: int) -> None:
    w.sub_(grad, alpha=lr)


GOOD = {"weight_decay": 0.0, "init": lambda self, w: {}, "step": good_step, "step_sum": lambda self, steps: steps}
OPTIMISER_MISTAKES = {
    "no weight decay": (
        {"weight_decay": None},
        "Mine needs weight_decay, a number. Write weight_decay: float = 0.0",
    ),
    "no init": ({"init": None}, r"Mine.init must be a method. Write def init\(self, w\)"),
    "an error": ({"init": lambda self, w: fails()}, r"Mine.init failed \(test_own_code.py, line \d+\): KeyError"),
    "no slots": ({"init": lambda self, w: None}, "must return a dict, got NoneType"),
    "a slot that is a number": ({"init": lambda self, w: {"v": 0.0}}, "must return tensors like the weights"),
    "a slot of another length": (
        {"init": lambda self, w: {"v": torch.zeros(3)}},
        "must return tensors like the weights",
    ),
    "a step without slots": (
        {"step": lambda self, w, grad, lr: None},
        r"takes \(w, grad, lr\), but is called with",
    ),
    "new weights": (
        {"step": lambda self, w, grad, *_: w - grad},
        "Mine.step .* must return nothing, got Tensor",
    ),
    "other arguments": ({"step_sum": lambda self: 1}, r"takes \(\), but is called with \(steps\)"),
}


@pytest.mark.parametrize(("names", "message"), OPTIMISER_MISTAKES.values(), ids=OPTIMISER_MISTAKES)
def test_a_wrong_optimiser(names: dict[str, Any], message: str) -> None:
    register(OPTIMISERS, **GOOD | names)
    assert re.search(message, line(lambda: build_optimiser("test-broken")))
    assert re.search(message, line(lambda: train(optimiser="test-broken")))


def train(**fields: Any) -> object:
    return run(data=small_dataset(), partition="natural", rounds=2, epochs=1, **fields)


def test_a_good_optimiser_trains_as_ours_does() -> None:
    register(OPTIMISERS, **GOOD)
    assert (
        train(optimiser="test-broken", lr=0.1).figures["accuracy"]
        == train(optimiser="sgd", lr=0.1).figures["accuracy"]
    )  # type: ignore[attr-defined]


def test_an_optimiser_that_fails_later() -> None:
    def late(self: Any, w: Any, grad: Any, slots: Any, lr: float, step: int) -> None:
        if step > 0:
            fails()

    register(OPTIMISERS, **GOOD | {"step": late})
    assert re.match(
        r"Mine.step failed \(test_own_code.py, line \d+\): KeyError", line(lambda: train(optimiser="test-broken"))
    )


STAGES = {
    "no kind": (
        (),
        {},
        "Mine is no kind of stage. Let it inherit .*: Bound, Noise, Sparse, Selected, Coder, Hidden",
    ),
    "half of it": ((Sparse,), {"encode": lambda self, vector, values, random: b""}, "Mine has no decode. Write"),
    "other arguments": ((Coder,), {"encode": lambda self, vector: b""}, r"takes \(vector\), but is called with"),
    "an error": (
        (Coder,),
        {"encode": lambda self, vector, random: fails()},
        r"Mine.encode failed \(test_own_code.py, line \d+\): KeyError",
    ),
    "text": (
        (Coder,),
        {"encode": lambda self, vector, random: "abc"},
        "Mine.encode .* must return a bytes, got str",
    ),
    "too few": (
        (Coder,),
        {"decode": lambda self, data, size, item: np.zeros(size - 1)},
        r"Mine.decode .* must return 4 entries here, got the shape \(3,\)",
    ),
    "a number": ((Bound,), {"clip": lambda self, vector: 1.0}, "Mine.clip .* must return a ndarray, got float"),
    "no noise": (
        (Noise,),
        {"draw": lambda self, *given: None},
        "Mine.draw .* must return a ndarray, got NoneType",
    ),
    "no limit": ((Hidden,), {"largest": lambda self, cohort: fails(), "add": fails}, r"Mine.largest failed"),
}


@pytest.mark.parametrize(("bases", "names", "message"), STAGES.values(), ids=STAGES)
def test_a_wrong_stage_of_a_channel(bases: tuple[type, ...], names: dict[str, Any], message: str) -> None:
    register(CHANNELS, *bases, **names)
    assert re.search(message, line(lambda: parse_channel("test-broken")))
    assert re.search(message, line(lambda: train(channel="test-broken")))


def test_a_stage_that_fails_later() -> None:
    def late(self: Any, vector: Any, random: Any) -> bytes:
        return b"" if len(vector) > 4 and fails() else Coder().encode(vector, random)

    register(CHANNELS, Coder, encode=late)
    assert re.match(
        r"Mine.encode failed \(test_own_code.py, line \d+\): KeyError", line(lambda: train(channel="test-broken"))
    )


def test_a_part_that_cannot_be_made() -> None:
    register(DATASETS, __post_init__=lambda self: fails())
    assert re.match(
        r"Mine.__post_init__ failed \(test_own_code.py, line", line(lambda: load_dataset("test-broken"))
    )


def test_a_parameter_of_an_unknown_type() -> None:
    register(DATASETS, __annotations__={"size": "Elsewhere"}, size=3)
    message = "The types of test-broken's parameters cannot be read: name 'Elsewhere' is not defined. Import it"
    assert line(lambda: load_dataset("test-broken(3)")).startswith(message)


BASES = {
    "an error": (
        lambda self, task, server, replies: fails(),
        r"Mine.fold failed \(test_own_code.py, line \d+\): KeyError",
    ),
    "another value": (
        lambda self, task, server, replies: None,
        r"Mine.fold .* must return a dict of named tensors",
    ),
    "other arguments": (lambda self, server: server, r"Mine.fold .* takes \(server\), but is called with"),
}


@pytest.mark.parametrize(("fold", "message"), BASES.values(), ids=BASES)
def test_a_mistake_in_a_base_names_the_base(fold: Method, message: str) -> None:
    @algorithm("test-own-outer")
    class Outer(Algorithm):
        """Somebody's own, around another."""

        base: Algorithm = FedAvg()

        def fold(self, task: Any, server: Any, replies: Any) -> Any:
            return self.base.fold(task, server, replies)

    algorithm("test-own-base")(type("Mine", (Algorithm,), {"fold": fold, "__module__": __name__}))
    assert re.search(message, line(lambda: train(algorithm="test-own-outer(test-own-base)")))


def test_checks_leave_the_default_base_alone() -> None:
    algorithm("test-own-base")(type("Mine", (Algorithm,), {"__module__": __name__}))
    base = ALGORITHMS.build("test-own-base")
    algorithm("test-own-default")(
        type(
            "WithDefault",
            (Algorithm,),
            {"__annotations__": {"base": Algorithm}, "base": base, "__module__": __name__},
        )
    )
    made: Any = checked(ALGORITHMS.build("test-own-default"))
    assert made.base == base
    assert vars(made.base)
    assert not vars(base)


MISTAKES_IN_A_CALL = {
    "a number for a folder": ({"runs": 3}, r"--runs must name a folder, got 3\."),
    "a text for seconds": ({"checkpoint_seconds": "2"}, "--checkpoint-seconds must be a finite number .* got '2'"),
    "a text for a spec": (
        {"spec": "heart"},
        r"run needs a RunSpec, or its fields by name, got 'heart'\. Write run\(",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES_IN_A_CALL.values(), ids=MISTAKES_IN_A_CALL)
def test_a_mistake_in_a_call_of_run(arguments: dict[str, Any], message: str) -> None:
    assert re.search(message, line(lambda: run(**arguments)))


def test_data_of_another_type() -> None:
    assert re.search("data must be an unalike.Dataset, got a list", line(lambda: run(data=[1, 2])))  # type: ignore[arg-type]
    assert isinstance(small_dataset(), Dataset)
