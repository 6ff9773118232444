"""What an upload weighs by its party's rows alone, and how long it is."""

from dataclasses import dataclass, replace

import pytest
import torch

from unalike.algorithms import ALGORITHMS
from unalike.algorithms.contract import Algorithm, Ask
from unalike.engines.sequential import Sequential
from unalike.federation.envelope import Refused
from unalike.federation.weighing import agreed_weight, check_weight, norm_of
from unalike.rounds.exchange import ENGINE
from unalike.runs.check import small_simulation
from unalike.runs.training import Ledger

OURS = [entry.name for entry in ALGORITHMS if entry.cls.__module__.startswith("unalike.")]


def exchange_of(name, **changes):
    simulation = small_simulation(name, engine="sequential")
    ask = next(simulation.algorithm.round(simulation.task, simulation.state.server))
    made = simulation.exchange(ask, 1, simulation.cohort(1), Ledger(simulation.state.buffers))
    return replace(made, **changes)


@pytest.mark.parametrize("name", [*OURS, "scaffold(weights=uniform)"])
def test_the_weight_of_every_algorithm_is_known(name):
    exchange = exchange_of(name)
    for reply in Sequential().exchange(exchange):
        assert agreed_weight(exchange, reply.party) == float(reply.message[f"{ENGINE}weight"])


@dataclass(frozen=True)
class BySteps(Algorithm):
    def weight(self, party):
        return party.steps / party.size


@dataclass(frozen=True)
class ByState(Algorithm):
    def weight(self, party):
        return party.state["n"]


@dataclass(frozen=True)
class ByWhatItMeasured(Algorithm):
    def weight(self, party):
        return torch.exp(party.measured.get("loss", torch.zeros(())))


@dataclass(frozen=True)
class ByItsModel(Algorithm):
    def weight(self, party):
        return torch.linalg.vector_norm(party.trained)


def test_a_weight_of_numbers_that_the_server_has():
    exchange = exchange_of("fedavg", algorithm=BySteps())
    size, steps = exchange.counts(2)
    assert agreed_weight(exchange, 2) == pytest.approx(steps / size)
    check_weight(exchange, 2, steps / size)
    with pytest.raises(Refused, match="training rows that it agreed with weigh"):
        check_weight(exchange, 2, 1.01 * steps / size)


@pytest.mark.parametrize("algorithm", [ByState(), ByWhatItMeasured(), ByItsModel()])
def test_a_weight_of_what_only_the_party_knows_is_not_judged(algorithm):
    exchange = exchange_of("fedavg", algorithm=algorithm)
    exchange = replace(exchange, ask=Ask("train+measure", exchange.ask.payload))
    assert agreed_weight(exchange, 2) is None
    check_weight(exchange, 2, 1e30)
    with pytest.raises(Refused, match="below zero"):
        check_weight(exchange, 2, -1.0)


def test_norms():
    assert norm_of({"a": torch.tensor([3.0]), "b": torch.tensor([[4.0, 0.0]])}) == 5.0
    assert norm_of({}) == norm_of({"a": torch.zeros(0)}) == norm_of({"a": torch.zeros(3)}) == 0.0
    assert norm_of({"a": torch.full((4,), 1e300, dtype=torch.float64)}) == pytest.approx(2e300)
