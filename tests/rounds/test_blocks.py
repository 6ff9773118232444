"""Blocks are a function of the cohort alone, and composing their sums gives one sum, whoever made the parts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unalike.channels import Summand
from unalike.rounds.blocks import MOST_BLOCKS, block_size, blocks_in, blocks_of, cut
from unalike.rounds.order import Reply
from unalike.runs.playing import playable
from unalike.runs.spec import RunSpec

COHORTS = st.integers(1, 5000)
PARTIES = st.sets(st.integers(0, 10**6), min_size=1, max_size=300)


@given(COHORTS)
def test_up_to_64_parties_each_is_a_block_and_above_there_are_33_to_64(cohort):
    size = block_size(cohort)
    count = -(-cohort // size)
    assert size & (size - 1) == 0
    assert (size, count) == (1, cohort) if cohort <= MOST_BLOCKS else MOST_BLOCKS / 2 < count <= MOST_BLOCKS


@given(COHORTS)
def test_stacks_are_never_cut_below_64_parties(cohort):
    assert block_size(cohort, stacked=True) == max(64, block_size(cohort))


@given(PARTIES, st.booleans(), st.randoms())
def test_blocks_depend_on_who_is_there_and_not_on_their_order(parties, stacked, random):
    mixed = list(parties)
    random.shuffle(mixed)
    made = blocks_of(mixed, stacked=stacked)
    assert made == blocks_of(sorted(parties), stacked=stacked)
    numbers = [made[party] for party in sorted(parties)]
    assert numbers == sorted(numbers)  # in party order, without a gap
    assert set(numbers) == set(range(max(numbers) + 1))


@given(PARTIES, PARTIES)
def test_absent_parties_move_nobody_into_another_block(parties, absent):
    blocks = blocks_of(sorted(parties))
    there = [Reply(party, Summand({}, 1.0), {}, {}) for party in sorted(parties - absent)]
    found = [[reply.party for reply in block] for block in cut(there, blocks)]
    expected = [
        [p for p in sorted(parties - absent) if blocks[p] == number] for number in sorted(set(blocks.values()))
    ]
    assert found == [block for block in expected if block]


def test_who_is_in_no_block_is_alone():
    alone = [Reply(party, Summand({}, 1.0), {}, {}) for party in (0, 1, 5)]
    assert [[reply.party for reply in block] for block in cut(alone, {})] == [[0], [1], [5]]


CHANNELS = ("none", "quantise(8)", "topk(0.1)", "masked", "clip(1.0)+gauss(0.1)")


def exchange(channel, algorithm="scaffold", engine="sequential", **fields):
    """A simulation of 130 parties, and the orders of its first exchange."""
    spec = {"parties": 130, "rounds": 1, "steps": 1, "model": "logistic", "validation": 0.0, "held_out": 0.0}
    spec |= {"algorithm": algorithm, "engine": engine, "channel": channel, **fields}
    simulation = playable(RunSpec(**spec))
    seen = []
    gather = simulation.gather
    simulation.gather = lambda orders: seen.append(orders) or gather(orders)
    simulation.play_round()
    return simulation, seen[0]


@pytest.mark.parametrize("channel", CHANNELS)
def test_parts_made_apart_and_in_any_order_compose_to_the_sum_of_one_process(channel):
    simulation, orders = exchange(channel)
    assert max(order.block for order in orders) == 32  # 130 parties, four in a block
    whole = simulation.gather(orders)
    asked = {order.party: order for order in orders}
    groups = [list(block) for block in cut(orders, blocks_in(orders))]
    parts = {}
    for number in reversed(range(len(groups))):  # whoever is first
        replies = simulation.engine.answer(simulation.crew, groups[number])
        parts[number] = simulation.receiver.part(asked, replies)
    again = simulation.receiver.whole(orders, [parts[number] for number in range(len(groups))])
    assert again.answered == whole.answered
    assert again.up == whole.up
    assert again.total.weight == whole.total.weight
    for mine, other in (
        (again.total.vectors, whole.total.vectors),
        *zip(again.states.values(), whole.states.values(), strict=True),
    ):
        assert mine.keys() == other.keys()
        assert all(torch.equal(mine[key], other[key]) for key in mine)


def test_the_sum_of_many_is_right_up_to_rounding():
    simulation, orders = exchange("none")
    messages = [reply.message for reply in simulation.engine.answer(simulation.crew, orders)]
    found = simulation.gather(orders).total
    for key, value in found.vectors.items():
        exact = sum(message.vectors[key].double() for message in messages)
        assert torch.allclose(value.double(), exact, rtol=1e-4, atol=1e-5)
    assert found.weight == pytest.approx(sum(message.weight for message in messages))


def test_messages_of_other_shapes_are_refused_across_blocks():
    simulation, orders = exchange("none")
    asked = {order.party: order for order in orders}
    parts = []
    for block in cut(orders, blocks_in(orders)):
        replies = list(simulation.engine.answer(simulation.crew, list(block)))
        if len(parts) == 2:  # a block whose parties agree among themselves
            for reply in replies:
                reply.outline["more"] = torch.zeros(3, device="meta")
        parts.append(simulation.receiver.part(asked, replies))
    with pytest.raises(Exception, match="party 8 uploads"):
        simulation.receiver.whole(orders, parts)


def test_stacks_are_the_blocks_in_one_process_too():
    simulation, orders = exchange("none", engine="vectorised")
    assert [order.block for order in orders] == [place // 64 for place in range(130)]
    seen = []
    answer = simulation.engine.answer
    simulation.engine.answer = lambda workers, some: seen.append(len(some)) or answer(workers, some)
    simulation.gather(orders)
    assert seen == [64, 64, 2]
