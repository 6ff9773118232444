"""The split net: the bits of training the joint net, however its parts are spread."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.algorithms.vertical.checking import check_columns
from tests.algorithms.vertical.talking import people, play, predicted, roles_of, terms_of
from unalike.algorithms.vertical.batches import batches
from unalike.algorithms.vertical.split_net import SplitNet
from unalike.models.mlp import Mlp

MODEL = Mlp((6, 4))


class Joint(nn.Module):
    """The joint net, written down once more: a body for each block of columns, and a head."""

    def __init__(self, widths, hidden, outputs, merge="concat", top=()):
        super().__init__()
        self.bodies = nn.ModuleList()
        for width in widths:
            layers = []
            for a, b in zip((width, *hidden), hidden, strict=False):
                layers += [nn.Linear(a, b), nn.ReLU()]
            self.bodies.append(nn.Sequential(*layers))
        layers, wide = [], hidden[-1] * (len(widths) if merge == "concat" else 1)
        for width in top:
            layers += [nn.Linear(wide, width), nn.ReLU()]
            wide = width
        self.head = nn.Sequential(*layers, nn.Linear(wide, outputs))
        self.merge, self.widths = merge, widths

    def forward(self, x):
        parts = [body(part) for body, part in zip(self.bodies, x.split(self.widths, 1), strict=True)]
        return self.head(torch.cat(parts, 1) if self.merge == "concat" else sum(parts[1:], parts[0]))


def flat(module):
    return np.concatenate([p.detach().numpy().ravel() for p in module.parameters()])


def put(module, weights):
    nn.utils.vector_to_parameters(torch.from_numpy(weights.copy()), module.parameters())


def loss_of(scores, y, classes, terms):
    if classes == 0:
        standard = (y - terms.target[0]) / terms.target[1]
        return ((scores[:, 0] - torch.from_numpy(standard.astype(np.float32))) ** 2).mean()
    if classes == 2:
        return functional.binary_cross_entropy_with_logits(scores[:, 0], torch.from_numpy(y).float())
    return functional.cross_entropy(scores, torch.from_numpy(y))


def joint_training(blocks, y, terms, states, merge="concat", top=(), momentum=0.0):
    """The joint net trained by plain torch from the parties' first weights, and the mean loss of each round."""
    outputs = 1 if terms.classes in (0, 2) else terms.classes
    net = Joint([b.shape[1] for b in blocks], MODEL.hidden, outputs, merge, top)
    for party, body in enumerate(net.bodies):
        put(body, states[party]["body"])
    put(net.head, states[terms.label_holder]["head"])
    x, losses = torch.from_numpy(np.concatenate(blocks, axis=1).astype(np.float32)), []
    optimiser = torch.optim.SGD(net.parameters(), lr=1.0, momentum=momentum)
    for round in range(1, terms.rounds + 1):
        optimiser.param_groups[0]["lr"] = terms.pace.lr * terms.pace.lr_decay ** (round - 1)
        found = []
        for batch in batches(terms, len(y), round):
            optimiser.zero_grad()
            loss = loss_of(net(x[batch]), y[batch], terms.classes, terms)
            loss.backward()
            optimiser.step()
            found.append(loss.item())
        losses.append(np.mean(found))
    return net, losses


@pytest.mark.parametrize("classes", [2, 3, 0])
@pytest.mark.parametrize(
    ("options", "label_holder"),
    [({}, 0), ({"merge": "sum", "momentum": 0.9}, 2), ({"top": (5, 3), "momentum": 0.5}, 1)],
)
def test_it_has_the_bits_of_the_joint_net(classes, options, label_holder):
    blocks, y = people(classes=classes)
    terms = terms_of(
        blocks, y, model=MODEL, classes=classes, label_holder=label_holder, lr=0.05, lr_decay=0.9, epochs=2.0
    )
    roles, protocol = roles_of(terms, blocks, y), SplitNet(**options)
    first = {me.number: protocol.start(me) for me in roles}
    net, losses = joint_training(blocks, y, terms, first, **options)
    states, spoken = play(protocol, roles)
    for party, body in enumerate(net.bodies):
        assert not (states[party]["body"] == first[party]["body"]).all()
        assert states[party]["body"].tobytes() == flat(body).tobytes()
    assert states[label_holder]["head"].tobytes() == flat(net.head).tobytes()
    assert [each.figures["train_loss"] for each in spoken[1:]] == pytest.approx(losses, rel=1e-12)
    assert losses[-1] < losses[0]
    with torch.no_grad():
        whole = net(torch.from_numpy(np.concatenate(blocks, axis=1).astype(np.float32))).numpy()
    np.testing.assert_allclose(predicted(protocol, roles, states, blocks), whole, atol=2e-6)


@pytest.mark.parametrize(
    ("options", "classes", "label_holder"),
    [
        ({}, 2, 1),
        ({"merge": "sum", "top": (3,), "momentum": 0.5}, 3, 0),
        ({"clip": 0.7, "noise": 0.3, "gradient_noise": 1.0}, 0, 2),
    ],
)
def test_it_holds_the_contract(options, classes, label_holder):
    blocks, y = people(90, classes=classes)
    pace = {"batch_size": 32, "lr": 0.1}
    check_columns(SplitNet(**options), blocks, y, model=MODEL, classes=classes, label_holder=label_holder, **pace)
