import dataclasses
import re
from types import SimpleNamespace

import pytest
import torch

from tests.helpers import net_algorithms
from unalike.algorithms import ALGORITHMS, Algorithm, FedAvg, FedProx, Replies, algorithm
from unalike.errors import UserError
from unalike.rounds.gather import Receiver, replies_of, traffic
from unalike.rounds.order import Order
from unalike.rounds.population import Population
from unalike.rounds.upload import reply_of
from unalike.rounds.worker import Recipe


def answer(algorithm, replies, kind="train", parties=7):
    """Combine uploads given as (party, weight, upload) in an exchange of ``parties`` parties."""
    recipe = Recipe(algorithm, None, None)
    orders, made = [], []
    for party, weight, upload in replies:
        vectors = {k: torch.as_tensor(v) for k, v in upload.items()}
        more = {"buffers": torch.zeros(0), "loss": torch.tensor(0.5 * weight)}
        orders.append(Order(party, 1, 0, kind, {}, {}, torch.zeros(0), 0.1))
        worker = SimpleNamespace(recipe=recipe)
        made.append(reply_of(worker, orders[-1], torch.tensor(weight), (vectors, {}), more))
    gathered = Receiver(recipe).add(orders, made)
    return SimpleNamespace(
        replies=replies_of(gathered, recipe, Population([1] * parties), torch.zeros(0)),
        loss=gathered.total.loss / gathered.total.weight,
        bytes_up=sum(gathered.up.values()),
    )


def reply(party, weight, **upload):
    return party, weight, upload


class Mixed(Algorithm):
    plain = frozenset({"count"})


class Open(Algorithm):
    needs_each = True


def test_means_and_sums_by_hand():
    answers = [reply(2, 30.0, delta=[1.0, 0.0], count=5.0), reply(0, 10.0, delta=[0.0, 4.0], count=2.0)]
    combined = answer(Mixed(), answers)
    replies = combined.replies
    assert replies.mean["delta"].tolist() == [0.75, 1.0]
    assert replies.sum["count"].item() == 7.0
    assert replies.plain_mean["count"].item() == 3.5
    assert (replies.size, replies.population, replies.weight) == (2, 7, 40.0)
    assert combined.loss == pytest.approx((15 * 30 + 5 * 10) / 40)
    assert combined.bytes_up == 2 * 3 * 4


def test_a_key_has_one_way_to_be_combined():
    replies = answer(Mixed(), [reply(0, 1.0, delta=1.0, count=1.0)]).replies
    with pytest.raises(KeyError, match="is listed in the algorithm's `plain`"):
        replies.mean["count"]
    with pytest.raises(KeyError, match="is not listed"):
        replies.sum["delta"]
    with pytest.raises(KeyError, match="no party uploaded 'dleta': upload or report returned 'delta', 'count'"):
        replies.mean["dleta"]


def test_single_uploads_only_where_asked_for():
    answers = [reply(1, 1.0, w=2.0), reply(0, 1.0, w=1.0)]
    assert [(k, u["w"].item()) for k, u in answer(Open(), answers).replies.each.items()] == [(0, 1.0), (1, 2.0)]
    with pytest.raises(UserError, match="needs_each"):
        _ = answer(FedAvg(), answers).replies.each


def test_sums_do_not_depend_on_arrival():
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(20, 50, generator=generator) * torch.logspace(-6, 6, 50)
    answers = [(k, float(k + 1), {"delta": v}) for k, v in enumerate(values)]
    forward = answer(FedAvg(), answers, parties=20).replies.mean["delta"]
    backward = answer(FedAvg(), answers[::-1], parties=20).replies.mean["delta"]
    assert torch.equal(forward, backward)


def test_combining_leaves_the_replies_alone():
    first, second = torch.tensor([1.0]), torch.tensor([2.0])
    answer(Mixed(), [(0, 1.0, {"count": first}), (1, 2.0, {"count": second})])
    assert (first.item(), second.item()) == (1.0, 2.0)


def test_parties_must_upload_alike():
    with pytest.raises(UserError, match="party 1 uploads"):
        answer(FedAvg(), [reply(0, 1.0, delta=1.0), reply(1, 1.0, delta=1.0, more=2.0)])
    with pytest.raises(UserError, match="same keys and shapes"):
        answer(FedAvg(), [reply(0, 1.0, delta=[1.0]), reply(1, 1.0, delta=[1.0, 2.0])])


def test_weights_that_sum_to_nothing_are_refused():
    with pytest.raises(UserError, match="weight"):
        answer(FedAvg(), [reply(0, 0.0, delta=1.0)])


def test_hyper_parameters_are_fields_and_frozen():
    part = ALGORITHMS.build("fedprox(0.5)")
    assert part == FedProx(mu=0.5)
    assert ALGORITHMS.describe(part) == "fedprox(mu=0.5)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        part.mu = 1.0


@pytest.mark.parametrize("mu", ["-0.1", "float", "'a'", "nan"])
def test_bad_mu(mu):
    with pytest.raises(UserError, match="mu"):
        ALGORITHMS.build(f"fedprox(mu={mu})")


def test_a_name_is_taken_once():
    with pytest.raises(UserError, match="taken"):

        @algorithm("fedavg")
        class Other(Algorithm):
            """Not FedAvg."""


def test_overrides():
    assert FedProx.overrides("proximal")
    assert FedProx.overrides("loss", "proximal")
    assert not FedProx.overrides("correct", "linear")
    assert not FedAvg.overrides("loss")


def test_every_algorithm_cites_its_paper():
    for entry in net_algorithms():
        if entry.cls.__module__.startswith("unalike."):
            assert entry.summary
            if entry.cls.pools or entry.cls.sends == "nothing":  # baselines, which are nobody's
                assert not entry.paper
                continue
            assert re.search(r"(et al\.|\w and \w+) \d{4} \((arXiv:\d{4}\.\d{5}|ICDE|KDD, doi:10\.)", entry.paper)


def test_bytes():
    vectors = {"a": torch.zeros(3), "b": torch.zeros(2, dtype=torch.float64)}
    assert traffic(vectors, torch.zeros(5), 2) == {"a": 24, "b": 32, "running statistics": 40}


def test_replies_of_nobody():
    empty = Replies({}, {}, 1.0, 0, 5, torch.zeros(0))
    with pytest.raises(KeyError, match="returned nothing"):
        empty.mean["delta"]
