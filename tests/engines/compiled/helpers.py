"""Nets beside their compiled kernels."""

import shutil

import pytest
import torch
from torch import nn

from unalike.engines.compiled.chain import describe
from unalike.engines.compiled.library import Kernel
from unalike.models import Net, Task

NEEDS_COMPILER = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def task_of(body, features, classes=3, frozen=()):
    """A task whose net has that body; what begins with one of the names in ``frozen`` is not trained."""

    def make():
        net = Net(body(), nn.Linear(features, classes))
        for name, parameter in net.named_parameters():
            parameter.requires_grad_(not name.startswith(tuple(frozen)))
        return net

    return Task(make)


def silent(_):
    pass


def kernel_of(task, shape, width=None):
    return Kernel(describe(task.net, shape), silent, width, task.named(task.initial(), task.initial_buffers()))


def reference(task, w, x, d_logits, d_features):
    """Logits, features and gradient by autograd in float64."""
    exact = w.double().requires_grad_()
    tensors = task.parameters.unflatten(exact)
    logits, features = torch.func.functional_call(task._fresh_net(0).double(), tensors, (x.double(),))
    total = (logits * d_logits).sum() + (0 if d_features is None else (features * d_features).sum())
    return logits.detach(), features.detach(), torch.autograd.grad(total, exact)[0]


def gap(one, exact):
    """The largest difference relative to the largest value."""
    return float((one.double() - exact).abs().max() / exact.abs().max().clamp(min=1e-6)) if one.numel() else 0.0


def check(task, shape, rows, width=None, seed=0, tolerance=1e-5):
    """The kernels against autograd on random rows."""
    random = torch.Generator().manual_seed(seed)
    kernel, w = kernel_of(task, shape, width), task.initial()
    x = torch.randn(rows, *shape, generator=random)
    d_logits = torch.randn(rows, kernel.classes, generator=random)
    d_features = torch.randn(rows, kernel.features, generator=random)
    for more in (d_features, None):
        logits, features, tape = kernel.forward(w, x, keep=True)
        exact = reference(task, w, x, d_logits, more)
        ours = (logits, features, kernel.backward(w, tape, d_logits, more))
        for name, a, b in zip(("logits", "features", "gradient"), ours, exact, strict=True):
            assert gap(a, b) < tolerance, (name, rows, width)
        again = kernel.forward(w, x)
        assert torch.equal(again[0], logits)
        assert torch.equal(again[1], features)
