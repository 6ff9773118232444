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
from unalike.errors import UserError
from unalike.models.mlp import Mlp
from unalike.rounds.conversation import InProcess

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


def heard(protocol, blocks, y, name, party=1, **terms):
    """What the label holder hears of a party in the first batch ("embedding"), or the party of it ("gradient")."""
    roles = roles_of(terms_of(blocks, y, model=MODEL, rounds=1, **terms), blocks, y)
    seen = []

    class Keeping(InProcess):
        def turn(self, turn, inboxes):
            said = super().turn(turn, inboxes)
            seen.extend(
                arrays[name]
                for sender, say in said.items()
                for to, arrays in say.mail.items()
                if name in arrays and party in (sender, to)
            )
            return said

    play(protocol, roles, carrier=Keeping)
    return seen[0].astype(np.float64)


def test_noise_is_as_strong_as_it_says():
    blocks, y = people(400)
    pace = {"batch_size": 400, "epochs": 1.0}
    plain = heard(SplitNet(clip=0.5), blocks, y, "embedding", **pace)
    lengths = np.linalg.norm(plain, axis=1)
    assert lengths.max() == pytest.approx(0.5, abs=1e-6)
    whole = heard(SplitNet(), blocks, y, "embedding", **pace)
    short = np.linalg.norm(whole, axis=1) < 0.5
    assert np.allclose(plain[short], whole[short])
    noise = heard(SplitNet(clip=0.5, noise=3.0), blocks, y, "embedding", **pace) - plain
    assert noise.std() == pytest.approx(1.5, rel=0.1)
    assert abs(noise.mean()) < 0.15
    other = heard(SplitNet(clip=0.5, noise=3.0), blocks, y, "embedding", party=2, **pace)
    plain = heard(SplitNet(clip=0.5), blocks, y, "embedding", party=2, **pace)
    assert abs(np.corrcoef((other - plain).ravel(), noise.ravel())[0, 1]) < 0.15, "each draws its own"


def test_derivatives_are_hidden_by_noise_of_the_longest_ones_length():
    blocks, y = people(400)
    pace = {"batch_size": 400, "epochs": 1.0}
    plain = heard(SplitNet(), blocks, y, "gradient", **pace)
    noise = heard(SplitNet(gradient_noise=2.0), blocks, y, "gradient", **pace) - plain
    longest = np.linalg.norm(plain, axis=1).max()
    assert np.sqrt((noise**2).sum(axis=1).mean()) == pytest.approx(2 * longest, rel=0.1)


@pytest.mark.parametrize("party", [0, 1])
def test_missing_values_are_refused_with_who_has_them(party):
    blocks, y = people(30)
    blocks[party][4, 1] = np.nan
    with pytest.raises(UserError, match=f"Party {party} has 1 missing or infinite values"):
        play(SplitNet(), roles_of(terms_of(blocks, y, model=MODEL), blocks, y))


def test_training_that_runs_away_says_so():
    blocks, y = people(60, classes=0)
    with pytest.raises(UserError, match=r"beyond all bounds in round \d\. Use a smaller --lr"):
        play(SplitNet(), roles_of(terms_of(blocks, y, model=MODEL, classes=0, lr=1e15), blocks, y))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"momentum": 1.0}, "momentum must be from 0 to below 1, got 1. Use 0.9."),
        ({"clip": -1.0}, "clip must be 0 or more, got -1. Use 0 for none."),
        ({"gradient_noise": float("inf")}, "gradient_noise must be 0 or more, got inf. Use 0 for none."),
        ({"noise": 1.0}, "noise=1 is counted in greatest lengths of a row. Say one with clip=1."),
        ({"top": (0,)}, "the widths of top must be 1 or more"),
    ],
)
def test_options_have_bounds(options, problem):
    with pytest.raises(UserError) as caught:
        SplitNet(**options)
    assert problem in str(caught.value)
