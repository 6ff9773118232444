"""Weights that a net begins with, and layers that stay as they are."""

import pytest
import torch
from torch import nn

from unalike.errors import UserError
from unalike.models import Batch, Task
from unalike.models.head import examine, take_apart
from unalike.models.net import Net
from unalike.models.start import frozen, started


class Own(nn.Module):
    """The head first; batch norm behind the first layer."""

    def __init__(self, classes=3):
        super().__init__()
        self.fc = nn.Linear(4, classes)
        self.one, self.norm, self.two = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(torch.tanh(self.two(torch.relu(self.norm(self.one(x))))))


def own(classes=3):
    module, rows = Own(classes), torch.zeros(2, 5)
    return take_apart(module, examine(module, rows, classes, "", "Own"), rows)


def plain():
    return Net(nn.Sequential(nn.Linear(5, 4), nn.ReLU()), nn.Linear(4, 3))


def test_all_weights_by_the_names_of_the_users_module_or_of_the_net():
    given, x = Own().eval(), torch.randn(6, 5)
    for tensors in (given.state_dict(), _renamed(given)):
        net = started(own(), tensors, "file")
        assert torch.equal(net.eval()(x)[0], given(x))
        assert net.begins_alike


def test_layers_that_are_called_as_the_parts_are():
    """A module whose first layer is ``head``: its names and those of the net mean different layers."""

    class Misleading(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.body = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.body(torch.relu(self.head(x)))

    def net():
        module, rows = Misleading(), torch.zeros(2, 3)
        return take_apart(module, examine(module, rows, 3, "", "Misleading"), rows)

    given = Misleading()
    theirs = {"head.weight": given.body.weight, "head.bias": given.body.bias}
    theirs |= {"body.head.weight": given.head.weight, "body.head.bias": given.head.bias}
    x = torch.randn(5, 3)
    for tensors in (given.state_dict(), theirs):
        assert torch.equal(started(net(), tensors, "file")(x)[0], given(x))
    assert not frozen(net(), ["head"]).body.head.weight.requires_grad


def _renamed(module):
    heads = {f"head.{name.removeprefix('fc.')}": v for name, v in module.state_dict().items() if "fc" in name}
    return heads | {f"body.{name}": v for name, v in module.state_dict().items() if "fc" not in name}


def test_the_head_may_be_missing_or_of_another_width():
    given = Own(7).state_dict()
    for tensors in (given, {name: value for name, value in given.items() if "fc" not in name}):
        net = own()
        head = net.head.weight.clone()
        net = started(net, tensors, "file")
        assert torch.equal(net.head.weight, head)
        assert torch.equal(net.body.one.weight, given["one.weight"])
        assert torch.equal(net.body.norm.running_var, given["norm.running_var"])
        assert not net.begins_alike


def test_half_a_head_is_no_head():
    net, given = own(), dict(Own().state_dict())
    bias = net.head.bias.clone()
    given["fc.weight"] = torch.zeros(3, 9)
    assert torch.equal(started(net, given, "file").head.bias, bias)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda t: t.pop("one.weight"),
            "file does not fit the net: it has no one.weight. Give the",
        ),
        (lambda t: t.pop("norm.running_mean"), "it has no norm.running_mean"),
        (lambda t: t.update(more=torch.zeros(1)), "the net has no more"),
        (
            lambda t: t.update({"two.weight": torch.zeros(4, 3)}),
            r"two.weight is \(4, 3\) there, but \(4, 4\) in",
        ),
        (
            lambda t: (t.pop("one.bias"), t.update({f"n{i}": torch.zeros(1) for i in range(9)})),
            "n4 and 4 more; it",
        ),
    ],
    ids=["a weight", "a statistic", "one too many", "a shape", "many"],
)
def test_what_does_not_fit_is_listed(edit, message):
    tensors = dict(Own().state_dict())
    edit(tensors)
    with pytest.raises(UserError, match=message) as caught:
        started(own(), tensors, "file")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "names", "still"),
    [
        (own, ["one"], {"body.one.weight", "body.one.bias"}),
        (own, ["fc", "two.bias"], {"head.weight", "head.bias", "body.two.bias"}),
        (own, ["body.one.bias"], {"body.one.bias"}),
        (plain, ["body.0"], {"body.0.weight", "body.0.bias"}),
        (plain, ["body"], {"body.0.weight", "body.0.bias"}),
    ],
)
def test_frozen_parameters(make, names, still):
    net = frozen(make(), names)
    assert {name for name, parameter in net.named_parameters() if not parameter.requires_grad} == still


def test_an_unknown_layer_gets_the_nearest():
    with pytest.raises(UserError, match=r"Unknown layer to freeze 'onne'. Did you mean 'one'"):
        frozen(own(), ["onne"])


def test_batch_norm_of_a_frozen_part_stays_as_it_is():
    def steps(names):
        task = Task(lambda: frozen(own(), names))
        w, buffers = task.initial(), task.initial_buffers()
        batch = Batch(torch.randn(8, 5) + 3, torch.zeros(8, dtype=torch.int64), buffers=buffers, training=True)
        return task, task.named(w, buffers), task.logits(w, batch), task.logits(w, Batch(batch.x, batch.y))

    task, _, training, evaluating = steps(["norm"])
    assert task.buffers.size == 0
    assert torch.allclose(training, evaluating, atol=1e-6)
    task, _, training, evaluating = steps(["norm.weight"])  # a parameter alone says nothing about statistics
    assert task.buffers.size == 8
    assert not torch.allclose(training, evaluating, atol=1e-3)


def test_a_frozen_layer_is_free_again_in_the_module_that_comes_back():
    net = frozen(own(), ["norm"])
    task = Task(lambda: frozen(own(), ["norm"]))
    module = task.module(task.named(task.initial(), task.initial_buffers()))
    assert not net.train().body.norm.training
    assert module.train().norm.training


def test_several_beginnings_cannot_all_be_given():
    given = Own().state_dict()
    task = Task(lambda: started(own(), given, "file"))
    assert torch.equal(task.initial()[-3:], given["fc.bias"])
    with pytest.raises(UserError, match="begins with several models that differ"):
        task.initial(1)
    apart = Task(lambda: started(own(), {name: v for name, v in given.items() if "fc" not in name}, "file"))
    assert not torch.equal(apart.initial(1), apart.initial())
