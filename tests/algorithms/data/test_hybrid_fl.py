"""Hybrid-FL's server is one more party, with the rows that were given to it."""

import numpy as np
import pytest
import torch

from tests.helpers import EVERY_ENGINE
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.runs.small import play, small_simulation

WHOLE = {"batch_size": 256, "optimiser": "sgd", "sample": 1.0, "held_out": 0.0, "epochs": None, "steps": 1}


def given(simulation):
    """The rows that the server has, and their labels."""
    server = simulation.state.server
    there = server["there"] > 0
    return server["x"][there], server["y"][there].long()


@EVERY_ENGINE
@pytest.mark.parametrize("givers", [(5,), (1, 5), (5, 1, 1)])
def test_a_round_is_fedavgs_with_one_more_party_of_the_given_rows(engine, givers):
    text = f"hybrid-fl(givers={givers}, rows=20, batch=64, rate=0.05)"
    simulation = small_simulation(text, engine=engine, **WHOLE)
    w = simulation.initial
    simulation.state, row = simulation.play_round()
    assert row["traffic"]["up"]["x"] == len(set(givers)) * 20 * 5 * 4
    task, ends, sizes = simulation.task, [], []
    held = [simulation.federation.train.take(torch.from_numpy(p.train)) for p in simulation.federation.parties]
    for x, y in (*held, given(simulation)):
        ends.append(-0.05 * task.gradient(w, Batch(x, y, training=True)))
        sizes.append(len(y))
    expected = w + sum(n * end for n, end in zip(sizes, ends, strict=True)) / sum(sizes)
    assert torch.allclose(simulation.state.server["w"], expected, atol=1e-6)


def test_what_is_given_are_rows_of_the_givers_with_labels_as_even_as_they_can_be():
    simulation = play(small_simulation("hybrid-fl(givers=(5,), rows=12)"), 1)
    x, y = given(simulation)
    own, labels = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[5].train))
    pairs = {(*row.tolist(), int(label)) for row, label in zip(own, labels, strict=True)}
    found = [(*row.tolist(), int(label)) for row, label in zip(x, y, strict=True)]
    assert len(found) == len(set(found)) == 12
    assert set(found) <= pairs
    have, gave = (np.bincount(each.numpy(), minlength=3) for each in (labels, y))
    least = next(n for n in range(13) if np.minimum(have, n).sum() >= 12)
    assert (gave >= np.minimum(have, least - 1)).all()
    assert (gave <= least).all()


def test_a_giver_with_fewer_rows_gives_all_of_them():
    simulation = play(small_simulation("hybrid-fl(givers=(0, 1), rows=30)"), 1)
    sizes = [len(simulation.federation.parties[number].train) for number in (0, 1)]
    assert len(given(simulation)[1]) == sum(sizes)


@EVERY_ENGINE
def test_where_nobody_gives_it_is_fedavg_to_the_bit(engine):
    one, other = (play(small_simulation(text, engine=engine), 2) for text in ("fedavg", "hybrid-fl(givers=())"))
    assert torch.equal(one.state.server["w"], other.state.server["w"])


def test_rows_go_up_once_and_never_down():
    simulation = small_simulation("hybrid-fl(givers=(5,), rows=7)", sample=1.0)
    simulation.state, first = simulation.play_round()
    _, second = simulation.play_round()
    assert first["traffic"]["up"].keys() == {"delta", "x", "y", "there"}
    assert second["traffic"]["up"].keys() == {"delta"}
    assert first["traffic"]["down"].keys() == second["traffic"]["down"].keys() == {"w"}


def test_the_server_goes_through_its_rows_in_another_order_in_every_round():
    simulation = play(small_simulation("hybrid-fl(givers=(5,), rows=9, batch=3)"), 1)
    task, algorithm, (x, y) = simulation.task, simulation.algorithm, given(simulation)
    ends = [algorithm._work.trained(task, simulation.initial, x, y, turn) for turn in (0, 1, 1)]
    assert float(simulation.state.server["rounds"]) == 1
    assert not torch.equal(ends[0], ends[1])
    assert torch.equal(ends[1], ends[2])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"algorithm": "hybrid-fl(givers=(0, 6))"}, r"HybridFl.givers has 6, but parties are 0 to 5"),
        ({"algorithm": "hybrid-fl(givers=(-1,))"}, r"needs parties' numbers from 0, and a row of each or more"),
        ({"algorithm": "hybrid-fl(rows=0)"}, r"got givers=\(0,\), rows=0"),
        ({"algorithm": "hybrid-fl(rate=-1)"}, r"HybridFl.rate must be above 0"),
        ({"algorithm": "hybrid-fl", "channel": "masked", "sample": 1.0}, r"needs to see single uploads"),
    ],
)
def test_what_makes_no_sense_is_refused(fields, message):
    with pytest.raises(UserError, match=message):
        small_simulation(fields.pop("algorithm"), **fields)
