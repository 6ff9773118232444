"""Which nets are chains, and what is said of the others."""

import pytest
from torch import nn

from tests.engines.compiled.helpers import task_of
from unalike.engines.compiled.chain import NotAChain, describe
from unalike.models import MODELS, Net, Task


def test_simple_cnn():
    task = Task(lambda: MODELS.build("simple-cnn").build((3, 32, 32), 10))
    chain = describe(task.net, (3, 32, 32))
    assert [layer.kind for layer in chain.layers] == ["convolution", "pooling"] * 2 + ["linear"] * 3
    assert chain.size == task.size
    assert chain.convolves
    slices = [task.slices[f"body.{k}.weight"].start for k in (0, 3, 7, 9)]
    assert [layer.weight for layer in chain.layers if layer.weight >= 0] == [*slices, task.slices["head"].start]
    assert chain.layers[-1].bias == task.slices["head.bias"].start
    assert [layer.made.relu for layer in chain.layers] == [False, True, False, True, True, True, False]


def test_frozen_layers_have_places_of_their_own():
    def body():
        return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))

    chain = describe(task_of(body, 2, frozen=["body.0", "body.2.bias"]).net, (5,))
    assert chain.frozen == (("body.0.weight", 20), ("body.0.bias", 4), ("body.2.bias", 2))
    assert chain.size == 8 + 9
    first, second, head = chain.layers
    assert (first.weight, first.bias, first.frozen, first.span) == (0, 20, ("weight", "bias"), (0, 0))
    assert (second.weight, second.bias, second.frozen, second.span) == (0, 24, ("bias",), (0, 8))
    assert (head.weight, head.bias, head.frozen, head.span) == (8, 14, (), (8, 17))


OTHERS = {
    "body.1 (BatchNorm1d) is not a layer": lambda: nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5)),
    "body.0.1 (Dropout) is not a layer": lambda: nn.Sequential(
        nn.Sequential(nn.Linear(5, 5), nn.Dropout()), nn.ReLU()
    ),
    "body (ReLU) comes before any": nn.ReLU,
    "body.0 (Linear) takes 6 numbers, got 5": lambda: nn.Sequential(nn.Linear(6, 5)),
    "body (Conv2d) needs images": lambda: nn.Conv2d(1, 5, 1),
}
IMAGES = {
    "has strides": lambda: nn.Conv2d(1, 5, 3, stride=2),
    "has a kernel of (3, 2)": lambda: nn.Conv2d(1, 5, (3, 2)),
    "has padding (1, 0)": lambda: nn.Conv2d(1, 5, 3, padding=(1, 0)),
    "padding by other than zeros": lambda: nn.Conv2d(1, 5, 3, padding_mode="circular", padding=1),
    "takes 2 channels, got 1": lambda: nn.Conv2d(2, 5, 3),
    "leaves 0 x 0": lambda: nn.Conv2d(1, 5, 9),
    "is not over squares": lambda: nn.MaxPool2d(3),
    "needs flat rows": lambda: nn.Linear(64, 5),
}


@pytest.mark.parametrize("reason", OTHERS)
def test_reasons(reason):
    with pytest.raises(NotAChain) as error:
        describe(task_of(OTHERS[reason], 5).net, (5,))
    assert reason in str(error.value)


@pytest.mark.parametrize("reason", IMAGES)
def test_reasons_of_images(reason):
    with pytest.raises(NotAChain) as error:
        describe(task_of(lambda: nn.Sequential(IMAGES[reason](), nn.Flatten()), 5).net, (1, 8, 8))
    assert reason in str(error.value)


def test_whole_nets():
    class Own(Net):
        pass

    with pytest.raises(NotAChain, match="Own has a forward of its own"):
        describe(Own(nn.Identity(), nn.Linear(5, 2)), (5,))
    with pytest.raises(NotAChain, match="head"):
        describe(Net(nn.Identity(), nn.Sequential(nn.Linear(5, 2))), (5,))
    layer = nn.Linear(5, 5)
    with pytest.raises(NotAChain, match="share weights"):
        describe(Net(nn.Sequential(layer, nn.ReLU(), layer), nn.Linear(5, 2)), (5,))
    task = Task(lambda: MODELS.build("resnet18").build((3, 32, 32), 10))
    with pytest.raises(NotAChain):
        describe(task.net, (3, 32, 32))
