"""First layers that stay as they are run once for each row of a phase, and nothing else changes, to the bit."""

from contextlib import contextmanager
from functools import cache

import pytest
import torch

from tests.engines.compiled.helpers import NEEDS_COMPILER
from tests.engines.compiled.test_library import INDEX, ROWS, Setting
from unalike.engines.compiled import library
from unalike.engines.compiled.library import Data, Descent, Steps
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

pytestmark = NEEDS_COMPILER
FEDREP = {"algorithm": "fedrep(head_epochs=3, adapt_epochs=2)", "model": "mlp(6,4)"}
CASES = [
    ("mlp", (), "head", 3),
    ("mlp", (), "body.4.bias", 2),
    ("mlp", (), "body.0", 0),
    ("mlp", ("body.0",), "body", 1),
    ("mlp", ("body.0.weight",), "body", 0),
    ("convolutions", (), "head", 4),
    ("convolutions", (), "body.3", 2),
    ("convolutions", ("body.0",), "body.3", 2),
]
"""A net, what of it is frozen for good, what a phase trains, and how many layers run once."""
setting_of = cache(Setting)


@contextmanager
def limited(largest):
    """As it is with so many bytes for values that are kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "LARGEST_KEPT", largest)
        yield


def trained(setting, descent, steps, data=None):
    w, loss = setting.kernel.train(setting.start, data or setting.data, steps, descent)
    return w.view(torch.int32).tolist(), loss


def begins(setting, part, steps, data=None):
    """The first layer that runs in each step of a phase that trains that part."""
    first = setting.task.slices[part].start
    return setting.kernel._from_still_layers(setting.start, data or setting.data, steps, first)[0]


@pytest.mark.parametrize(("net", "frozen", "part", "layers"), CASES)
def test_has_the_bits_of_running_all_layers_in_each_step(net, frozen, part, layers):
    setting, steps = setting_of(net, frozen), Steps(INDEX)
    span = setting.task.slices[part]
    for terms in ("plain", "everything"):
        descent = setting.descent(terms, trains=(span.start, span.stop))
        setting.check(descent)
        made = trained(setting, descent, steps)
        with limited(0):
            assert begins(setting, part, steps) == 0
            assert trained(setting, descent, steps) == made
    assert begins(setting, part, steps) == layers


def test_the_layers_below_see_each_row_once_and_all_that_are_seen():
    setting = setting_of("mlp", ())
    first = setting.task.slices["head"].start
    index = torch.tensor([[7, 3, 88], [3, 50, -1], [88, 7, 3]])
    _, data, steps = setting.kernel._from_still_layers(setting.start, setting.data, Steps(index), first)
    assert steps.index.tolist() == [[1, 0, 3], [0, 2, -1], [3, 1, 0]]
    rows = [3, 7, 50, 88]
    assert data.y.tolist() == setting.data.y[rows].tolist()
    _, features, _ = setting.kernel.forward(setting.start, setting.data.x[rows])
    assert torch.equal(data.x, features)


def test_rows_as_whole_numbers_that_are_still_to_be_standardised():
    setting = setting_of("convolutions", ())
    x = torch.arange(ROWS * 56, dtype=torch.int64).remainder(256).to(torch.uint8).reshape(ROWS, 1, 8, 7)
    data = Data(x, setting.data.y, torch.full((56,), 100.0), torch.full((56,), 30.0))
    head = setting.task.slices["head"]
    descent, steps = Descent(0.1, trains=(head.start, head.stop)), Steps(INDEX)
    made = trained(setting, descent, steps, data)
    assert begins(setting, "head", steps, data) == 4
    with limited(0):
        assert trained(setting, descent, steps, data) == made


def test_not_where_rows_are_augmented_or_seen_once_or_their_values_are_too_large():
    setting = setting_of("convolutions", ())
    top = torch.zeros_like(INDEX)
    assert begins(setting, "head", Steps(INDEX, top, top, top.bool())) == 0
    assert begins(setting, "head", Steps(torch.tensor([[4, 2], [3, -1]]))) == 0
    with limited(ROWS * 9 * 4 - 1):
        assert begins(setting, "head", Steps(INDEX)) == 0
    with limited(ROWS * 9 * 4):
        assert begins(setting, "head", Steps(INDEX)) == 4


def test_what_another_party_left_behind_counts_nowhere(monkeypatch):
    """Lanes that no row fills have no gradient, but 0 times what is not a number is not a number."""
    setting = setting_of("convolutions", ())
    span = setting.task.slices["body.3"]
    descent, steps = Descent(0.1, trains=(span.start, span.stop)), Steps(INDEX[:, :5].repeat(2, 1))
    assert begins(setting, "body.3", steps) == 2
    made = trained(setting, descent, steps)
    tape = torch.full_like(setting.kernel._take(1), float("nan"))
    monkeypatch.setattr(setting.kernel, "_take", lambda blocks: tape.clone())
    assert trained(setting, descent, steps) == made


def played(**fields):
    """The bits after two rounds and all that was measured, of which a part is of a newcomer who adapts."""
    usual = {"dataset": "digits", "parties": 4, "newcomers": 0.25, "rounds": 2, "lr": 0.1, "engine": "compiled"}
    simulation = Simulation(RunSpec(**(usual | FEDREP | fields)), say=lambda line: None)
    assert simulation.engine.name == "compiled"
    for _ in range(2):
        simulation.state, row = simulation.play_round()
    return simulation.state.digest(), {k: v for k, v in row.items() if "seconds" not in k}


def test_whole_rounds_and_newcomers_have_the_same_bits_with_any_memory_and_threads(monkeypatch):
    begun, usual = [], library.Kernel._from_still_layers

    def watched(*given):
        begun.append(usual(*given)[0])
        return usual(*given)

    monkeypatch.setattr(library.Kernel, "_from_still_layers", watched)
    made = played()
    # Of three parties the head's phase runs from the head on, the body's phase from the first layer; then the
    # newcomer's adapting has a head's phase too.
    assert sorted(begun) == [0] * 6 + [2] * (6 + 2)
    monkeypatch.undo()
    assert played(threads=2) == made
    with limited(0):
        assert played() == made
