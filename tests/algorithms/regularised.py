"""What the tests of rFedAvg, rFedAvg+ and MOON share: the small net in numpy, and a party by hand."""

import numpy as np
import torch

from unalike.algorithms import Party
from unalike.models import MODELS, Batch, Task
from unalike.rounds.optimisers import Sgd

N, D = 5, 4


def layers_of(task, w):
    return {name: value.numpy() for name, value in task.parameters.unflatten(w.detach()).items()}


def features_by_hand(task, w, x):
    """Linear, ReLU, linear, ReLU."""
    layers, x = layers_of(task, w), np.asarray(x)
    for i in (0, 2):
        x = np.maximum(x @ layers[f"body.{i}.weight"].T + layers[f"body.{i}.bias"], 0)
    return x


def loss_by_hand(task, w, x, y):
    """Mean cross-entropy."""
    layers = layers_of(task, w)
    logits = features_by_hand(task, w, x) @ layers["head.weight"].T + layers["head.bias"]
    top = logits.max(axis=1, keepdims=True)
    logs = logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True))
    return -logs[np.arange(len(y)), np.asarray(y)].mean()


def small_task():
    return Task(lambda: MODELS.build("mlp(6,4)").build((5,), 3), dtype=torch.float64, population=N)


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def some_rows(padding=0):
    """Seven rows, and the same followed by rows that are padding."""
    x, y = random(7, 5, seed=1), torch.tensor([0, 2, 1, 1, 0, 2, 2])
    if not padding:
        return Batch(x, y), x.numpy(), y.numpy()
    mask = torch.tensor([1.0] * 7 + [0.0] * padding, dtype=torch.float64)
    padded = Batch(torch.cat([x, 100 * random(padding, 5)]), torch.cat([y, y[:padding]]), mask)
    return padded, x.numpy(), y.numpy()


def a_party(task, received, state=None, number=1, **more):
    numbers = {key: torch.tensor(value, dtype=torch.float64) for key, value in (("size", 7.0), ("steps", 3.0))}
    own = {"number": torch.tensor(number), "key": torch.tensor(12345), **numbers}
    return Party(task=task, received=received, state=state or {}, lr=0.1, optimiser=Sgd(), **own, **more)


def slope(function, w, way, h=1e-6):
    """The central difference of a function of the weights."""
    return (function(w + h * way) - function(w - h * way)) / (2 * h)


def gradient(algorithm, party, w, batch):
    leaf = w.clone().requires_grad_()
    value = algorithm.loss(party, leaf, batch)
    (found,) = torch.autograd.grad(value, leaf)
    return float(value.detach()), found


def check_loss(algorithm, party, w, batch, by_hand):
    """The loss is what ``by_hand`` says of any weights, and its gradient is by_hand's slope in any direction."""
    value, found = gradient(algorithm, party, w, batch)
    assert abs(value - by_hand(w)) < 1e-9
    for seed in range(6):
        way = random(len(w), seed=seed)
        assert abs(float(found.dot(way)) - slope(by_hand, w, way)) < 1e-5 * max(1.0, float(found.norm()))


def deltas_by_hand(simulation, models):
    """delta_k: the mean feature over all training rows of party k, under ``models[k]``."""
    taken = {}
    for number, w in models.items():
        rows = simulation.federation.parties[number].train
        x, _ = simulation.federation.train.take(torch.from_numpy(rows))
        taken[number] = torch.from_numpy(features_by_hand(simulation.task, w, x.numpy()).mean(axis=0))
    return taken
