"""Terms on features and scores in one call: mean features, a teacher, and a contrast, against torch's autograd."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from tests.engines.compiled.helpers import NEEDS_COMPILER
from tests.engines.compiled.test_library import INDEX, NETS, ROWS, Setting
from unalike.algorithms import Algorithm
from unalike.algorithms.terms import Ahead
from unalike.engines.compiled import library
from unalike.engines.compiled.asked import Steps
from unalike.models import Batch, Task

pytestmark = NEEDS_COMPILER


class Declaring(Algorithm):
    """An algorithm that declares the terms that it was made with."""

    def __init__(self, **terms):
        for name, value in terms.items():
            object.__setattr__(self, name, lambda party, value=value: value)


class WithTerms(Setting):
    """A setting with something for every term; tables are by place, which runs against the rows' numbers."""

    def __init__(self, name):
        super().__init__(name)
        random = torch.Generator().manual_seed(2)
        others = [self.start + 0.3 * torch.randn(self.size, generator=random) for _ in range(3)]
        table = 2 * torch.randn(ROWS, 3, generator=random)
        target = torch.randn(self.kernel.features, generator=random)
        self.terms = {
            "near": {"near": (0.7, target)},
            "taught by a model": {"teach": (0.5, 2.0, others[0])},
            "taught by a table": {"teach": (0.5, 0.7, table)},
            "contrast": {"contrast": (0.8, 0.5, others[1], others[2])},
            "scales": {"scales": torch.linspace(0.3, 1.2, self.kernel.classes)},
            "all": {
                "scales": torch.linspace(1.2, 0.3, self.kernel.classes),
                "near": (0.4, target),
                "teach": (0.5, 1.5, others[0]),
                "contrast": (0.8, 0.5, others[1], others[2]),
            },
        }

    def train(self, descent, index=INDEX):
        place = torch.where(index < 0, index, ROWS - 1 - index)
        return self.kernel.train(self.start, self.data, Steps(index, place=place), descent)

    def reference(self, descent):
        """The loop that the terms' declaration is for."""
        terms = {name: getattr(descent, name) for name in ("near", "teach", "contrast", "scales", "ahead")}
        algorithm, party = Declaring(**terms), SimpleNamespace(task=self.task, size=torch.tensor(1.0))
        start, stop = descent.trains or (0, self.size)
        w, velocity, losses = self.start.clone(), torch.zeros(self.size), []
        for rows in INDEX:
            rows = rows[rows >= 0]
            leaf = w.clone().requires_grad_()
            batch = Batch(self.data.x[rows], self.data.y[rows], index=ROWS - 1 - rows)
            loss = algorithm.loss(party, leaf, batch)
            if descent.centre is not None:
                loss = loss + (descent.strength * (leaf - descent.centre) ** 2).sum() / 2
            losses.append(float(loss.detach()))
            gradient = torch.autograd.grad(loss, leaf)[0] + descent.weight_decay * w
            gradient += 0 if descent.linear is None else descent.linear
            velocity = descent.momentum * velocity + descent.pace * gradient
            w[start:stop] -= descent.lr * velocity[start:stop]
        return w, sum(losses) / len(losses)


TERMS = ["near", "taught by a model", "taught by a table", "contrast", "scales", "all"]


@pytest.fixture(scope="module", params=NETS)
def setting(request):
    return WithTerms(request.param)


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("beside", ["plain", "everything"])
def test_a_term_has_the_gradient_and_the_loss_that_it_is_declared_with(setting, term, beside):
    setting.check(setting.descent(beside, **setting.terms[term]))
    without = setting.train(setting.descent(beside))
    assert not torch.allclose(
        setting.train(setting.descent(beside, **setting.terms[term]))[0], without[0], atol=1e-4
    )


@pytest.mark.parametrize("term", TERMS)
def test_a_term_where_a_part_moves(setting, term):
    for part in ("body", "head", setting.parts[2]):
        found = setting.task.slices[part]
        setting.check(setting.descent("momentum", trains=(found.start, found.stop), **setting.terms[term]))


AHEAD = {
    "one step": Ahead(0.2),
    "rows apart": Ahead(0.2, 2, apart=True),
    "held near": Ahead(0.1, 3, pull=2.0),
    "held near, rows apart": Ahead(0.1, 1, pull=0.5, apart=True),
}


@pytest.mark.parametrize("which", AHEAD)
@pytest.mark.parametrize("beside", ["plain", "everything"])
def test_a_gradient_that_is_taken_ahead(setting, which, beside):
    setting.check(setting.descent(beside, ahead=AHEAD[which]))
    without = setting.train(setting.descent(beside))[0]
    assert not torch.allclose(setting.train(setting.descent(beside, ahead=AHEAD[which]))[0], without, atol=1e-4)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_rows_are_dealt_out_or_serve_whole(setting, count):
    rows, descent = INDEX[:1, :count].contiguous(), setting.descent("plain", ahead=AHEAD["rows apart"])
    batch = Batch(setting.data.x[rows[0]], setting.data.y[rows[0]])
    leaf = setting.start.clone().requires_grad_()
    party = SimpleNamespace(task=setting.task, size=torch.tensor(1.0))
    (expected,) = torch.autograd.grad(Declaring(ahead=descent.ahead).loss(party, leaf, batch), leaf)
    assert torch.allclose(setting.start - setting.train(descent, rows)[0], descent.lr * expected, atol=1e-6)


def test_gradients_are_multiplied_by_the_pace(setting):
    setting.check(setting.descent(pace=0.3))
    setting.check(setting.descent("momentum", pace=2.0, ahead=AHEAD["one step"]))


def test_nothing_else_on_the_rows_where_a_step_looks_ahead(setting):
    near = setting.terms["near"]["near"]
    for more in ({"near": near}, {"trains": (0, 3)}, {"own": setting.start}):
        with pytest.raises(ValueError, match="where a step looks ahead"):
            setting.train(setting.descent("plain", ahead=AHEAD["one step"], **more))


def test_features_of_nothing_but_zeros_have_torchs_gradient(setting):
    """A dead layer: no direction, and no division by zero."""
    dead = setting.start.clone()
    dead[setting.task.slices["body"]] = 0
    mu, heat, near, far = setting.terms["contrast"]["contrast"]
    setting.start, start = dead, setting.start
    try:
        setting.check(setting.descent("plain", contrast=(mu, heat, near, far)))
        setting.check(setting.descent("plain", contrast=(mu, heat, near, dead)))
    finally:
        setting.start = start


def test_a_strength_of_zero_changes_no_bit_of_what_is_learnt(setting):
    plain, loss = setting.train(setting.descent())
    for name, term in (("teach", (0.0, 1.0)), ("contrast", (0.0, 1.0))):
        rest = setting.terms["all"][name][2:]
        w, other = setting.train(setting.descent(**{name: (*term, *rest)}))
        assert torch.equal(w, plain)
        assert other == loss


def test_who_agrees_with_the_teacher_is_not_moved_by_it(setting):
    """In the first step the model is its own teacher."""
    plain, _ = setting.train(setting.descent("plain"), INDEX[:1])
    taught, _ = setting.train(setting.descent("plain", teach=(0.9, 2.0, setting.start)), INDEX[:1])
    assert torch.allclose(taught, plain, atol=1e-7)


@pytest.mark.parametrize("term", ["near", "taught by a table", "contrast", "scales"])
def test_in_float64_a_term_has_the_slope_that_differences_have(setting, term):

    def exactly(value):
        if isinstance(value, tuple):
            return tuple(map(exactly, value))
        return value.double() if isinstance(value, torch.Tensor) else value

    terms = {name: exactly(value) for name, value in setting.terms[term].items()}
    batch = Batch(setting.data.x[:9].double(), setting.data.y[:9], index=torch.arange(9))
    exact = SimpleNamespace(task=Task(lambda: setting.task._fresh_net(0), dtype=torch.float64))
    w = setting.start.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: Declaring(**terms).loss(exact, v, batch), w, eps=1e-7, atol=1e-5)


def test_tables_that_do_not_fit_are_refused(setting):
    near, teach = setting.terms["near"]["near"], setting.terms["taught by a table"]["teach"]
    with pytest.raises(ValueError, match="the target must have a number for each"):
        setting.train(setting.descent(near=(1.0, near[1][1:])))
    for wrong in (teach[2][:5], teach[2][:, :2]):
        with pytest.raises(ValueError, match="logits for every place"):
            setting.train(setting.descent(teach=(1.0, 1.0, wrong)))
    scales = setting.terms["scales"]["scales"]
    with pytest.raises(ValueError, match="scales must have a number for each"):
        setting.train(setting.descent(scales=scales[1:]))
    for term in ({"near": near}, {"scales": scales}):
        with pytest.raises(ValueError, match="beside a second model"):
            setting.train(setting.descent("plain", own=setting.start, part=0.5, **term))


def test_what_has_no_room_for_its_tables_is_known_before(setting, monkeypatch):
    steps = Steps(INDEX, place=INDEX)
    for term in TERMS:
        assert setting.kernel.keeps(steps, setting.descent(**setting.terms[term]))
    cropped = replace(steps, top=INDEX, left=INDEX, flip=INDEX >= 0)
    assert [setting.kernel.keeps(cropped, setting.descent(**setting.terms[term])) for term in TERMS] == [
        True,
        False,
        True,
        False,
        True,
        False,
    ]
    monkeypatch.setattr(library, "LARGEST_KEPT", 100)
    assert not setting.kernel.keeps(steps, setting.descent(**setting.terms["contrast"]))
