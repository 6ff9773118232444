"""Federated transfer learning: the paper's joint objective, descended to by two parties."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from tests.algorithms.vertical.checking import check_columns
from tests.algorithms.vertical.talking import people, play, roles_of, terms_of
from unalike.algorithms.vertical.batches import batches
from unalike.algorithms.vertical.ftl import TransferLearning
from unalike.models.mlp import Mlp

MODEL = Mlp((5,))
WAYS = [
    {"loss": loss, "distance": distance, "alignment": 0.3, "l2": 0.01, "width": 4}
    for loss, distance in itertools.product(("taylor", "logistic"), ("square", "product"))
]


def net_with(weights, columns, width):
    net = nn.Sequential(nn.Linear(columns, 5), nn.ReLU(), nn.Linear(5, width)).double()
    nn.utils.vector_to_parameters(torch.from_numpy(weights.copy()), net.parameters())
    return net


def objective(ours, theirs, xa, ya, xb, common, way):
    """The paper's objective, with means, written down from its equations; ``common`` are rows of both tables."""
    ua, ub = ours(xa), theirs(xb)
    translator = (ya[:, :, None] * ua[:, None, :]).mean(0)
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


@pytest.mark.parametrize(("way", "classes", "leader"), [(WAYS[0], 2, 1), (WAYS[3], 3, 0)])
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
