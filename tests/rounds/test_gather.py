"""Replies are added in party order as they come, and let go: the bits of adding all of them at the end."""

import gc
import weakref
from itertools import permutations

import pytest
import torch

from unalike.channels import Summand
from unalike.rounds.gather import in_party_order
from unalike.rounds.order import Reply
from unalike.runs.playing import playable
from unalike.runs.spec import RunSpec

SMALL = RunSpec(parties=4, rounds=2, epochs=1, model="logistic")


def orders_of(simulation):
    """The orders of a round that an engine would get."""
    seen = []
    answer = simulation.engine.answer
    simulation.engine.answer = lambda workers, orders: seen.append(orders) or answer(workers, orders)
    simulation.play_round()
    del simulation.engine.answer
    return seen[0]


@pytest.fixture(scope="module")
def round_of_four():
    simulation = playable(SMALL)
    orders = orders_of(simulation)
    return simulation, orders, list(simulation.engine.answer(simulation.crew, orders))


def reply(party):
    return Reply(party, Summand({}, 1.0), {}, {})


def test_replies_come_in_the_order_of_parties():
    for order in permutations([2, 0, 5]):
        found = in_party_order([0, 2, 5], map(reply, order))
        assert [each.party for each in found] == [0, 2, 5]


def test_who_waits_for_an_absent_party_comes_in_the_end():
    found = in_party_order([0, 1, 2, 3], map(reply, [3, 0, 2]))
    assert [each.party for each in found] == [0, 2, 3]


def test_each_is_passed_on_as_soon_as_it_can_be():
    asked = []
    found = in_party_order([0, 1, 2], (asked.append(party) or reply(party) for party in (0, 1, 2)))
    assert next(found).party == 0
    assert asked == [0]


def test_the_sum_has_the_bits_of_any_order_of_arrival(round_of_four):
    simulation, orders, replies = round_of_four
    expected = sum(each.message.vectors["delta"].double() for each in replies)
    sums = [
        simulation.receiver.add(orders, order) for order in (replies, replies[::-1], replies[2:] + replies[:2])
    ]
    first = sums[0].total.vectors["delta"]
    assert all(torch.equal(each.total.vectors["delta"], first) for each in sums)
    assert torch.allclose(first.double(), expected, atol=1e-4)
    assert all(each.answered == (0, 1, 2, 3) for each in sums)


def test_a_reply_is_not_changed_by_being_added(round_of_four):
    simulation, orders, replies = round_of_four
    before = [each.message.vectors["delta"].clone() for each in replies]
    simulation.receiver.add(orders, replies)
    assert all(torch.equal(each.message.vectors["delta"], was) for each, was in zip(replies, before, strict=True))


@pytest.mark.parametrize("channel", ["none", "quantise(8)"])
def test_messages_are_let_go_once_they_are_added(channel):
    """Of a cohort's uploads three are held at most: the first, the last, and the one that comes."""
    simulation = playable(RunSpec(parties=12, rounds=1, epochs=1, model="logistic", channel=channel))
    orders, alive, most = orders_of(simulation), weakref.WeakSet(), 0

    def one_by_one():
        nonlocal most
        for order in orders:
            (made,) = simulation.engine.answer(simulation.crew, [order])
            alive.add(made)
            gc.collect()
            most = max(most, len(alive))
            yield made
            del made

    assert len(simulation.receiver.add(orders, one_by_one()).answered) == 12
    assert most <= 3
