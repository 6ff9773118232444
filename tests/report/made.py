"""Runs made by hand, for tests of the report."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from unalike.report.page import Page, page_of_records
from unalike.runs.results import Record
from unalike.runs.spec import RunSpec

DEGREES = {"label": 0.37, "label_expected": 0.005, "quantity": 0.2, "one_label": 1.0}


@lru_cache
def spec(**fields: Any) -> dict[str, Any]:
    """A whole spec; what cannot be built (a name of an attacker's) is put in as it is."""
    return RunSpec(rounds=4, held_out=0.1).to_dict() | fields


def record(
    algorithm: str = "fedavg", seed: int = 0, end: float = 0.8, held_out: bool = True, **fields: Any
) -> Record:
    """A finished run of four rounds that ends with that accuracy."""
    rows = tuple(
        {
            "round": number,
            "accuracy": end * number / 4,
            "loss": 2.0 / number,
            "train_loss": 1.0 / number,
            "bytes_up": 1_000_000,
            "bytes_down": 500_000,
            "seconds": 0.5,
        }
        for number in range(1, 5)
    )
    each = [0.2, 0.5, 0.6, 0.9, None]
    parties = {
        "count": 4,
        "mean": 0.55,
        "std": 0.25,
        "worst": 0.2,
        "worst_10_percent": 0.2,
        "best": 0.9,
        "each": each,
    }
    figures = {
        "key": f"{algorithm}{seed}",
        "accuracy": end,
        "rounds": 4,
        "parties": parties if held_out else {"count": 0, "each": [None] * 5},
        "bytes_up": 4_000_000,
        "bytes_down": 2_000_000,
        "seconds": 2.0,
        "degrees": DEGREES,
        "engine": "compiled",
        "why_this_engine": "a chain of layers",
        "version": "0.1.0",
        "torch": "2.13.0",
    }
    given = spec() | {"algorithm": algorithm, "seed": seed} | fields
    return Record(f"{algorithm}{seed}", given, "finished", figures, rows)


def two_algorithms(**fields: Any) -> list[Record]:
    """FedAvg and SCAFFOLD, three seeds each; SCAFFOLD is ahead by clearly more than their spread."""
    ends = {"fedavg": (0.69, 0.70, 0.71), "scaffold": (0.79, 0.80, 0.81)}
    return [record(name, seed, end, **fields) for name, each in ends.items() for seed, end in enumerate(each)]


def small_page(**fields: Any) -> Page:
    """One setting."""
    return page_of_records("A title", two_algorithms(**fields))


def two_settings() -> Page:
    """The same twice, split in two ways."""
    others = two_algorithms(partition="label-dirichlet(beta=0.5, minimum=10, balanced=false)")
    return page_of_records("Two settings", [*two_algorithms(), *others])


def error_record(algorithm: str = "fedavg", seed: int = 0, end: float = 53.2, **fields: Any) -> Record:
    """A finished run of four rounds of a regression that ends with that RMSE; its worst party has the highest."""
    made = record(algorithm, seed, **fields)
    rounds = tuple(
        {**{name: value for name, value in row.items() if name != "accuracy"}, "score": "rmse", "rmse": value}
        for row, value in zip(made.rounds, (2 * end, 1.5 * end, 1.1 * end, end), strict=True)
    )
    parties = {
        "count": 4,
        "mean": 55.0,
        "std": 12.5,
        "worst": end + 20.0,
        "worst_10_percent": end + 20.0,
        "best": 40.0,
        "each": [40.0, 50.0, 57.0, end + 20.0, None],
    }
    figures = {name: value for name, value in made.figures.items() if name != "accuracy"}
    return replace(made, rounds=rounds, figures={**figures, "score": "rmse", "rmse": end, "parties": parties})


def two_errors(**fields: Any) -> list[Record]:
    """FedAvg and SCAFFOLD, three seeds each; SCAFFOLD's RMSE is lower by clearly more than their spread."""
    ends = {"fedavg": (58.2, 58.7, 59.2), "scaffold": (52.7, 53.2, 53.7)}
    return [
        error_record(name, seed, end, **fields) for name, each in ends.items() for seed, end in enumerate(each)
    ]


def mixed_page() -> Page:
    """A setting by accuracy, and one by RMSE."""
    return page_of_records("Mixed", [*two_algorithms(), *two_errors(dataset="diabetes")])
