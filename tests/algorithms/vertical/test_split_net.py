"""The split net: the bits of training the joint net, however its parts are spread."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.algorithms.vertical.checking import check_columns
from tests.algorithms.vertical.talking import joined, people, play, predicted, roles_of, terms_of
from unalike.algorithms.vertical.batches import batches
from unalike.algorithms.vertical.split_net import SplitNet
from unalike.errors import UserError
from unalike.models.mlp import Mlp
from unalike.models.simple_cnn import SimpleCnn
from unalike.rounds.conversation import InProcess, converse
from unalike.vertical.block_net import BlockNet
from unalike.vertical.leak import by_direction, by_norm

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
        # A party has a table of its own: the last bits of a product may depend on where in memory numbers begin.
        own = [part.contiguous() for part in x.split(self.widths, 1)]
        parts = [body(part) for body, part in zip(self.bodies, own, strict=True)]
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


class Listening(InProcess):
    """Keeps what was mailed, by name, round and turn."""

    def __init__(self, *given):
        super().__init__(*given)
        self.heard = {}

    def turn(self, turn, inboxes):
        said = super().turn(turn, inboxes)
        for sender, say in said.items():
            for receiver, arrays in say.mail.items():
                for name, array in arrays.items():
                    self.heard[name, sender, receiver, turn.number] = array
        return said


def first_round(protocol, rows=400, seed=1):
    """What is mailed in the first round of two parties, the labels, and who is in which batch."""
    blocks, y = people(rows, (3, 4), seed=seed)
    terms = terms_of(blocks, y, model=MODEL, batch_size=50)
    roles = roles_of(terms, blocks, y)
    carrier = Listening(protocol, roles, {me.number: protocol.start(me) for me in roles})
    converse(carrier, [me.number for me in roles], 1)
    return carrier.heard, y, batches(terms, rows, 1)


def test_embeddings_are_clipped_and_perturbed():
    plain, _, _ = first_round(SplitNet())
    clipped, _, _ = first_round(SplitNet(clip=0.1))
    noisy, _, _ = first_round(SplitNet(clip=0.1, noise=2.0))
    place = "embedding", 1, 0, 0
    lengths = np.linalg.norm(plain[place], axis=1)
    assert lengths.max() > 0.15
    short = plain[place] * np.minimum(1, 0.1 / np.maximum(lengths, 1e-12))[:, None]
    np.testing.assert_allclose(clipped[place], short, atol=1e-6)
    noise = noisy[place] - clipped[place]
    assert noise.std() == pytest.approx(0.2, rel=0.15)
    assert abs(noise.mean()) < 0.05


def test_noise_is_drawn_anew_for_each_batch_and_kept_by_nobody_else():
    heard, _, _ = first_round(SplitNet(clip=0.1, noise=1e6))
    first, second = heard["embedding", 1, 0, 0], heard["embedding", 1, 0, 2]
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.3
    blocks, y = people(400, (3, 4), seed=1)
    terms = terms_of(blocks, y, model=MODEL, batch_size=50)
    one, two = (me for me in roles_of(terms, blocks, y) if me.number >= 0)
    starts = [SplitNet().start(me)["body"] for me in (one, two)]
    assert not np.isin(starts[0], starts[1]).any()


def seen_derivatives(protocol):
    """What a holder was told of each person, and the labels."""
    heard, y, found = first_round(protocol)
    derivatives = np.zeros((len(y), MODEL.hidden[-1]))
    for number, batch in enumerate(found):
        derivatives[batch] = heard["gradient", 0, 1, 2 * number + 1]
    return derivatives, y


def test_derivatives_show_labels_until_noise_hides_them():
    plain, y = seen_derivatives(SplitNet())
    assert by_direction(plain, y) > 0.95
    noisy, _ = seen_derivatives(SplitNet(gradient_noise=4.0))
    assert by_direction(noisy, y) < 0.7
    assert by_norm(noisy, y) < 0.65
    added = noisy[:1] - plain[:1]
    assert np.isfinite(added).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_threads_or_on_who_else_is_predicted(threads):
    blocks, y = people(700)
    terms = terms_of(blocks, y, model=MODEL, batch_size=350, rounds=1)
    roles, protocol = roles_of(terms, blocks, y), SplitNet(top=(3,))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        states, _ = play(protocol, roles)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    again, _ = play(protocol, roles_of(terms, blocks, y))
    assert all(states[k]["body"].tobytes() == again[k]["body"].tobytes() for k in range(3))
    whole = predicted(protocol, roles, states, blocks)
    some = np.random.default_rng(0).permutation(700)[:291]
    assert predicted(protocol, roles, states, [b[some] for b in blocks]).tobytes() == whole[some].tobytes()
    assert predicted(protocol, roles, states, [b[:0] for b in blocks]).shape == (0, 1)


def test_a_joined_net_that_is_none_is_refused():
    blocks, y = people(40)
    terms = terms_of(blocks, y, model=MODEL, rounds=1)
    roles, protocol = roles_of(terms, blocks, y), SplitNet(merge="sum")
    arrays = joined(protocol, roles, play(protocol, roles)[0])
    model, x = BlockNet.of(arrays, MODEL, 2), np.concatenate(blocks, axis=1)
    assert model.margins(x).shape == (40, 1)
    assert model.sha256 != BlockNet.of(arrays | {"head": arrays["head"] + 1}, MODEL, 2).sha256
    for name, wrong in (
        ("bodies", arrays["bodies"][:-1]),
        ("bodies", arrays["bodies"].astype(np.float64)),
        ("head", arrays["head"] * np.nan),
        ("columns", arrays["columns"] - 1),
        ("counts", arrays["counts"] + 1),
        ("merge", arrays["merge"] + 7),
        ("top", np.array([0])),
        ("clip", np.array([-1.0])),
    ):
        with pytest.raises(ValueError):
            BlockNet.of(arrays | {name: wrong}, MODEL, 2)
    with pytest.raises(ValueError):
        BlockNet.of({name: array for name, array in arrays.items() if name != "head"}, MODEL, 2)
    with pytest.raises(ValueError, match="at least 9 numbers"):
        model.margins(x[:, :8])


def test_what_it_cannot_train():
    blocks, y = people(30)
    with pytest.raises(UserError, match=r"split-net trains an mlp, not SimpleCnn: .* flat block of columns"):
        play(SplitNet(), roles_of(terms_of(blocks, y, model=SimpleCnn()), blocks, y))
    blocks[1][3, 2] = np.nan
    with pytest.raises(UserError, match=r"Party 1 has 1 missing .* Use missing=indicate"):
        play(SplitNet(), roles_of(terms_of(blocks, y, model=MODEL), blocks, y))
    nobody = [block[:0] for block in blocks]
    with pytest.raises(UserError, match=r"there is none\. Match ids again"):
        play(SplitNet(), roles_of(terms_of(blocks, y, model=MODEL), nobody, y[:0]))


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
    terms = terms_of(blocks, y, model=MODEL, classes=0, lr=1e6)
    with pytest.raises(UserError, match=r"beyond all bounds in round \d\. Use a smaller --lr, it is 1e\+06"):
        play(SplitNet(), roles_of(terms, blocks, y))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"top": (0,)}, "widths of top must be 1 or more"),
        ({"momentum": 1.0}, "momentum must be from 0 to below 1"),
        ({"noise": 0.5}, "Say one with clip=1"),
        ({"clip": -1.0}, "clip must be 0 or more"),
        ({"gradient_noise": float("inf")}, "gradient_noise must be 0 or more"),
    ],
)
def test_options_have_bounds(options, line):
    with pytest.raises(UserError, match=line):
        SplitNet(**options)


def test_consent_says_what_is_learnt():
    blocks, y = people(30)
    terms = terms_of(blocks, y, model=MODEL)
    assert SplitNet().learns(terms)["label holder"].startswith("4 numbers that each holder's net")
    told = SplitNet(clip=1.0, noise=0.5, gradient_noise=2.0).learns(terms)
    assert "noise of 0.5 times" in told["label holder"]
    assert "noise of 2 times" in told["other holders"]
