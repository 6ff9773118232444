"""Every kernel, layer by layer and in whole nets, against torch's autograd in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.engines.compiled.helpers import NEEDS_COMPILER, check, kernel_of, silent, task_of
from unalike.engines.compiled.chain import describe
from unalike.engines.compiled.library import Kernel
from unalike.models import MODELS, Task

pytestmark = NEEDS_COMPILER
WIDTHS = (4, 8, 16)
LAYERS = {
    "convolution": ((2, 7, 6), lambda: nn.Sequential(nn.Conv2d(2, 5, 3), nn.Flatten()), 100),
    "two convolutions": (
        (1, 8, 8),
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 7, 3), nn.Flatten()),
        112,
    ),
    "padding": (
        (2, 5, 6),
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 5, padding=2), nn.ReLU(), nn.Conv2d(3, 13, 3, padding="same"), nn.Flatten()
        ),
        390,
    ),
    "padding wider than the image": (
        (1, 2, 3),
        lambda: nn.Sequential(nn.Conv2d(1, 2, 5, padding=2), nn.Conv2d(2, 2, 5, padding=2), nn.Flatten()),
        12,
    ),
    "no bias": (
        (2, 5, 5),
        lambda: nn.Sequential(nn.Conv2d(2, 2, 1, bias=False), nn.Conv2d(2, 3, 2, bias=False), nn.Flatten()),
        48,
    ),
    "pooling": (
        (2, 9, 7),
        lambda: nn.Sequential(nn.Conv2d(2, 3, 1), nn.MaxPool2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        6,
    ),
    "relu before pooling": (
        (1, 6, 6),
        lambda: nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(1, 2, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        2,
    ),
    "linear": ((9,), lambda: nn.Sequential(nn.Linear(9, 17, bias=False), nn.ReLU(), nn.Linear(17, 70)), 70),
    "nothing before the head": ((2, 3), nn.Flatten, 6),
}
NETS = {
    "simple-cnn, CIFAR": ("simple-cnn", (3, 32, 32), 10),
    "simple-cnn, MNIST": ("simple-cnn", (1, 28, 28), 10),
    "mlp": ("mlp(32,16,8)", (123,), 2),
    "mlp of images": ("mlp(7)", (1, 3, 5), 4),
    "logistic": ("logistic", (54,), 7),
}


@pytest.mark.parametrize(("name", "width"), [*((name, 8) for name in LAYERS), ("padding", 4), ("pooling", 16)])
def test_layers(name, width):
    shape, body, features = LAYERS[name]
    for rows in (1, 21):
        check(task_of(body, features), shape, rows, width)


@pytest.mark.parametrize("name", NETS)
def test_nets(name):
    model, shape, classes = NETS[name]
    task = Task(lambda: MODELS.build(model).build(shape, classes))
    for rows in (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70):
        check(task, shape, rows)


@pytest.mark.parametrize(
    "frozen", [["body.0"], ["body.0.weight"], ["body.0.bias", "head.weight"], ["body.2"], ["body"], ["head"]]
)
@pytest.mark.parametrize("name", ["two convolutions", "linear"])
def test_frozen_layers(name, frozen):
    """They are no part of the vector, and none of their gradient is computed."""
    shape, body, features = LAYERS[name]
    task = task_of(body, features, frozen=frozen)
    assert 0 < task.size < task_of(body, features).size
    assert kernel_of(task, shape).chain.size == task.size
    for rows in (1, 21):
        check(task, shape, rows)


def test_frozen_weights_must_be_given():
    task = task_of(lambda: nn.Linear(5, 4), 4, frozen=["body.bias"])
    chain = describe(task.net, (5,))
    for given_ in (None, {}, {"body.bias": torch.zeros(3)}, {"body.weight": torch.zeros(4)}):
        with pytest.raises(ValueError, match=r"body\.bias is frozen: its 4 weights must be given"):
            Kernel(chain, silent, frozen=given_)


def test_no_rows():
    task = task_of(nn.Identity, 5)
    logits, features, _ = kernel_of(task, (5,)).forward(task.initial(), torch.zeros(0, 5))
    assert logits.shape == (0, 3)
    assert features.shape == (0, 5)


@given(
    st.integers(1, 3), st.integers(4, 9), st.integers(4, 9), st.integers(1, 4), st.integers(0, 2), st.booleans(),
    st.integers(1, 20), st.integers(1, 40), st.sampled_from(WIDTHS),
)  # fmt: skip
@settings(max_examples=6, deadline=None, derandomize=True)
def test_shapes(channels, height, width, kernel, padding, pools, made, rows, lanes):
    padding = min(padding, kernel - 1)
    sides = [side + 2 * padding - kernel + 1 for side in (height, width)]
    pools = pools and min(sides) >= 2
    sides = [side // 2 for side in sides] if pools else sides

    def body():
        layers = [nn.Conv2d(channels, made, kernel, padding=padding), nn.ReLU(), nn.Conv2d(made, 3, 1)]
        return nn.Sequential(*layers, *([nn.MaxPool2d(2)] if pools else []), nn.Flatten(), nn.Linear(features, 5))

    features = 3 * sides[0] * sides[1]
    check(task_of(body, 5), (channels, height, width), rows, lanes)


def test_ties_go_to_the_first_as_in_torch():
    """A flat image: all four values of every square are the same, and two convolutions tell places apart."""
    task = task_of(lambda: nn.Sequential(nn.Conv2d(1, 2, 1), nn.Conv2d(2, 2, 3), nn.MaxPool2d(2), nn.Flatten()), 8)
    kernel, w = kernel_of(task, (1, 6, 6)), task.initial()
    x = torch.ones(5, 1, 6, 6)
    exact = w.clone().requires_grad_()
    from unalike.models import Batch

    d = torch.randn(5, 3)
    (expected,) = torch.autograd.grad((task.logits(exact, Batch(x, torch.zeros(5))) * d).sum(), exact)
    _, _, tape = kernel.forward(w, x, keep=True)
    assert torch.allclose(kernel.backward(w, tape, d, None), expected, atol=1e-5)


def test_what_is_not_a_number_stays_so():
    task = Task(lambda: MODELS.build("mlp(4)").build((3,), 2))
    w = task.initial()
    w[0] = float("nan")
    logits, _, _ = kernel_of(task, (3,)).forward(w, torch.ones(2, 3))
    assert torch.isnan(logits).all()


def test_the_same_bits_every_time():
    task = Task(lambda: MODELS.build("simple-cnn").build((1, 28, 28), 10))
    kernel, w = kernel_of(task, (1, 28, 28)), task.initial()
    x, d = torch.randn(40, 1, 28, 28), torch.randn(40, 10)
    results = []
    for _ in range(3):
        logits, _, tape = kernel.forward(w, x, keep=True)
        results.append((logits, kernel.backward(w, tape, d, None)))
        tape.fill_(float("nan"))  # what an earlier use left behind must not matter
        kernel.give_back(tape)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))
