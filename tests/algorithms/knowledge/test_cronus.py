"""Cronus: the filter against arithmetic and liars, and what parties learn from its mean."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.algorithms.knowledge.played import NETS, own_rows, party_of, simulation_of
from tests.helpers import EVERY_ENGINE, recorded, use_algorithm
from unalike.algorithms import Cronus
from unalike.algorithms.knowledge.cronus import filtered
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.runs.small import play, small_simulation

CLASSES = 4


def honest(parties=8, rows=6, seed=0):
    """Scores of parties that nearly agree, row by row."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(1, rows, CLASSES)) + 0.05 * draw.normal(size=(parties, rows, CLASSES))
    return torch.from_numpy(logits).softmax(dim=-1)


def by_hand(points, count):
    """One row with NumPy: the farthest along the first principal axis of those left, again and again."""
    left = list(range(len(points)))
    for _ in range(count):
        away = points[left] - points[left].mean(axis=0)
        axis = np.linalg.svd(away)[2][0]
        left.pop(int(((away @ axis) ** 2).argmax()))
    return points[left].mean(axis=0), left


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_filter_is_numpys_row_by_row(count):
    points = torch.from_numpy(np.random.default_rng(1).dirichlet(np.ones(CLASSES), size=(7, 5)))
    mean, kept = filtered(points, count)
    for row in range(5):
        expected, left = by_hand(points[:, row].numpy(), count)
        assert np.allclose(mean[row], expected, atol=1e-12)
        assert kept[:, row].nonzero()[:, 0].tolist() == sorted(left)


@pytest.mark.parametrize("far", [1.0, 5.0, 1e6])
@pytest.mark.parametrize("together", [True, False])
def test_liars_move_the_mean_by_no_more_than_honest_parties_differ(far, together):
    """Two of ten say anything: the plain mean follows them, however far; the robust one does not."""
    points, draw = honest(), np.random.default_rng(2)
    lies = draw.normal(size=(1 if together else 2, 6, CLASSES))
    lies = torch.from_numpy(far * lies / np.linalg.norm(lies, axis=-1, keepdims=True)).expand(2, -1, -1)
    both = torch.cat([lies[:1], points[:5], lies[1:], points[5:]])
    mean, kept = filtered(both, 2)
    spread = float((points - points.mean(dim=0)).norm(dim=-1).max())
    assert float((mean - points.mean(dim=0)).norm(dim=-1).max()) <= spread
    assert not kept[[0, 6]].any()
    assert float((both.mean(dim=0) - points.mean(dim=0)).norm(dim=-1).max()) > 0.1 * far > spread


def test_the_order_of_parties_changes_nothing():
    points = torch.from_numpy(np.random.default_rng(3).dirichlet(np.ones(CLASSES), size=(9, 6)))
    order = torch.tensor([4, 0, 8, 2, 6, 1, 3, 7, 5])
    (one, kept), (other, again) = filtered(points, 3), filtered(points[order], 3)
    assert torch.allclose(one, other, atol=1e-12)
    assert torch.equal(kept[order], again)


def test_nobody_is_removed_where_all_agree_or_differ_little():
    points = honest()
    same = points[:1].expand(8, -1, -1)
    mean, kept = filtered(same, 3)
    assert kept.all()
    assert torch.allclose(mean, same[0], atol=1e-12)
    assert filtered(points, 3, spread=0.01)[1].all()
    assert not filtered(points, 3, spread=1e-8)[1].all()
    assert filtered(points.float(), 1)[0].dtype == torch.float32


@EVERY_ENGINE
def test_without_outliers_it_is_the_plain_mean_of_scores(engine):
    simulation = small_simulation("cronus(outliers=0)", model=NETS, engine=engine, sample=1.0)
    first = play(simulation, 1).state
    after, row = simulation.play_round()
    scores = [
        simulation.task_of(k).logits(first.parties[k]["w"], simulation.task.public).softmax(dim=1)
        for k in range(6)
    ]
    assert torch.allclose(after.server["scores"], torch.stack(scores).mean(dim=0), atol=1e-5)
    assert not after.server["removed"].any()
    table = 6 * 12 * 3 * 4
    assert row["traffic"] == {"up": {"scores": table}, "down": {"scores": table}}
    assert row["accuracy"] is None


def test_who_is_removed_is_counted_by_party():
    simulation = small_simulation("cronus(outliers=0.4)", sample=0.67)
    said = recorded(simulation)
    after, _ = simulation.play_round()
    assert len(said) == 3  # before round 1, and two exchanges
    numbers = list(said[1].each)
    _, kept = filtered(torch.stack([each["scores"] for each in said[1].each.values()]), 1)
    assert after.server["removed"][numbers].tolist() == (~kept).sum(dim=1).tolist()
    assert float(after.server["removed"].sum()) == 12  # of four parties one, on every public row


class Lying(Cronus):
    """Parties 0 and 1 are sure of the last class, and shout."""

    def report(self, party):
        told, state = super().report(party)
        lie = torch.zeros_like(told["scores"])
        lie[:, -1] = 5
        return {"scores": torch.where(party.number < 2, lie, told["scores"])}, state


def test_liars_do_not_reach_the_scores_that_parties_learn():
    heard = {}
    for name, algorithm in (("robust", Lying(outliers=0.34)), ("mean", Lying(outliers=0.0))):
        run = use_algorithm(small_simulation("cronus", sample=1.0, engine="sequential"), algorithm)
        heard[name] = play(run, 1).state
    assert heard["robust"].server["removed"].tolist() == [12, 12, 0, 0, 0, 0]
    assert float(heard["mean"].server["scores"].max()) > 1
    assert float(heard["robust"].server["scores"].max()) < 1
    assert torch.allclose(heard["robust"].server["scores"].sum(dim=1), torch.ones(12), atol=1e-5)


def test_own_rows_are_learnt_by_label_and_public_ones_by_the_mean():
    """PyTorch's cross-entropy on both kinds of rows in one batch; the labels of public rows are not looked at."""
    simulation = simulation_of("cronus", [4, 5], public=0.2)
    task, public = simulation.task, simulation.task.public
    table = torch.rand(len(public.y), 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x, y = own_rows(simulation, 1)
    me = party_of(simulation, "", 1, received={"scores": table})
    assert int(me.size) == len(y)
    taken = torch.tensor([2, 0, 3])
    for labels in (public.y[taken], (public.y[taken] + 1) % 3):
        batch = Batch(
            torch.cat([x[:4], public.x[taken]]),
            torch.cat([y[:4], labels]),
            index=torch.cat([torch.arange(4), len(y) + taken]),
        )
        logits = task.logits(simulation.initial, batch)
        expected = (
            functional.cross_entropy(logits[:4], y[:4], reduction="sum")
            + functional.cross_entropy(logits[4:], table[taken], reduction="sum")
        ) / 7
        assert torch.allclose(Cronus().loss(me, simulation.initial, batch), expected, atol=1e-12)


def test_first_everybody_trains_alone():
    simulation = simulation_of("cronus(alone=2, outliers=0)", [4, 5], public=0.2)
    said = recorded(simulation)
    play(simulation, 1)
    assert len(said) == 3  # before round 1, and two exchanges
    alone = simulation_of("local", [4, 5], public=0.2)
    models = play(alone, 1).models(alone.state).personal  # two epochs on whole rows
    scores = [alone.task.logits(models(k)[0], alone.task.public).softmax(dim=1) for k in (0, 1)]
    for number in (0, 1):
        assert torch.allclose(said[1].each[number]["scores"], scores[number], atol=1e-10)
    fresh = simulation_of("cronus(alone=0)", [4, 5], public=0.2)
    said = recorded(fresh)
    play(fresh, 1)
    untrained = fresh.task.logits(fresh.initial, fresh.task.public).softmax(dim=1)
    assert torch.allclose(said[0].each[0]["scores"], untrained, atol=1e-10)


def test_sums_are_not_enough():
    with pytest.raises(UserError, match="needs to see single uploads"):
        small_simulation("cronus", sample=1.0, channel="masked")


@pytest.mark.parametrize("text", ["cronus(alone=-1)", "cronus(outliers=0.5)", "cronus(spread=-1)"])
def test_values_that_mean_nothing_are_refused(text):
    with pytest.raises(UserError, match="must be at least 0"):
        small_simulation(text)
