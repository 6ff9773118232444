"""Federated transfer learning: the paper's joint objective, descended to by two parties."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from tests.algorithms.vertical.checking import check_columns
from tests.algorithms.vertical.talking import joined, people, play, predicted, roles_of, terms_of
from unalike.algorithms.vertical.batches import batches
from unalike.algorithms.vertical.ftl import TransferLearning
from unalike.algorithms.vertical.split_net import SplitNet
from unalike.errors import UserError
from unalike.models.mlp import Mlp
from unalike.models.simple_cnn import SimpleCnn
from unalike.vertical.leak import area
from unalike.vertical.transfer import TransferredNet

MODEL = Mlp((5,))
WAYS = [
    {"loss": loss, "distance": distance, "translator": translator, "alignment": 0.3, "l2": 0.01, "width": 4}
    for loss, distance, translator in itertools.product(
        ("taylor", "logistic"), ("square", "product"), ("mean", "balanced")
    )
]


def net_with(weights, columns, width):
    net = nn.Sequential(nn.Linear(columns, 5), nn.ReLU(), nn.Linear(5, width), nn.Tanh()).double()
    nn.utils.vector_to_parameters(torch.from_numpy(weights.copy()), net.parameters())
    return net


def objective(ours, theirs, xa, ya, xb, common, way):
    """The paper's objective, with means, written down from its equations; ``common`` are rows of both tables."""
    ua, ub = ours(xa), theirs(xb)
    if way["translator"] == "mean":
        translator = (ya[:, :, None] * ua[:, None, :]).mean(0)
    else:
        sides = [[ua[ya[:, k] == sign].mean(0) for sign in (1, -1)] for k in range(ya.shape[1])]
        translator = torch.stack([(own - rest) / 2 for own, rest in sides])
    scores, y = ub[common] @ translator.T, ya[common]
    if way["loss"] == "taylor":
        label = np.log(2) - y * scores / 2 + (y * scores) ** 2 / 8
    else:
        label = torch.log(1 + torch.exp(-y * scores))
    if way["distance"] == "square":
        apart = ((ua[common] - ub[common]) ** 2).sum(1).mean()
    else:
        apart = -(ua[common] * ub[common]).sum(1).mean()
    weights = [*ours.parameters(), *theirs.parameters()]
    penalty = way["l2"] / 2 * sum((w**2).sum() for w in weights)
    value = label.sum(1).mean() + way["alignment"] * apart
    return value, value + penalty, translator


def signs(y, classes):
    return torch.tensor(
        [[1.0 if (c == k) else -1.0 for k in ([1] if classes == 2 else range(classes))] for c in y]
    )


def central(blocks, y, apart, terms, states, way):
    """Both nets trained in one place by the derivatives that torch finds of the joint objective."""
    leader = terms.label_holder
    ours, theirs = (net_with(states[k]["weights"], blocks[k].shape[1], way["width"]) for k in (leader, 1 - leader))
    xa = torch.from_numpy(np.concatenate([blocks[leader], apart]))
    xb, ya = torch.from_numpy(blocks[1 - leader]), signs(y, terms.classes).double()
    losses = []
    for round in range(1, terms.rounds + 1):
        found = []
        for batch in batches(terms, len(blocks[0]), round):
            value, whole, _ = objective(ours, theirs, xa, ya, xb, batch, way)
            weights = [*ours.parameters(), *theirs.parameters()]
            with torch.no_grad():
                for weight, gradient in zip(weights, torch.autograd.grad(whole, weights), strict=True):
                    weight -= terms.pace.lr * gradient
            found.append(value.item())
        losses.append(np.mean(found))
    return ours, theirs, objective(ours, theirs, xa, ya, xb, np.arange(len(blocks[0])), way)[2], losses


def flat(net):
    return nn.utils.parameters_to_vector(net.parameters()).detach().numpy()


def transfer_people(classes=2, rows=60, apart=40, leader=0, seed=3):
    """Two blocks of people, and rows with labels that the label holder alone knows."""
    blocks, y = people(rows + apart, (3, 4), classes, seed)
    extra = blocks[leader][rows:]
    return [block[:rows] for block in blocks], y, extra


def roles_with(terms, blocks, y, extra):
    """Roles where the label holder has labels of its rows apart too."""
    found = roles_of(terms, blocks, y[: len(blocks[0])], apart={terms.label_holder: extra})
    for me in found:
        if me.number == terms.label_holder:
            object.__setattr__(me.rows, "y", y)
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("classes", "leader"), [(2, 0), (2, 1), (3, 1)])
def test_it_descends_the_joint_objective(way, classes, leader):
    blocks, y, extra = transfer_people(classes, leader=leader)
    terms = terms_of(blocks, y, model=MODEL, classes=classes, label_holder=leader, lr=0.3, batch_size=25, rounds=4)
    roles, protocol = roles_with(terms, blocks, y, extra), TransferLearning(**way)
    first = {me.number: protocol.start(me) for me in roles}
    ours, theirs, translator, losses = central(blocks, y, extra, terms, first, way)
    states, spoken = play(protocol, roles)
    for number, net in ((leader, ours), (1 - leader, theirs)):
        assert np.abs(states[number]["weights"] - first[number]["weights"]).max() > 1e-3
        np.testing.assert_allclose(states[number]["weights"], flat(net), rtol=0, atol=1e-12)
    np.testing.assert_allclose(states[leader]["translator"], translator.detach().numpy(), rtol=0, atol=1e-12)
    assert [each.figures["train_loss"] for each in spoken[1:]] == pytest.approx(losses, abs=1e-12)
    turns = len(batches(terms, 60, 1)) * (1 if way["loss"] == "taylor" else 2) + 1
    assert [each.turns for each in spoken] == [1, *[turns] * 4]


@pytest.mark.parametrize(("way", "classes", "leader"), [(WAYS[0], 2, 1), (WAYS[7], 3, 0)])
def test_it_holds_the_contract(way, classes, leader):
    blocks, y = people(70, (3, 4), classes)
    check_columns(
        TransferLearning(**way),
        blocks,
        y,
        model=MODEL,
        classes=classes,
        label_holder=leader,
        batch_size=30,
        lr=0.1,
    )


def test_alone_it_scores_its_own_rows():
    blocks, y, extra = transfer_people()
    own = [blocks[0]]
    terms = terms_of(own, y, model=MODEL, lr=0.3, batch_size=25, rounds=3)
    roles, protocol = roles_with(terms, own, y, extra), TransferLearning(**WAYS[0])
    states = {me.number: protocol.start(me) for me in roles}
    net, x = net_with(states[0]["weights"], 3, 4), torch.from_numpy(np.concatenate([blocks[0], extra]))
    labels = signs(y, 2).double()
    for round in range(1, 4):
        for batch in batches(terms, 60, round):
            made = net(x)
            agree = labels[batch] * (made[batch] @ (labels * made).mean(0)[:, None])
            loss = (np.log(2) - agree / 2 + agree**2 / 8).mean()
            penalty = 0.005 * sum((w**2).sum() for w in net.parameters())
            found = torch.autograd.grad(loss + penalty, list(net.parameters()))
            with torch.no_grad():
                for weight, gradient in zip(net.parameters(), found, strict=True):
                    weight -= 0.3 * gradient
    states, _ = play(protocol, roles)
    np.testing.assert_allclose(states[0]["weights"], flat(net), rtol=0, atol=1e-12)


def test_without_alignment_the_polynomial_is_least_squares_to_twice_the_label():
    blocks, y, _ = transfer_people(rows=12, apart=0)
    terms = terms_of(blocks, y, model=Mlp((20,)), lr=1.0, batch_size=12, epochs=700.0, rounds=1)
    protocol = TransferLearning(alignment=0.0, l2=0.0, loss="taylor")
    roles = roles_of(terms, blocks, y)
    states, spoken = play(protocol, roles)
    scores = predicted(protocol, roles, states, blocks)[:, 0]
    # log 2 - y f / 2 + f^2 / 8 = log 2 - 1/2 + (f - 2 y)^2 / 8
    np.testing.assert_allclose(scores, np.where(y > 0, 2.0, -2.0), atol=0.2)
    assert spoken[-1].figures["train_loss"] == pytest.approx(np.log(2) - 0.5, abs=0.02)


def planted(seed, common, widths, noises):
    """Two causes that both see through columns of their own; the first people are common, all of one class."""
    random = np.random.default_rng(seed)
    causes = random.normal(size=(4000, 2))
    seen = [
        causes @ random.normal(size=(2, width)) / np.sqrt(2) + noise * random.normal(size=(len(causes), width))
        for width, noise in zip(widths, noises, strict=True)
    ]
    y = (causes @ random.normal(size=2) > 0).astype(np.int64)
    first = np.flatnonzero(y == 0)[:common]
    order = np.concatenate([first, np.setdiff1d(np.arange(len(y)), first)])[: common + 1600]
    return *(block[order] for block in seen), y[order]


def areas(common, seeds, *given):
    """How B's columns rank people unknown to A: trained with A's labels, and by those of common people."""
    found = []
    for seed in range(seeds):
        xa, xb, y = planted(seed, common, *given)
        known, pace = common + 600, {"batch_size": common, "epochs": 50.0, "rounds": 1}
        blocks, rest = [xa[:common], xb[:common]], slice(common + 600, None)
        terms = terms_of(blocks, y[:known], model=Mlp((16,)), lr=0.3, **pace)
        roles = roles_with(terms, blocks, y[:known], xa[common:known])
        protocol = TransferLearning(alignment=0.1, distance="product")
        states, _ = play(protocol, roles)
        ours = predicted(protocol, roles, states, [xa[rest], xb[rest]])
        terms = terms_of([blocks[1]], y[:common], model=Mlp((16,)), lr=0.1, **pace)
        roles, protocol = roles_of(terms, [blocks[1]], y[:common]), SplitNet()
        states, _ = play(protocol, roles)
        alone = predicted(protocol, roles, states, [xb[rest]])
        found.append([area(margins[:, 0], y[rest] == 1) for margins in (ours, alone)])
    return np.mean(found, axis=0)


def test_it_transfers_where_common_people_are_all_of_one_class():
    transferred, alone = areas(40, 5, (8, 6), (0.3, 0.3))
    assert transferred > 0.9
    assert transferred > alone + 0.05


def test_the_joined_model_reads_the_partners_columns_alone():
    blocks, y, extra = transfer_people(leader=1)
    terms = terms_of(blocks, y, model=MODEL, label_holder=1, rounds=1)
    roles, protocol = roles_with(terms, blocks, y, extra), TransferLearning(width=4)
    states, _ = play(protocol, roles)
    arrays = joined(protocol, roles, states)
    model = TransferredNet.of(arrays, MODEL, 2)
    x = np.concatenate(blocks, axis=1)
    other = x.copy()
    other[:, 3:] = np.nan
    assert model.margins(x).tobytes() == model.margins(other).tobytes()
    for name, wrong in (
        ("translator", arrays["translator"].astype(np.float32)),
        ("translator", arrays["translator"][:0]),
        ("weights", arrays["weights"][:-1]),
        ("weights", arrays["weights"] * np.nan),
        ("columns", arrays["columns"] - 1),
    ):
        with pytest.raises(ValueError):
            TransferredNet.of(arrays | {name: wrong}, MODEL, 2)
    with pytest.raises(ValueError):
        model.margins(x[:, :2])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"blocks": 3}, r"ftl is between two parties, got 3\. Use --partition"),
        ({"classes": 0}, r"the target is a number\. Use --algorithm split-net"),
        ({"model": SimpleCnn()}, r"ftl trains an mlp, not SimpleCnn: .*flat block of columns"),
    ],
)
def test_what_it_cannot_train(change, line):
    blocks, y = people(30, (3, 4, 2)[: change.get("blocks", 2)], change.get("classes", 2))
    terms = terms_of(blocks, y, model=change.get("model", MODEL), classes=change.get("classes", 2))
    with pytest.raises(UserError, match=line):
        play(TransferLearning(), roles_of(terms, blocks, y))


@pytest.mark.parametrize("options", [{"width": 0}, {"alignment": -1.0}, {"l2": float("inf")}])
def test_options_have_bounds(options):
    with pytest.raises(UserError, match=f"ftl: {next(iter(options))} must be .* Use "):
        TransferLearning(**options)


def test_a_run_that_runs_away_says_so():
    blocks, y, extra = transfer_people()
    terms = terms_of(blocks, y, model=MODEL, lr=1e30, rounds=3)
    with pytest.raises(UserError, match=r"beyond all bounds in round \d\. Use a smaller --lr"):
        play(TransferLearning(), roles_with(terms, blocks, y, extra))


def test_consent_says_what_is_learnt():
    terms = terms_of(*transfer_people()[:2], model=MODEL)
    assert "labels of all common people" in TransferLearning().learns(terms)["other holders"]
    assert "derivatives" in TransferLearning(loss="logistic").learns(terms)["other holders"]
    assert TransferLearning(width=9).learns(terms)["label holder"].startswith("9 numbers")
