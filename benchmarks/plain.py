"""The plain PyTorch loop: a copy of the net for each party, torch.optim.SGD, rows that are tensors already.

Batches are one index of a permutation, which is faster than a DataLoader. Flower's clients run the same functions.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.workload import LR, MOMENTUM, Workload

EVALUATED = 1024
"""Rows in one forward pass of an evaluation, for every contender."""


def train(net: nn.Module, x: Tensor, y: Tensor, workload: Workload) -> None:
    """A party's local training."""
    optimiser = torch.optim.SGD(net.parameters(), lr=LR, momentum=MOMENTUM)
    for _ in range(workload.epochs):
        for rows in torch.split(torch.randperm(len(x)), workload.batch):
            optimiser.zero_grad()
            functional.cross_entropy(net(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()


@torch.no_grad()
def evaluate(net: nn.Module, x: Tensor, y: Tensor) -> tuple[float, float]:
    """The mean loss and the accuracy."""
    loss = correct = 0.0
    for part, labels in zip(torch.split(x, EVALUATED), torch.split(y, EVALUATED), strict=True):
        logits = net(part)
        loss += float(functional.cross_entropy(logits, labels, reduction="sum"))
        correct += float((logits.argmax(dim=1) == labels).sum())
    return loss / len(x), correct / len(x)


class PlainLoop:
    """FedAvg as everybody writes it."""

    def __init__(self, net: nn.Module, workload: Workload) -> None:
        self.net, self.workload = copy.deepcopy(net), workload
        x, y, x_test, y_test = (torch.from_numpy(part) for part in workload.arrays())
        self.parties = list(zip(torch.split(x, workload.rows), torch.split(y, workload.rows), strict=True))
        self.test = x_test, y_test

    def play(self) -> float:
        """One round, evaluation included; the accuracy."""
        cohort = torch.randperm(len(self.parties))[: self.workload.cohort or len(self.parties)].tolist()
        rows = sum(len(self.parties[number][1]) for number in cohort)
        total = [torch.zeros_like(value) for value in self.net.parameters()]
        for number in cohort:
            local = copy.deepcopy(self.net)
            x, y = self.parties[number]
            train(local, x, y, self.workload)
            share = len(y) / rows
            with torch.no_grad():
                for value, trained in zip(total, local.parameters(), strict=True):
                    value.add_(trained, alpha=share)
        with torch.no_grad():
            for value, mean in zip(self.net.parameters(), total, strict=True):
                value.copy_(mean)
        return evaluate(self.net, *self.test)[1]
