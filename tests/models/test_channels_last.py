"""Channels innermost in memory: the same numbers, faster, for nets that do not look at their memory."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from unalike.models import MODELS, Batch, Net, Task
from unalike.models.channels_last import NARROW

SHAPE, ROWS = (3, 9, 9), 5


class Own(nn.Module):
    def forward(self, x):
        return x.view(len(x), -1)  # an error where a row's numbers are not one after the other


def task_of(channels, flatten=nn.Flatten):
    def make():
        body = nn.Sequential(nn.Conv2d(3, channels, 3), nn.BatchNorm2d(channels), nn.ReLU(), flatten())
        return Net(body, nn.Linear(channels * 49, 4))

    return Task(make)


def batch_of(task):
    random = torch.Generator().manual_seed(0)
    x, y = torch.randn(ROWS, *SHAPE, generator=random), torch.randint(0, 4, (ROWS,), generator=random)
    return Batch(x, y, buffers=task.initial_buffers(), training=True)


def seen_strides(task):
    """How the rows and weights of its convolution lie, as the layer gets them."""
    seen, layer = [], next(m for m in task._templates.training.modules() if isinstance(m, nn.Conv2d))
    hook = layer.register_forward_hook(lambda module, given, _: seen.extend((given[0], module.weight)))
    task.logits(task.initial(), batch_of(task))
    hook.remove()
    return [value.is_contiguous(memory_format=torch.channels_last) for value in seen]


def test_wide_nets_alone_are_turned():
    assert seen_strides(task_of(NARROW + 1)) == [True, True]
    assert seen_strides(task_of(NARROW)) == [False, False]
    assert seen_strides(task_of(NARROW + 1, Own)) == [False, False]


@pytest.mark.parametrize("name", ["vgg9", "resnet18", "resnet18(norm=group)"])
def test_loss_gradient_and_statistics_are_those_of_the_net_as_it_is(name):
    task = Task(lambda: MODELS.build(name).build(SHAPE, 4))
    batch, w = batch_of(task), task.initial().requires_grad_()
    loss = task.loss(w, batch)
    (gradient,) = torch.autograd.grad(loss, w)
    plain = w.detach().double().requires_grad_()
    state = task.parameters.unflatten(plain) | task.buffers.unflatten(task.initial_buffers().double())
    logits, _ = functional_call(task._fresh_net(0).double().train(), state, (batch.x.double(),))
    exact = nn.functional.cross_entropy(logits, batch.y)
    (slope,) = torch.autograd.grad(exact, plain)
    assert loss.item() == pytest.approx(exact.item(), rel=1e-5)
    assert (gradient - slope).norm() < 1e-4 * slope.norm()
    moved = task.buffers.flatten(state, torch.float64)
    assert torch.allclose(batch.buffers.double(), moved, atol=1e-5)


def test_a_stack_of_nets_is_left_alone():
    task = Task(lambda: Net(nn.Sequential(nn.Conv2d(3, 80, 3), nn.ReLU(), nn.Flatten()), nn.Linear(80 * 49, 4)))
    batch, w = batch_of(task), torch.stack([task.initial(), task.initial(1)])
    stacked = vmap(lambda own: task.loss(own, batch))(w)
    assert torch.allclose(stacked, torch.stack([task.loss(own, batch) for own in w]), rtol=1e-5)
