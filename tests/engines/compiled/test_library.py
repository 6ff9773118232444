"""Whole local training in one call, of all weights and of a part, against a plain loop with torch's autograd."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.engines.compiled.helpers import NEEDS_COMPILER, kernel_of, task_of
from unalike.engines.compiled.library import Data, Descent, Steps
from unalike.engines.compiled.source import _Tape
from unalike.models import Batch
from unalike.native.compiler import vector_width

pytestmark = NEEDS_COMPILER
ROWS = 90
INDEX = torch.tensor([[*range(70)], [*range(20, 90)], [*range(5, 38), *[-1] * 37]])
"""Three steps: longer than a block of rows, and one that is filled up."""


def convolutions():
    layers = [nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 7, 2, bias=False), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(14, 9), nn.ReLU())


def linear():
    return nn.Sequential(nn.Linear(13, 8), nn.ReLU(), nn.Linear(8, 17, bias=False), nn.ReLU(), nn.Linear(17, 6))


NETS = {"convolutions": (convolutions, 9, (1, 8, 7)), "mlp": (linear, 6, (13,))}
PARTS = {
    "convolutions": ["body", "head", "body.0", "body.3", "body.6", "body.0.bias", "body.6.weight"],
    "mlp": ["body", "head", "body.0", "body.2", "body.4", "body.4.bias", "head.weight"],
}
TERMS = {
    "plain": ("lr",),
    "momentum": ("lr", "momentum"),
    "weight decay": ("lr", "weight_decay"),
    "one strength": ("lr", "strength", "centre"),
    "a strength for each weight": ("lr", "strengths", "centre"),
    "everything": ("lr", "momentum", "weight_decay", "strengths", "centre", "linear"),
}


class Setting:
    """A net, its kernel, rows, and something for every field of a descent."""

    def __init__(self, name, frozen=()):
        body, features, shape = NETS[name]
        self.task, self.parts = task_of(body, features, frozen=frozen), PARTS[name]
        self.kernel, self.start = kernel_of(self.task, shape), self.task.initial()
        random = torch.Generator().manual_seed(1)
        x, y = torch.randn(ROWS, *shape, generator=random), torch.randint(0, 3, (ROWS,), generator=random)
        self.data, self.size = Data(x, y), self.task.size
        strengths, centre, linear = torch.rand(3, self.size, generator=random)
        numbers = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.05, "strength": 0.3}
        vectors = {"strengths": strengths, "centre": centre - 0.5, "linear": linear - 0.5}
        self.fields = numbers | vectors

    def descent(self, terms="everything", **more):
        fields = {name: self.fields[name] for name in TERMS[terms]}
        if "strengths" in fields:
            fields["strength"] = fields.pop("strengths")
        return Descent(**(fields | more))

    def train(self, descent, index=INDEX):
        return self.kernel.train(self.start, self.data, Steps(index), descent)

    def reference(self, descent):
        """The weights and the mean loss by a loop: the gradient of everything, of which a part is used."""
        w, velocity, losses = self.start.clone(), torch.zeros(self.size), []
        start, stop = descent.trains or (0, self.size)
        for rows in INDEX:
            rows = rows[rows >= 0]
            leaf = w.clone().requires_grad_()
            loss = self.task.loss(leaf, Batch(self.data.x[rows], self.data.y[rows]))
            if descent.centre is not None:
                loss = loss + (descent.strength * (leaf - descent.centre) ** 2).sum() / 2
            losses.append(float(loss.detach()))
            gradient = torch.autograd.grad(loss, leaf)[0] + descent.weight_decay * w
            gradient += 0 if descent.linear is None else descent.linear
            velocity = descent.momentum * velocity + gradient
            w[start:stop] -= descent.lr * velocity[start:stop]
        return w, math.fsum(losses) / len(losses)

    def check(self, descent):
        """The kernel against the loop, and what does not move against what it was, bit for bit."""
        w, loss = self.train(descent)
        expected, expected_loss = self.reference(descent)
        start, stop = descent.trains or (0, self.size)
        assert torch.allclose(w, expected, rtol=1e-4, atol=2e-6)
        assert loss == pytest.approx(expected_loss, rel=1e-5)
        for part in (slice(0, start), slice(stop, self.size)):
            assert torch.equal(w[part].view(torch.int32), self.start[part].view(torch.int32))
        assert start == stop or not torch.equal(w[start:stop], self.start[start:stop])


@pytest.fixture(scope="module", params=NETS)
def setting(request):
    return Setting(request.param)


@pytest.mark.parametrize("terms", TERMS)
def test_all_weights(setting, terms):
    setting.check(setting.descent(terms))


@pytest.mark.parametrize("terms", TERMS)
def test_a_part(setting, terms):
    for part in setting.parts:
        found = setting.task.slices[part]
        setting.check(setting.descent(terms, trains=(found.start, found.stop)))


def test_across_and_inside_layers(setting):
    slices = setting.task.slices
    first, last = slices[setting.parts[2]], slices["head"]
    for trains in (
        (first.start + 3, first.stop - 2),
        (first.stop - 1, first.stop + 1),
        (first.start + 1, last.start + 2),
        (last.start - 1, setting.size - 1),
        (setting.size - 1, setting.size),
        (0, 1),
    ):
        setting.check(setting.descent(trains=trains))


@given(st.data())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_any_range(setting, data):
    start = data.draw(st.integers(0, setting.size))
    stop = data.draw(st.integers(start, setting.size))
    setting.check(setting.descent(trains=(start, stop)))


@pytest.mark.parametrize("frozen", [["body.0"], ["body.0.bias", "body.6.weight"], ["body"], ["head"]])
def test_a_part_of_a_net_with_frozen_layers(frozen):
    """The vector is shorter, and any range of it may move."""
    setting = Setting("convolutions", frozen)
    size, middle = setting.size, setting.size // 2
    for trains in (None, (0, middle), (middle, size), (middle - 3, middle + 4), (middle, middle)):
        setting.check(setting.descent(trains=trains))


@pytest.mark.parametrize("terms", TERMS)
def test_nothing_moves_in_an_empty_range(setting, terms):
    for place in (0, 5, setting.size):
        setting.check(setting.descent(terms, trains=(place, place)))


def test_all_as_a_range_has_the_bits_of_no_range(setting):
    whole, loss = setting.train(setting.descent())
    ranged, same = setting.train(setting.descent(trains=(0, setting.size)))
    assert torch.equal(whole, ranged)
    assert loss == same


def test_a_strength_as_a_tensor_of_one_number(setting):
    w, loss = setting.train(setting.descent("one strength"))
    other, same = setting.train(setting.descent("one strength", strength=torch.tensor(0.3)))
    assert torch.equal(w, other)
    assert loss == same


def test_the_same_strength_for_every_weight(setting):
    w, loss = setting.train(setting.descent("one strength"))
    each = torch.full((setting.size,), 0.3)
    other, near = setting.train(setting.descent("one strength", strength=each))
    assert torch.allclose(w, other, rtol=1e-5, atol=1e-7)
    assert loss == pytest.approx(near, rel=1e-6)


def test_a_strength_of_zero_leaves_a_weight_to_the_data(setting):
    each = torch.zeros(setting.size)
    each[3] = 1.0
    w, _ = setting.train(setting.descent("one strength", strength=each), INDEX[:1])
    plain, _ = setting.train(setting.descent("plain"), INDEX[:1])
    assert (w != plain).nonzero().flatten().tolist() == [3]


def test_a_gradient_that_is_not_a_number_leaves_frozen_weights_alone(setting):
    linear = torch.full((setting.size,), float("nan"))
    head = setting.task.slices["head"]
    w, _ = setting.train(setting.descent("plain", linear=linear, trains=(head.start, setting.size)))
    assert torch.equal(w[: head.start], setting.start[: head.start])
    assert torch.isnan(w[head.start :]).all()


def test_nothing_goes_back_beyond_the_first_layer_that_moves(setting):
    """A backward pass replaces the values on the tape by gradients: below that layer they are still there."""
    chain, index = setting.kernel.chain, INDEX[:1, :8].contiguous()
    places = _Tape(chain, vector_width()).values
    setting.train(setting.descent("plain", trains=(0, 0)), index)
    setting.kernel._spare[1][-1].zero_()  # lanes that eight rows do not need have something of an earlier use
    setting.train(setting.descent("plain", trains=(0, 0)), index)
    before = setting.kernel._spare[1][-1].clone()
    for k, layer in enumerate(chain.layers):
        if layer.weight >= 0:
            setting.train(Descent(lr=0.0, trains=(layer.weight, layer.weight + 1)), index)
            after = setting.kernel._spare[1][-1]
            assert torch.equal(after[: places[k + 1]], before[: places[k + 1]]), k
            assert not torch.equal(after[places[k + 1] :], before[places[k + 1] :]), k


@pytest.mark.parametrize("trains", [(-1, 4), (4, 3), (0, 10**6), (10**6, 10**6), (-5, -2)])
def test_a_range_outside_the_net_is_refused(setting, trains):
    with pytest.raises(ValueError, match=rf"within 0 and {setting.size}, in order: {trains[0]} to {trains[1]}"):
        setting.train(setting.descent(trains=trains))


@pytest.mark.parametrize("which", ["strength", "centre", "linear"])
def test_vectors_that_do_not_fit_are_refused(setting, which):
    size = setting.size
    for wrong in (torch.zeros(size - 1), torch.zeros(size + 1), torch.zeros(1), torch.zeros(1, size)):
        with pytest.raises(ValueError, match=rf"{which}.* must have a number for each of {size} weights"):
            setting.train(setting.descent(**{which: wrong}))
    with pytest.raises(ValueError, match="float32"):
        setting.train(setting.descent(**{which: torch.zeros(size, dtype=torch.float64)}))


def test_a_start_that_does_not_fit_is_refused(setting):
    with pytest.raises(ValueError, match=f"w must have a number for each of {setting.size} weights"):
        setting.kernel.train(setting.start[1:], setting.data, Steps(INDEX), setting.descent())


def test_a_strided_vector_is_read_right(setting):
    fields = {name: torch.stack([setting.fields[name]] * 2, 1)[:, 0] for name in ("centre", "linear")}
    strengths = torch.stack([setting.fields["strengths"]] * 2, 1)[:, 0]
    assert not strengths.is_contiguous()
    w, _ = setting.train(setting.descent(strength=strengths, **fields))
    assert torch.equal(w, setting.train(setting.descent())[0])
