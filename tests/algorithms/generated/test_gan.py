"""Generators and judges as functions of flat vectors, and batches with made rows among them."""

import pytest
import torch
from torch.nn import functional

from tests.algorithms.generated.helpers import pictures, simulation_of
from unalike.algorithms.generated import learning
from unalike.algorithms.generated.gan import Gan, both, filled
from unalike.errors import UserError
from unalike.models import MODELS, Task
from unalike.models.batch import Batch


def task_of(shape, classes=3, **more):
    return Task(lambda: MODELS.build("logistic").build(shape, classes or 1), shape=shape, classes=classes, **more)


def batch_of(rows, key=7, step=0, classes=3):
    y = torch.arange(rows) % classes
    return Batch(torch.zeros(rows, 2), y, training=True, key=torch.tensor(key), step=step)


@pytest.mark.parametrize("shape", [(5,), (1, 28, 28), (3, 32, 32), (2, 5, 7), (1, 1, 3), (4, 6)])
@pytest.mark.parametrize("classes", [0, 3])
def test_rows_of_any_shape_are_made_and_judged(shape, classes):
    gan = Gan.of(task_of(shape, classes, dtype=torch.float64), 4)
    y = torch.tensor([0, 2])
    x = gan.made(gan.generator.initial(), torch.randn(2, 4, dtype=torch.float64), y)
    assert x.shape == (2, *shape)
    assert x.dtype == torch.float64
    assert gan.score(gan.judge.initial(), x, y).shape == (2,)


def test_rows_are_made_and_judged_for_their_label_alone():
    gan = Gan.of(task_of((5,)), 4)
    g, d, z = gan.generator.initial(), gan.judge.initial(), torch.linspace(-1, 1, 4).expand(3, 4)
    x = gan.made(g, z, torch.tensor([0, 1, 1]))
    assert torch.allclose(x[1], x[2], atol=1e-6)
    assert not torch.allclose(x[0], x[1])
    scores = gan.score(d, x[:1].expand(3, 5), torch.tensor([0, 1, 1]))
    assert torch.allclose(scores[1], scores[2], atol=1e-6)
    assert not torch.allclose(scores[0], scores[1])


def test_both_losses_are_the_cross_entropies_and_each_moves_its_own_net():
    gan = Gan.of(task_of((5,), dtype=torch.float64), 4)
    g, d = gan.generator.initial().requires_grad_(), gan.judge.initial().requires_grad_()
    x, z, y = torch.randn(6, 5).double(), torch.randn(6, 4).double(), torch.arange(6) % 3
    bce, made = functional.binary_cross_entropy_with_logits, gan.made(g, z, y)
    ones, zeros = torch.ones(6).double(), torch.zeros(6).double()
    told = bce(gan.score(d, x, y), ones) + bce(gan.score(d, made, y), zeros)
    passed = bce(gan.score(d, made, y), ones)
    mean = both(gan, g, d, x, y, z, 0.5).mean()
    assert float(mean.detach()) == pytest.approx(float((told + 0.5 * passed).detach()))
    found = torch.autograd.grad(mean, [g, d])
    (by_g,) = torch.autograd.grad(passed, g, retain_graph=True)
    (by_d,) = torch.autograd.grad(told, d)
    assert torch.allclose(found[0], 0.5 * by_g, atol=1e-12)
    assert torch.allclose(found[1], by_d, atol=1e-12)


def test_a_filled_batch_has_made_rows_of_each_label_in_its_share():
    fill = torch.tensor([0.1, 0.0, 0.4])
    batch = batch_of(30_000)
    seen = filled(batch, fill, lambda y: torch.stack([y + 1.0, y + 1.0], dim=1))
    made = seen.x[:, 0] > 0
    assert torch.equal(seen.x[made], (seen.y[made] + 1.0)[:, None].expand(-1, 2))
    assert torch.equal(seen.y[~made], batch.y[~made])
    shares = [float((made & (seen.y == label)).double().mean()) for label in range(3)]
    assert shares == pytest.approx(fill.tolist(), abs=0.01)
    # Whether a row stays has nothing to do with its label.
    assert [float((batch.y[~made] == label).double().mean()) for label in range(3)] == pytest.approx(
        [1 / 3] * 3, abs=0.01
    )
    other = filled(batch_of(30_000, step=1), fill, lambda y: torch.ones(len(y), 2))
    assert not torch.equal(other.x > 0, seen.x > 0)


def test_a_batch_filled_with_nothing_is_as_it_was():
    batch = batch_of(50)
    seen = filled(batch, torch.zeros(3), lambda y: torch.full((len(y), 2), float("nan")))
    assert torch.equal(seen.x, batch.x)
    assert torch.equal(seen.y, batch.y)


def test_words_are_refused():
    gan = Gan.of(task_of((5,)), 4)
    with pytest.raises(UserError, match="not of words"):
        gan.score(gan.judge.initial(), torch.zeros(2, 5, dtype=torch.int64), torch.zeros(2))


def test_the_servers_steps_are_those_of_torchs_adam():
    target = torch.tensor([1.0, -2.0, 0.5])
    w = torch.zeros(3, requires_grad=True)
    adam = torch.optim.Adam([w], lr=0.1, betas=(0.5, 0.999))
    for _ in range(7):
        adam.zero_grad()
        ((w - target) ** 4).sum().backward()
        adam.step()
    task = task_of((5,))
    found = learning.learnt(task, torch.zeros(3), lambda v, step: ((v - target) ** 4).sum(), 7, 0.1)
    assert torch.allclose(found, w.detach(), atol=1e-6)
    task.rehearsing = True
    once = learning.learnt(task, torch.zeros(3), lambda v, step: ((v - target) ** 4).sum(), 7, 0.1)
    assert once.tolist() == pytest.approx([0.1, -0.1, 0.1], abs=1e-6)


@pytest.mark.parametrize("text", ["fedgan(noise=2, fill=0.5)", "faug(noise=2, steps=3)"])
def test_engines_agree_on_pictures(text):
    states = [
        simulation_of(text, [0, 1], pictures(), engine=engine, model="logistic", epochs=1).play_round()[0].server
        for engine in ("sequential", "vectorised")
    ]
    for name, value in states[0].items():
        assert torch.allclose(value, states[1][name], atol=1e-12)
