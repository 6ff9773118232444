"""What a net's code uses beside its file's text: a program's own numbers are part of what the net is."""

import importlib.util
import sys

import pytest

from unalike.models.fingerprint import fingerprint
from unalike.models.names import untold
from unalike.models.own import model_text

TEXT = """
import argparse, sys
from math import pi
from torch import nn

TOLD = 2 * 8
TABLE = {"relu": TOLD, "sizes": (1, 2)}
WIDTH = int(sys.argv[1])
args = argparse.Namespace(slope=float(sys.argv[2]))


def width():
    return WIDTH


class Plain(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.fc = nn.Linear(shape[0], TOLD)
        self.name = __name__

    def forward(self, x):
        return self.fc(x) * TABLE["relu"] * pi


class Computed(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.fc = nn.Linear(shape[0], width())

    def forward(self, x):
        return self.fc(x)


class Told(Computed):
    def forward(self, x):
        return super().forward(x) * args.slope
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The module that a program is, given numbers on its command line."""

    def make(*arguments):
        path = tmp_path / "program.py"
        path.write_text(TEXT)
        monkeypatch.setattr(sys, "argv", ["program.py", *map(str, arguments)])
        spec = importlib.util.spec_from_file_location("program", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "program", module)
        spec.loader.exec_module(module)
        return module

    return make


def test_what_a_program_computes_is_found_and_what_its_text_says_is_not(program):
    made = program(8, 0.5)
    assert untold(made.Plain) == {}
    assert untold(made.Computed) == {"WIDTH": 8}
    assert untold(made.Told) == {"WIDTH": 8, "args": made.args}
    made.TOLD = 17  # set by another program
    assert untold(made.Plain) == {"TOLD": 17}


def test_another_number_on_the_command_line_is_another_net(program):
    texts = [model_text(program(*given).Told) for given in ((8, 0.5), (8, 0.5), (9, 0.5), (8, 0.25))]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3
    assert model_text(program(8, 0.5).Plain) == model_text(program(9, 1).Plain)
    assert model_text(program(8, 0.5).Plain).startswith("module(")


def test_a_module_that_is_there_counts_them_too(program):
    made = program(8, 0.5)
    net = made.Told((3,), 2)
    known = fingerprint(net)
    made.args.slope = 0.25
    assert fingerprint(net) != known


def test_a_file_that_is_broken_by_now_tells_nothing(program, tmp_path):
    made = program(8, 0.5)
    (tmp_path / "program.py").write_text("def broken(")
    assert untold(made.Computed) == {"WIDTH": 8}
