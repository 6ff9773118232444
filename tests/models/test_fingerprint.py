"""A fingerprint changes with whatever a net computes, and is refused where it cannot."""

import functools
import json
import linecache
import subprocess
import sys
import types

import pytest
import torch
from torch import nn

from unalike.models.fingerprint import Unknowable, fingerprint
from unalike.models.own import model_text

WIDTH = 3


class Net(nn.Module):
    def __init__(self, act=torch.relu, scale=1.0):
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH)
        self.act, self.scale = act, scale

    def forward(self, x):
        return self.fc(self.act(x) * self.scale)


def weights(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(0.5)
    return module


CHANGES = {
    "a layer of another kind": lambda: nn.Sequential(nn.Linear(3, 3), nn.Tanh()),
    "an option of a layer": lambda: nn.Sequential(nn.Linear(3, 3), nn.LeakyReLU(0.2)),
    "an activation": lambda: Net(torch.tanh),
    "a number": lambda: Net(scale=2.0),
    "a frozen layer": lambda: Net().requires_grad_(False),
    "the precision": lambda: Net().double(),
}


@pytest.mark.parametrize("make", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_the_net_changes_the_fingerprint(make):
    same = [fingerprint(weights(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))), fingerprint(weights(Net()))]
    made = fingerprint(weights(make()))
    assert made == fingerprint(weights(make()))
    assert made not in same


def test_a_weight_counts_and_so_does_sharing_one():
    one, other = weights(Net()), weights(Net())
    assert fingerprint(one) == fingerprint(other)
    with torch.no_grad():
        other.fc.weight[0, 0] = 0.25
    assert fingerprint(one) != fingerprint(other)
    tied, apart = (weights(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))) for _ in range(2))
    tied[1].weight = tied[0].weight
    assert fingerprint(tied) != fingerprint(apart)


def test_what_stands_in_no_source_is_refused():
    bound = 3

    def inside():
        return nn.Linear(bound, 3)

    class Local(nn.Module):
        pass

    module = Net(act=lambda x: x)
    hooked = Net()
    hooked.register_forward_hook(lambda *given: None)
    for value in (
        lambda: 3,
        inside,
        Local,
        Local(),
        module,
        hooked,
        functools.partial(inside),
        Net(act=iter([1])),
    ):
        with pytest.raises(Unknowable, match=r"a lambda|inside a function|no fingerprint"):
            fingerprint(value)


CELL = """
from torch import nn
WIDTH = 4
def helper(x):
    return x * 2
class Base(nn.Module):
    def extra(self):
        pass
class Net(Base):
    def __init__(self, classes):
        super().__init__()
        self.fc = nn.Linear(WIDTH, classes)
    def forward(self, x):
        return self.fc(helper(x))
"""


EDITS = {
    "nothing": ("", ""),
    "a function that it calls": ("x * 2", "x * 3"),
    "a value that it reads": ("WIDTH = 4", "WIDTH = 5"),
    "itself": ("(WIDTH, ", "(4, "),
    "what it inherits": ("pass", "return 1"),
}
NOTEBOOK = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from unalike.models.own import model_text
shell = InteractiveShell.instance()
found = []
for cell in json.load(sys.stdin):
    assert shell.run_cell(cell).success
    found.append(model_text(shell.user_ns["Net"]))
print(json.dumps(found))
"""


def test_a_class_of_a_notebook_is_known_by_its_source_and_by_what_it_uses():
    pytest.importorskip("IPython")
    cells = [CELL, *(CELL.replace(*edit) if edit[0] else CELL for edit in EDITS.values())]
    command = [sys.executable, "-c", NOTEBOOK]
    done = subprocess.run(command, input=json.dumps(cells), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    first, *others = json.loads(done.stdout.splitlines()[-1])
    assert first.startswith("typed(name='Net', sha256='")
    assert "none" not in first
    assert [text == first for text in others] == [name == "nothing" for name in EDITS]


def test_a_class_without_source_is_unknown():
    there = {"__name__": "__nowhere__"}
    exec("class Net:\n    pass", there)
    with pytest.raises(Unknowable, match="typed in where Python keeps no source"):
        fingerprint(there["Net"])
    assert model_text(there["Net"]).startswith("typed(name='Net', sha256='none-")


def test_an_installed_class_is_known_by_its_name():
    assert fingerprint(nn.Linear) == fingerprint(nn.Linear) != fingerprint(nn.Bilinear)
    assert model_text(functools.partial(nn.Linear, 5, 3)).startswith("typed(name='partial'")


TYPED = """
class Typed(nn.Module):
    scale = WIDTH
    layers = [WIDTH]

    def __init__(self, shape, classes, width=WIDTH, *, depth=WIDTH):
        super().__init__()

    @property
    def factor(self):
        return FACTOR

    def forward(self, x):
        return x * self.factor
"""


def typed_in(monkeypatch, name, text=TYPED, **names):
    """A class as a notebook's cell makes it: Python keeps the source, but no file."""
    cell = types.ModuleType("notebook_of_tests")
    monkeypatch.setitem(sys.modules, cell.__name__, cell)
    monkeypatch.setitem(linecache.cache, f"<{name}>", (len(text), None, text.splitlines(True), f"<{name}>"))
    vars(cell).update({"nn": nn, "WIDTH": 4, "FACTOR": 1, **names})
    exec(compile(text, f"<{name}>", "exec"), vars(cell))
    return cell.Typed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("width=WIDTH", "width=OTHER"),
        ("depth=WIDTH", "depth=OTHER"),
        ("scale = WIDTH", "scale = OTHER"),
        ("[WIDTH]", "[OTHER]"),
        ("return FACTOR", "return OTHER"),
    ],
)
def test_a_cell_that_is_run_again_after_a_value_that_it_uses_has_changed_makes_another_net(monkeypatch, old, new):
    text = TYPED.replace(old, new)
    found = [fingerprint(typed_in(monkeypatch, "cell", text, OTHER=value)) for value in (4, 4, 8)]
    assert found[0] == found[1] != found[2]


def test_a_method_or_a_value_that_was_put_into_a_class_since_counts(monkeypatch):
    made = typed_in(monkeypatch, "cell")
    known = fingerprint(made)
    made.scale = 5
    assert fingerprint(made) != known
    made.scale = 4
    assert fingerprint(made) == known
    made.forward = Net.forward
    assert fingerprint(made) != known
