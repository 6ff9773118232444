"""Every registered algorithm passes the same checks on both engines."""

import pytest

from tests.contract import paper_algorithms  # registers FedPer, IFCA, ... as the contract must carry them
from unalike.algorithms import ALGORITHMS
from unalike.runs.check import check_algorithm

REGISTERED = [entry.name for entry in ALGORITHMS if not entry.name.startswith("broken-")]
SETTINGS = {
    "momentum": {},
    "steps": {"epochs": None, "steps": 5},
    "drop-last": {"drop_last": True, "lr_decay": 0.9},
    "all-parties": {"sample": 1.0, "optimiser": "sgd(weight_decay=0.01)"},
}


def test_the_papers_are_there():
    shipped = {"fedavg", "fedprox", "scaffold", "fednova", "qfedavg", "rfedavg", "rfedavg+", "moon"}
    shipped |= {"fedavgm", "fedadagrad", "fedadam", "fedyogi"}
    assert {*shipped, *paper_algorithms.NAMES} <= set(REGISTERED)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", REGISTERED)
def test_holds_the_contract(name, setting):
    check_algorithm(name, **SETTINGS[setting])


@pytest.mark.parametrize("optimiser", ["rmsprop(weight_decay=0.01)", "adam(weight_decay=0.01)"])
def test_adaptive_optimisers_too(optimiser):
    check_algorithm("fedprox(mu=0.5)", optimiser=optimiser, lr=0.01)
