"""Losses: the task's own, and a user's, which trains on every engine and is refused where it cannot be right."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.helpers import regression_data
from unalike.errors import UserError
from unalike.models import Batch, Classification, CrossEntropy, Loss, Regression, SquaredError
from unalike.models.loss import LOSSES, choose_loss, register_loss
from unalike.runs.simulation import Simulation
from unalike.runs.small import distance, play, small_dataset
from unalike.runs.spec import RunSpec

DOCS = Path(__file__).parents[2] / "docs" / "own-nets.md"


@pytest.fixture
def _own_losses(monkeypatch):
    monkeypatch.setattr(LOSSES, "_entries", dict(LOSSES._entries))


def simulation(data, **fields):
    settings = {"partition": "natural", "model": "mlp(6,4)", "rounds": 3, "batch_size": 8, "lr": 0.05, "seed": 3}
    return Simulation(RunSpec.from_mapping(settings | fields), data=data, say=lambda line: None)


def test_each_task_has_a_loss_of_its_own():
    assert choose_loss(None, "classification") == CrossEntropy()
    assert choose_loss(None, "regression") == SquaredError()


def test_losses_by_hand():
    outputs, classes = torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([1, 1])
    by_hand = [-np.log(np.e / (1 + np.e)), -np.log(1 / (1 + np.exp(2)))]
    torch.testing.assert_close(CrossEntropy().losses(outputs, classes), torch.tensor(by_hand, dtype=torch.float32))
    assert CrossEntropy().mean(outputs, classes).item() == pytest.approx(np.mean(by_hand))
    targets = torch.tensor([0.5, -1.0])
    torch.testing.assert_close(SquaredError().losses(outputs[:, :1], targets), torch.tensor([0.25, 9.0]))
    torch.testing.assert_close(CrossEntropy().predict(outputs), functional.softmax(outputs, dim=1))
    torch.testing.assert_close(SquaredError().predict(outputs[:, :1]), outputs[:, 0])


def test_a_loss_of_the_other_task_is_refused():
    with pytest.raises(UserError, match=r"squared-error is a loss of regression.*Use cross-entropy"):
        simulation(small_dataset(), loss="squared-error")
    with pytest.raises(UserError, match=r"cross-entropy is a loss of classification.*Use squared-error"):
        simulation(regression_data(), loss="cross-entropy")
    with pytest.raises(UserError, match=r"Unknown loss 'square-error'\. Did you mean 'squared-error'\?"):
        RunSpec(loss="square-error")


def test_a_task_tells_algorithms_what_it_is():
    task = simulation(regression_data()).task
    assert (task.shape, task.classes) == ((5,), 0)
    task = simulation(small_dataset()).task
    assert (task.shape, task.classes) == ((5,), 3)


def test_padding_is_left_out_of_the_mean():
    task = simulation(regression_data()).task
    x, y = torch.randn(4, 5), torch.randn(4)
    whole = task.loss(task.initial(), Batch(x[:3], y[:3]))
    masked = task.loss(task.initial(), Batch(x, y, mask=torch.tensor([1.0, 1.0, 1.0, 0.0])))
    torch.testing.assert_close(masked, whole)


def played(data, engine, **fields):
    made = simulation(data, engine=engine, **fields)
    assert made.engine.name == engine
    return play(made, 3).state.tensors()


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox(mu=0.1)", "scaffold", "moon"])
def test_engines_agree_on_regression(algorithm):
    """Also the compiled one, whose kernels know cross-entropy alone: it uses the net as an operation."""
    data = regression_data()
    one = played(data, "sequential", algorithm=algorithm)
    for engine in ("vectorised", "compiled"):
        worst, key = distance(one, played(data, engine, algorithm=algorithm))
        assert worst < 1e-4, (engine, key)


def documented():
    """The loss of one's own in the documentation."""
    text = DOCS.read_text(encoding="utf-8")
    block = re.search(r"```python\n(from torch.nn import functional.*?)```", text, re.DOTALL)
    assert block is not None
    return block[1]


@pytest.mark.usefixtures("_own_losses")
def test_the_loss_of_ones_own_in_the_documentation(tmp_path, monkeypatch):
    scope = {"__name__": "documented"}
    exec(compile(documented(), "huber.py", "exec"), scope)
    data = regression_data(outlier=1000.0)
    spec = RunSpec(loss="huber(delta=1)", model="linear")
    assert spec.loss == "huber(delta=1.0)"
    assert spec.key != RunSpec(model="linear").key
    fields = {"model": "linear", "rounds": 30, "validation": 0.0, "held_out": 0.0}
    robust = play(simulation(data, loss="huber(delta=0.1)", **fields), 30)
    plain = play(simulation(data, **fields), 30)
    mae = [one.figures(one.state)["mae"] for one in (robust, plain)]
    assert mae[0] < 0.7 * mae[1]  # one wild target spoils least squares, not Huber's loss
    worst, _ = distance(
        played(data, "sequential", loss="huber(delta=0.5)"), played(data, "vectorised", loss="huber(delta=0.5)")
    )
    assert worst < 1e-4


@pytest.mark.usefixtures("_own_losses")
def test_mistakes_in_ones_own_are_one_line():
    @register_loss("averaged")
    class Averaged(Regression):
        """Forgets that each row has a loss."""

        def losses(self, outputs, y):
            return functional.mse_loss(outputs[:, 0], y)

    @register_loss("broken")
    class Broken(Classification):
        """Fails."""

        def losses(self, outputs, y):
            return outputs @ y

    @register_loss("stray")
    class Stray:
        """Is none."""

    with pytest.raises(
        UserError, match=r"Averaged\.losses \(test_loss\.py, line \d+\) must give .* Use reduction"
    ):
        simulation(regression_data(), loss="averaged")
    with pytest.raises(UserError, match=r"Broken\.losses failed \(test_loss\.py, line \d+\): RuntimeError"):
        simulation(small_dataset(), loss="broken")
    with pytest.raises(UserError, match="Stray must inherit Classification or Regression"):
        simulation(small_dataset(), loss="stray")


@pytest.mark.usefixtures("_own_losses")
def test_a_loss_may_have_several_outputs():
    @register_loss("gaussian")
    class Gaussian(Regression):
        """A mean and the logarithm of a variance."""

        def outputs(self, classes):
            return 2

        def losses(self, outputs, y):
            return outputs[:, 1] + (outputs[:, 0] - y) ** 2 * torch.exp(-outputs[:, 1])

    made = play(simulation(regression_data(), loss="gaussian", engine="vectorised"), 3)
    assert made.task.net.head.out_features == 2
    assert made.figures(made.state)["rmse"] > 0


def test_a_base_class_says_what_to_write():
    with pytest.raises(NotImplementedError):
        Loss().losses(torch.zeros(1, 1), torch.zeros(1))
