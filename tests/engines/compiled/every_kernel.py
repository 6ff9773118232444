"""Every kernel once, on nets and rows that fill no vector: a program for compilers that watch what code does.

Flags of the compiler are given on the command line.
"""

import sys

import torch
from scipy import sparse
from torch import nn

from unalike.algorithms.terms import Ahead
from unalike.engines.compiled.asked import Data, Descent, Steps
from unalike.engines.compiled.chain import describe
from unalike.engines.compiled.library import Kernel
from unalike.models import Net, Task
from unalike.native import compiler

INDEX = torch.tensor([[*range(19)], [*range(40, 59)], [*range(5, 8), *[-1] * 16]])
CLASSES = 3


def convolutions():
    first = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 7, 2, bias=False), nn.ReLU()]
    return Net(nn.Sequential(*first, nn.Flatten(), nn.Linear(28, 9)), nn.Linear(9, CLASSES))


def linear():
    layers = [nn.Linear(99, 18), nn.ReLU(), nn.Linear(18, 5, bias=False), nn.ReLU()]
    return Net(nn.Sequential(*layers), nn.Linear(5, CLASSES))


def logistic():
    return Net(nn.Identity(), nn.Linear(99, CLASSES))


def descents(w):
    """All that a training may be asked, first on its own and then together."""
    other, features = w * 0.9, torch.rand(1)
    near = (0.4, features)
    terms = {"teach": (0.5, 1.5, other), "contrast": (0.8, 0.5, other, -other)}
    pulled = {"strength": torch.rand(len(w)), "centre": other, "linear": other, "pace": 0.5}
    yield Descent(0.1)
    yield Descent(0.1, momentum=0.9, weight_decay=0.01, **pulled)
    yield Descent(0.1, trains=(len(w) - CLASSES, len(w)))
    yield Descent(0.1, own=other, part=0.3, momentum=0.9)
    yield Descent(0.1, ahead=Ahead(0.1, 2, apart=True))
    yield Descent(0.1, ahead=Ahead(0.1, 2, pull=1.0))
    yield Descent(0.1, near=near, scales=torch.rand(CLASSES), **terms)


def exercise(make, shape, data, width, *, sparse=False):
    """Forward and back, training with every term, judging and a gradient."""
    task = Task(make)
    kernel = Kernel(describe(task.net, shape, sparse=sparse), lambda line: None, width)
    w, rows = task.initial(), torch.arange(len(data.y))
    for descent in descents(w):
        if descent.near is not None:
            descent = Descent(**{**vars(descent), "near": (0.4, torch.rand(kernel.features))})
            if sparse and kernel.features == 99:  # its features are the rows, which are nowhere filled up
                continue
        found, loss = kernel.train(w, data, Steps(INDEX), descent)
        assert found.isfinite().all()
        assert loss > 0
    if len(shape) == 3:
        top = left = torch.zeros_like(INDEX)
        kernel.train(w, data, Steps(INDEX, top + 8, left + 8, INDEX % 2 == 0), Descent(0.1))
    models, ends = [w, w * 0.5, w], torch.tensor([7, 7, len(rows)])
    assert kernel.judge(models, ends, data, rows).isfinite().all()
    assert kernel.gradient(w, data).isfinite().all()
    if not sparse and data.x.dtype == torch.float32:
        logits, features, tape = kernel.forward(w, data.x, keep=True)
        kernel.forward(w, data.x)
        kernel.backward(w, tape, logits, features)


def sparse_rows(x, y):
    table = sparse.csr_matrix(x.numpy())
    values, starts, columns = map(torch.from_numpy, (table.data, table.indptr, table.indices))
    return Data(values, y, starts=starts.long(), columns=columns.int())


def main(flags):
    compiler.FLAGS = (*compiler.FLAGS, *flags)
    random = torch.Generator().manual_seed(0)
    y = torch.randint(0, CLASSES, (61,), generator=random)
    images, table = torch.rand(61, 1, 6, 7, generator=random), torch.rand(61, 99, generator=random)
    bytes_, shift = (table * 255).to(torch.uint8), torch.full((99,), 100.0)
    few = sparse_rows(torch.where(table > 0.9, table, 0), y)
    for width in (4, compiler.vector_width()):
        exercise(convolutions, (1, 6, 7), Data(images, y), width)
        exercise(linear, (99,), Data(table, y), width)
        exercise(linear, (99,), few, width, sparse=True)
        exercise(logistic, (99,), few, width, sparse=True)
    exercise(linear, (99,), Data(bytes_, y, shift, shift), width)
    exercise(linear, (99,), Data(bytes_.to(torch.int16), y, shift, shift), width)
    print("every kernel has run")


if __name__ == "__main__":
    main(sys.argv[1:])
