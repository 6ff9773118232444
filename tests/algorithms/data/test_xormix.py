"""XorMixFL: what is decoded, how even the server's rows are, and what it takes."""

import numpy as np
import pytest
import torch

from unalike.algorithms import XorMix
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.models.byte_scale import ByteScale
from unalike.rounds.order import Order
from unalike.runs.small import play, small_bytes, small_simulation


def small(text="xormix", **fields):
    return small_simulation(text, small_bytes(), **fields)


def offered(simulation, number):
    """What a party sends, its bytes and its labels."""
    order = Order(number, 0, 0, "offer", {}, {}, simulation.state.buffers, lr=0.1)
    worker = simulation.crew.worker(number)
    own = torch.from_numpy(simulation.federation.parties[number].train)
    x, y = simulation.federation.train.take(own)
    me = worker.party(order, worker.own(order), "")
    upload, _ = simulation.algorithm.offer(me, Batch(x, y))
    return upload, torch.from_numpy(simulation.federation.dataset.x[own]).long(), y


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_byte_survives_standardising_and_back(dtype):
    whole = torch.arange(256)[:, None].expand(-1, 2)
    for shift, scale in ((33.318, 78.567), (125.3, 0.00392), (0.0, 255.0)):
        made = ByteScale(torch.tensor([shift, 0.0]).double(), torch.tensor([scale, 1.0]).double())
        assert torch.equal(made.whole(made.numbers(whole, dtype)), whole)


def test_the_rows_of_a_run_are_the_bytes_of_its_data():
    simulation = small()
    x, _ = simulation.federation.train.take(torch.arange(9))
    rows = torch.from_numpy(simulation.federation.dataset.x[:9])
    assert torch.equal(simulation.task.byte_scale.whole(x), rows.long())


def test_a_code_is_one_of_the_partys_rows_xored_with_one_of_another_label():
    simulation = small("xormix(seeds=6)")
    upload, pixels, y = offered(simulation, 5)
    for code, (mine, other) in zip(upload["code"].long(), upload["labels"].long(), strict=True):
        assert mine != other
        whole = pixels[y == mine][:, None] ^ pixels[y == other][None]
        assert (whole == code).all(dim=2).any()
    assert upload["there"].tolist() == [1.0] * 6


def test_a_party_with_one_label_takes_another_row_and_one_with_a_row_sends_nothing():
    simulation = small("xormix(seeds=4)")
    order = Order(5, 0, 0, "offer", {}, {}, simulation.state.buffers, lr=0.1)
    worker = simulation.crew.worker(5)
    me = worker.party(order, worker.own(order), "")
    x, _ = simulation.federation.train.take(torch.arange(3))
    upload, _ = simulation.algorithm.offer(me, Batch(x, torch.tensor([1, 1, 1])))
    assert upload["there"].tolist() == [1, 1, 1, 0]
    assert upload["code"][:3].any(dim=1).all()
    alone, _ = simulation.algorithm.offer(me, Batch(x[:1], torch.tensor([1])))
    assert not any(value.any() for value in alone.values())


def test_decoding_is_exact_if_and_only_if_the_base_row_is_the_same():
    simulation = small("xormix(rows=3)")
    task, scale = simulation.task, simulation.task.byte_scale
    rng = np.random.default_rng(0)
    a, b, other = (torch.from_numpy(rng.integers(0, 256, 5)) for _ in range(3))
    for base, exact in ((b, True), (other, False)):
        task.public = Batch(scale.numbers(base[None], torch.float64), torch.tensor([2]))
        whole, y = simulation.algorithm.rebuilt(task, (a ^ b)[None], torch.tensor([[0, 2]]))
        decoded = whole[y == 0]
        assert (decoded == a).all() == exact
        assert torch.equal(decoded ^ base, (a ^ b).expand(3, -1))
        assert torch.equal(whole[y == 2], base.expand(3, -1))
        assert 1 not in y.tolist()  # nobody has it


def test_a_code_is_decoded_by_rows_of_its_other_label_alone():
    simulation = small("xormix(rows=3)")
    task, scale = simulation.task, simulation.task.byte_scale
    a, b, decoy = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 5)))
    task.public = Batch(scale.numbers(torch.stack([decoy, b]), torch.float64), torch.tensor([1, 2]))
    whole, y = simulation.algorithm.rebuilt(task, (a ^ b)[None], torch.tensor([[0, 2]]))
    assert torch.equal(whole[y == 0], a.expand(3, -1))


@pytest.mark.parametrize("rows", [1, 4, 30])
def test_the_servers_labels_are_even_and_its_own_rows_come_first(rows):
    simulation = small(f"xormix(rows={rows})")
    task = simulation.task
    told = [offered(simulation, number)[0] for number in range(6)]
    there = torch.cat([each["there"] for each in told]) > 0
    code, labels = (torch.cat([each[key] for each in told])[there].long() for key in ("code", "labels"))
    whole, y = simulation.algorithm.rebuilt(task, code, labels)
    assert torch.bincount(y, minlength=3).tolist() == [rows] * 3
    base = task.byte_scale.whole(task.public.x)
    for label in range(3):
        own = base[task.public.y == label][:rows]
        assert torch.equal(whole[y == label][: len(own)], own)


def test_the_server_trains_on_them_and_the_rounds_go_on_from_there():
    simulation = small("xormix(rows=5, batch=15, epochs=1, rate=0.3)", dtype="float64", sample=1.0)
    told = [offered(simulation, number)[0] for number in range(6)]
    there = torch.cat([each["there"] for each in told]) > 0
    code, labels = (torch.cat([each[key] for each in told])[there].long() for key in ("code", "labels"))
    task, w = simulation.task, simulation.initial
    whole, y = simulation.algorithm.rebuilt(task, code, labels)
    gradient = task.gradient(w, Batch(task.byte_scale.numbers(whole, task.dtype), y, training=True))
    after, row = simulation.play_round()
    assert {"code", "labels", "there"} < row["traffic"]["up"].keys()
    plain = small("fedavg", dtype="float64", sample=1.0)
    plain.state.server["w"] = w - 0.3 * gradient
    assert torch.allclose(after.server["w"], plain.play_round()[0].server["w"], atol=1e-12)
    again = play(simulation, 1)
    assert "code" not in again.play_round()[1]["traffic"]["up"]


def test_numbers_that_are_no_bytes_are_refused():
    with pytest.raises(UserError, match=r"XorMix needs rows of bytes, such as pixels; these are not"):
        small_simulation("xormix")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"algorithm": "xormix", "public": 0.0}, r"Give some: --public"),
        ({"algorithm": "xormix(seeds=0)"}, r"a seed and a row of each label or more, got seeds=0, rows=200"),
        ({"algorithm": "xormix(rows=0)"}, r"got seeds=10, rows=0"),
        ({"algorithm": "xormix(epochs=-1)"}, r"XorMix trains at the server for -1 epochs"),
        ({"algorithm": "xormix", "channel": "masked"}, r"needs to see single uploads"),
    ],
)
def test_what_makes_no_sense_is_refused(fields, message):
    with pytest.raises(UserError, match=message):
        small(fields.pop("algorithm"), **fields)


def test_what_it_sends_counts_as_rows():
    assert XorMix.sends == "rows"
