"""fedavg-cnn and vgg9: the papers' numbers of weights, shapes, and what they refuse."""

import pytest
import torch
from torch.nn import functional

from unalike.engines.vectorised import cannot_vectorise
from unalike.errors import UserError
from unalike.models import MODELS, Batch, Task

SMALLEST = {"fedavg-cnn": 4, "simple-cnn": 16, "fedrep-cnn": 16, "vgg9": 8, "resnet18": 9, "resnet50": 9}


def make(text, shape, classes=10, **options):
    return Task(lambda: MODELS.build(text).build(shape, classes), **options)


@pytest.mark.parametrize(
    ("text", "shape", "size"),
    [
        ("fedavg-cnn", (1, 28, 28), 1_663_370),  # McMahan et al. 2017, section 3
        ("vgg9", (3, 32, 32), 3_491_530),  # FedMA's VGG-9, summed by hand over its nine layers
        # FedRep's, layer by layer: 3 -> 64 -> 64 channels of 5x5, then 64 x 5 x 5 -> 120 -> 64 -> 10
        ("fedrep-cnn", (3, 32, 32), 64 * 76 + 64 * 1601 + 120 * 1601 + 64 * 121 + 10 * 65),
    ],
)
def test_number_of_weights_is_the_papers(text, shape, size):
    assert make(text, shape).size == size


@pytest.mark.parametrize("text", ["fedavg-cnn", "vgg9"])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (2, 9, 14)])
def test_the_head_reads_the_features(text, shape):
    task = make(text, shape, 7, dtype=torch.float64)
    w, x = task.initial(), torch.randn(3, *shape, dtype=torch.float64)
    logits, features = task.forward(w, Batch(x, torch.zeros(3)))
    assert features.shape == (3, 512)
    assert features.min() >= 0  # after ReLU
    layers = task.parameters.unflatten(w)
    assert torch.allclose(functional.linear(features, layers["head.weight"], layers["head.bias"]), logits)
    assert cannot_vectorise(task) is None


def test_vgg9_by_hand():
    """The layers in the paper's order: ReLU, then pooling."""
    task = make("vgg9", (3, 16, 16), dtype=torch.float64)
    w, x = task.initial(), torch.randn(2, 3, 16, 16, dtype=torch.float64)
    weights = list(task.parameters.unflatten(w).values())
    value = x
    for number in range(6):
        value = torch.relu(functional.conv2d(value, weights[2 * number], weights[2 * number + 1], padding=1))
        value = functional.max_pool2d(value, 2) if number % 2 else value
    value = value.flatten(1)
    for number in (6, 7):
        value = torch.relu(functional.linear(value, weights[2 * number], weights[2 * number + 1]))
    assert torch.allclose(task.features(w, Batch(x, torch.zeros(2))), value)


def test_fedavg_cnn_by_hand():
    task = make("fedavg-cnn", (1, 10, 10), dtype=torch.float64)
    w, x = task.initial(), torch.randn(2, 1, 10, 10, dtype=torch.float64)
    weights = list(task.parameters.unflatten(w).values())
    value = functional.max_pool2d(torch.relu(functional.conv2d(x, weights[0], weights[1], padding="same")), 2)
    value = functional.max_pool2d(torch.relu(functional.conv2d(value, weights[2], weights[3], padding="same")), 2)
    value = torch.relu(functional.linear(value.flatten(1), weights[4], weights[5]))
    assert torch.allclose(task.features(w, Batch(x, torch.zeros(2))), value)


@pytest.mark.parametrize("text", SMALLEST)
@pytest.mark.parametrize("shape", [(13,), (3, 32), (3, 3, 32), (1, 32, 3)])
def test_only_images_of_some_size(text, shape):
    least = SMALLEST[text]
    with pytest.raises(UserError, match=f"{text} needs images of at least {least}x{least}") as caught:
        MODELS.build(text).build(shape, 10)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["fedavg-cnn", "vgg9"])
def test_the_smallest_image(text):
    task = make(text, (1, SMALLEST[text], SMALLEST[text]))
    x = torch.randn(1, 1, SMALLEST[text], SMALLEST[text])
    assert task.logits(task.initial(), Batch(x, torch.zeros(1))).shape == (1, 10)
