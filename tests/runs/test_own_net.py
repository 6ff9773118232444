"""A net of the user's own that is none is refused in one line that says what ``build`` must return."""

import re

import pytest
import torch
from torch import nn

from unalike.errors import UserError
from unalike.models import MODELS, Net
from unalike.runs.run import run
from unalike.runs.small import small_dataset

NAME = "broken-net"


def model(build, **more):
    """Register a model with this ``build``."""
    MODELS.register(NAME)(type("Mine", (), {"build": build, "__module__": __name__, "__doc__": "Mine."} | more))


def mistake():
    """The line that a run with it ends in."""
    with pytest.raises(UserError) as caught:
        run(data=small_dataset(), partition="natural", model=NAME, rounds=1, epochs=1)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class LogitsOnly(Net):
    def forward(self, x):
        return self.head(self.body(x))


def raises(self, shape, classes):
    return Net(nn.Identity(), nn.Linear("five", classes))


MISTAKES = {
    "a plain module": (
        lambda self, shape, classes: nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, classes)),
        r"must return a Net, which has a body .* and a head .*, got Sequential. Write: return Net\(nn.Sequential",
    ),
    "nothing": (lambda self, shape, classes: None, "must return a Net.*got NoneType"),
    "no classes": (lambda self, shape: None, r"takes \(shape\), but is called with \(shape, classes\)"),
    "no method": (3, r"Mine.build must be a method. Write def build\(self, shape, classes\)"),
    "an error": (raises, r"Mine.build failed \(test_own_net.py, line \d+\): TypeError"),
    "other rows": (
        lambda self, shape, classes: Net(nn.Identity(), nn.Linear(7, classes)),
        r"fails on rows of shape \(5,\): mat1 and mat2 shapes cannot be multiplied",
    ),
    "other classes": (
        lambda self, shape, classes: Net(nn.Identity(), nn.Linear(5, 2)),
        r"3 logits for each row, but gives \[\(2, 2\), \(2, 5\)\] for 2 rows",
    ),
    "logits alone": (
        lambda self, shape, classes: LogitsOnly(nn.Identity(), nn.Linear(5, classes)),
        r"must give \(logits, features\), 3 logits for each row, but gives Tensor",
    ),
    "no weights": (
        lambda self, shape, classes: Net(nn.Identity(), nn.AdaptiveAvgPool1d(3)),
        "nothing to train",
    ),
}


@pytest.mark.parametrize(("build", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_wrong_net(build, message):
    model(build)
    assert re.search(message, mistake())


def test_the_trial_leaves_no_trace():
    """Neither in the running statistics of the net nor in torch's random stream."""

    def build(self, shape, classes):
        return Net(nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)), nn.Linear(4, classes))

    model(build)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = run(data=small_dataset(), partition="natural", model=NAME, rounds=1, epochs=1)
    assert torch.equal(torch.random.get_rng_state(), before)
    again = run(data=small_dataset(), partition="natural", model=NAME, rounds=1, epochs=1)
    assert first.figures["weights_sha256"] == again.figures["weights_sha256"]
