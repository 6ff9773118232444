"""Parties on threads: the same bits on any number of them, whatever the net keeps or draws."""

import threading

import pytest
import torch
from torch import nn

from tests.contract import paper_algorithms  # registers Ditto, ...
from tests.contract.test_every_algorithm import NEEDS
from tests.helpers import Watched, net_algorithms
from unalike.engines.sequential import Sequential
from unalike.models import MODELS, Mlp, Net, Task
from unalike.models.model import register_model
from unalike.rounds import local
from unalike.rounds.evaluation import evaluate
from unalike.rounds.threads import on_threads
from unalike.runs.small import play, small_simulation

assert paper_algorithms.NAMES


class _Noisy(nn.Module):
    """Draws like dropout, but is no dropout layer: nobody could tell by its type."""

    def forward(self, x):
        return x * torch.rand_like(x) if self.training else x


@pytest.fixture
def noisy(monkeypatch):
    monkeypatch.setattr(MODELS, "_entries", dict(MODELS._entries))

    @register_model("noisy")
    class Drawing:
        """A net that draws."""

        def build(self, shape, classes):
            plain = Mlp((6,)).build(shape, classes)
            return Net(nn.Sequential(plain.body, _Noisy()), plain.head)


def played(threads, rounds=3, **fields):
    """A simulation after some rounds on the sequential engine, and how many threads trained its parties."""
    simulation = small_simulation(fields.pop("algorithm"), engine="sequential", **fields)
    engine, seen = Sequential(threads), set()

    def trainer(*arguments):
        seen.add(threading.get_ident())
        return local.descend(*arguments)

    engine.trainer = trainer
    simulation.engine = engine
    return play(simulation, rounds), seen


SHIPPED = [entry.name for entry in net_algorithms() if entry.cls.__module__.startswith("unalike.")]


ONE_AT_A_TIME = ("fada",)
"""They also ask a single party, which then trains where the server is."""


@pytest.mark.parametrize("name", SHIPPED)
def test_the_same_bits_on_any_number_of_threads(name):
    fields = {"algorithm": name, "evaluate_every": 9, **NEEDS.get(name, {})}  # adapting one party needs no threads
    alone, _ = played(1, **fields)
    threads, seen = played(3, **fields)
    alone_in_turn = threads.algorithm.pools or name in ONE_AT_A_TIME  # a party by itself needs no other thread
    assert threading.get_ident() not in seen or alone_in_turn
    assert alone.state.digest() == threads.state.digest()


def test_many_rounds_of_a_net_whose_forward_takes_long():
    """Long operations let other threads in: nets that were shared would see each other's weights."""
    fields = {"algorithm": "fedavg", "model": "mlp(700,700)", "parties": 6, "sample": 1.0}
    assert played(1, **fields)[0].state.digest() == played(4, **fields)[0].state.digest()


def test_a_net_that_draws_goes_one_after_the_other(noisy):
    alone, _ = played(1, algorithm="fedavg", model="noisy")
    state = torch.default_generator.get_state()
    threads, seen = played(3, algorithm="fedavg", model="noisy")
    assert torch.equal(state, torch.default_generator.get_state())
    assert threading.get_ident() in seen
    assert alone.state.digest() == threads.state.digest()


def test_evaluation_has_the_same_bits_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(local, "MEASURE_ROWS", 7)
    simulation, _ = played(1, algorithm="scaffold")
    models = simulation.models(simulation.state)
    assert evaluate(simulation.federation, models) == evaluate(simulation.federation, models, threads=3)


def test_work_is_in_order_and_on_threads_with_one_thread_inside():
    def work(item):
        return item, torch.get_num_threads(), threading.get_ident()

    items = list(range(20))
    done = on_threads(3, work, items)
    assert [item for item, _, _ in done] == items
    assert {inside for _, inside, _ in done} == {1}
    assert threading.get_ident() not in {thread for _, _, thread in done}
    assert {thread for _, _, thread in on_threads(1, work, items)} == {threading.get_ident()}
    assert on_threads(3, work, []) == []


def test_an_error_stops_what_has_not_begun():
    begun = []

    def work(item):
        begun.append(item)
        if item == 0:
            raise ValueError("no")
        threading.Event().wait(0.01)

    with pytest.raises(ValueError, match="no"):
        on_threads(2, work, range(1000))
    assert len(begun) < 500


def test_uploads_are_kept_only_for_those_who_need_each():
    """Twice the memory of a cohort otherwise; and adding up must not change a message."""
    simulation = small_simulation("fedavg", engine="sequential")
    inner, before = simulation.engine, []

    class Copying(Watched):
        def answer(self, workers, orders):
            replies = super().answer(workers, orders)
            before.extend(reply.message.vectors["delta"].clone() for reply in replies)
            return replies

    simulation.engine = watched = Copying(inner)
    play(simulation, 1)
    assert len(watched.replies) == 4
    assert {value.device.type for reply in watched.replies for value in reply.outline.values()} == {"meta"}
    assert {reply.single for reply in watched.replies} == {None}
    for reply, delta in zip(watched.replies, before, strict=True):
        assert torch.equal(reply.message.vectors["delta"], delta)


def test_initial_weights_on_threads():
    """A party's method may ask for other initial weights, which are drawn from torch's one global stream."""
    task = Task(lambda: Mlp((300, 300)).build((50,), 3))
    alone = task.initial(1)
    assert all(torch.equal(alone, w) for w in on_threads(4, task.initial, [1, 1, 1, 1] * 10))


def test_threads_inside_an_operation_stay_as_they_are():
    """A stack goes on with its own number of them after an evaluation on threads."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert on_threads(3, lambda item: torch.get_num_threads(), range(3)) == [1, 1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_an_evaluation_of_personal_models_has_the_same_bits_on_any_number_of_threads():
    simulation, _ = played(1, algorithm="ditto")
    models = simulation.models(simulation.state)
    assert models.personal is not None
    assert evaluate(simulation.federation, models) == evaluate(simulation.federation, models, threads=3)


@pytest.mark.parametrize("name", ["sequential", "compiled"])
def test_the_threads_of_the_spec_are_used(name, monkeypatch):
    """To train, and to evaluate: the bits would not tell."""
    used = {"engines.sequential": set(), "rounds.judging": set()}

    def spy(module):
        def spied(threads, work, items):
            used[module].add(threads)
            return on_threads(threads, work, items)

        monkeypatch.setattr(f"unalike.{module}.on_threads", spied)

    for module in used:
        spy(module)
    play(small_simulation("fedavg", engine=name, threads=3), 1)
    assert used == {"engines.sequential": {3}, "rounds.judging": {3}}
