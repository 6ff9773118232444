"""The compiled net as one operation of torch: gradients, transforms of torch.func, threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.func import grad, vmap
from torch.nn import functional

from tests.engines.compiled.helpers import NEEDS_COMPILER, kernel_of
from unalike.engines.compiled.operation import Operation
from unalike.models import MODELS, Batch, Task

pytestmark = NEEDS_COMPILER


@pytest.fixture(scope="module")
def task():
    return Task(lambda: MODELS.build("mlp(6,4)").build((5,), 3))


@pytest.fixture(scope="module")
def operation(task):
    return Operation(kernel_of(task, (5,)))


@pytest.fixture(scope="module")
def batch():
    random = torch.Generator().manual_seed(0)
    return Batch(torch.randn(37, 5, generator=random), torch.randint(0, 3, (37,), generator=random))


def close(a, b):
    return float((a - b).abs().max() / b.abs().max()) < 1e-5


def test_gradients_through_logits_features_or_both(task, operation, batch):
    losses = [
        lambda logits, features: functional.cross_entropy(logits, batch.y),
        lambda logits, features: (features.mean(dim=0) ** 2).sum(),
        lambda logits, features: functional.cross_entropy(logits, batch.y) + (features**2).mean(),
    ]
    for loss in losses:
        w = task.initial().requires_grad_()
        (expected,) = torch.autograd.grad(loss(*task.forward(w, batch)), w)
        (ours,) = torch.autograd.grad(loss(*operation(w, batch.x)), w)
        assert close(ours, expected)


def test_transforms(task, operation, batch):
    w = task.initial()

    def ours(w, x):
        return functional.cross_entropy(operation(w, x)[0], batch.y)

    expected = grad(lambda w: task.loss(w, batch))(w)
    assert close(grad(ours)(w, batch.x), expected)
    stack = torch.stack([w, 2 * w]).requires_grad_()
    (both,) = torch.autograd.grad(vmap(ours, in_dims=(0, None))(stack, batch.x).sum(), stack)
    assert close(both[0], expected)
    assert close(both[1], grad(lambda w: task.loss(w, batch))(2 * w))
    assert close(vmap(grad(ours), in_dims=(0, None))(stack.detach(), batch.x)[0], expected)


def test_without_gradients_nothing_is_kept(task, operation, batch):
    with torch.no_grad():
        assert not operation(task.initial().requires_grad_(), batch.x)[0].requires_grad
    assert not operation(task.initial(), batch.x)[0].requires_grad


def test_one_backward_pass(task, operation, batch):
    w = task.initial().requires_grad_()
    loss = operation(w, batch.x)[0].sum()
    torch.autograd.grad(loss, w, retain_graph=True)
    with pytest.raises(RuntimeError, match="one backward pass"):
        torch.autograd.grad(loss, w)


def test_threads_do_not_mix(task, operation, batch):
    initial = task.initial()

    def gradient(k):
        w = (initial * (1 + k)).requires_grad_()
        return torch.autograd.grad(functional.cross_entropy(operation(w, batch.x)[0], batch.y), w)[0]

    expected = [gradient(k) for k in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for k, result in enumerate(pool.map(gradient, [k % 4 for k in range(200)])):
            assert torch.equal(result, expected[k % 4])


def test_what_does_not_fit(task, operation, batch):
    for w, x in (
        (task.initial()[1:], batch.x),
        (task.initial(), batch.x[:, 1:]),
        (task.initial().double(), batch.x),
    ):
        with pytest.raises(ValueError):
            operation(w, x)


@pytest.mark.parametrize(("steps", "pull"), [(1, 0.0), (4, 0.0), (4, 1.5)])
def test_descent_on_one_batch(task, operation, batch, steps, pull):
    """In one call, as step by step; the weights that it starts from stay."""
    w = task.initial()
    before, expected = w.clone(), task.descend(w, batch, 0.3, steps, pull)
    found = operation.descend(w, batch, 0.3, steps, pull)
    assert torch.equal(w, before)
    assert close(found - w, expected - w)
    assert (expected - w).norm() > 0.01
