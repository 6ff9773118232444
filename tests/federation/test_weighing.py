"""What an upload weighs by its party's rows alone, and how long it is."""

from dataclasses import dataclass, replace

import pytest
import torch

from tests.helpers import NEEDS, net_algorithms
from unalike.algorithms.contract import Algorithm, Phase
from unalike.engines.sequential import Sequential
from unalike.federation.envelope import Refused
from unalike.federation.weighing import agreed_weight, check_weight, norm_of
from unalike.rounds.federation import Crew
from unalike.rounds.ledger import Ledger
from unalike.runs.small import small_simulation

OURS = [entry.name for entry in net_algorithms() if entry.cls.__module__.startswith("unalike.")]


def asked(name, algorithm=None, **changes):
    """The workers of a first exchange, and what each is asked."""
    simulation = small_simulation(name, engine="sequential", **NEEDS.get(name, {}))
    ask = next(simulation.algorithm.round(simulation.task, simulation.state.server))
    recipe = simulation.recipe if algorithm is None else replace(simulation.recipe, algorithm=algorithm)
    crew, ledger = Crew(simulation.federation, recipe), Ledger(simulation.state.buffers)
    orders = [replace(simulation.order(ask, k, 1, ledger), **changes) for k in simulation.cohort(1)]
    return crew, orders


@pytest.mark.parametrize("name", [*(name for name in OURS if name != "astraea"), "scaffold(weights=uniform)"])
def test_the_weight_of_every_algorithm_is_known(name):
    crew, orders = asked(name)
    for order, reply in zip(orders, Sequential().answer(crew, orders), strict=True):
        assert agreed_weight(crew.worker(order.party), order) == reply.message.weight


def test_astraea_weighs_by_labels_which_only_the_party_knows():
    crew, (order, *_) = asked("astraea")
    assert agreed_weight(crew.worker(order.party), order) is None


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
    crew, orders = asked("fedavg", BySteps())
    worker, order = crew.worker(orders[2].party), orders[2]
    size, steps = worker.size(order), worker.steps_in_all(order)[0]
    assert agreed_weight(worker, order) == pytest.approx(steps / size)
    check_weight(worker, order, steps / size)
    with pytest.raises(Refused, match="training rows that it agreed with weigh"):
        check_weight(worker, order, 1.01 * steps / size)


@pytest.mark.parametrize("algorithm", [ByState(), ByWhatItMeasured(), ByItsModel()])
def test_a_weight_of_what_only_the_party_knows_is_not_judged(algorithm):
    crew, orders = asked("fedavg", algorithm, kind="train+measure")
    worker, order = crew.worker(orders[2].party), orders[2]
    assert agreed_weight(worker, order) is None
    check_weight(worker, order, 1e30)
    with pytest.raises(Refused, match="below zero"):
        check_weight(worker, order, -1.0)


@dataclass(frozen=True)
class ByStepsOfThePhase(Algorithm):
    def phases(self, task, round):
        return (Phase("first", steps=5), Phase("last", epochs=2))

    def weight(self, party):
        return party.steps * (2 if party.phase == "last" else 1)


def test_a_weight_is_that_of_the_last_phase():
    algorithm = ByStepsOfThePhase()
    crew, orders = asked("fedavg", algorithm, phases=algorithm.phases(None, 1))
    for order, reply in zip(orders, Sequential().answer(crew, orders), strict=True):
        worker = crew.worker(order.party)
        first, last = worker.steps_in_all(order)
        assert (first, last) == (5, worker.recipe.work.steps_per_epoch(worker.size(order)) * 2)
        assert agreed_weight(worker, order) == reply.message.weight == 2 * last


def test_norms():
    assert norm_of({"a": torch.tensor([3.0]), "b": torch.tensor([[4.0, 0.0]])}) == 5.0
    assert norm_of({}) == norm_of({"a": torch.zeros(0)}) == norm_of({"a": torch.zeros(3)}) == 0.0
    assert norm_of({"a": torch.full((4,), 1e300, dtype=torch.float64)}) == pytest.approx(2e300)
