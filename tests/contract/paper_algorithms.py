"""Algorithms from papers, written against the contract: proof that it can carry more than is shipped.

Training on the server (FedDF), several models in one loss (Ditto).
"""

import torch
from torch.nn import functional

from unalike.algorithms import Algorithm, algorithm

NAMES = ["test-feddf", "test-ditto-one-loss"]


@algorithm("test-feddf", paper="Lin et al. 2020 (arXiv:2006.07242)")
class FedDf(Algorithm):
    """The server distils the ensemble of uploads into their average, on rows of its own."""

    needs_each = True
    distil_steps: int = 3

    def upload(self, party, w):
        return {"w": w}, party.state

    def fold(self, task, server, replies):
        teachers = [task.logits(upload["w"], task.public).detach() for upload in replies.each.values()]
        target = functional.softmax(sum(teachers) / len(teachers), dim=1)
        w = replies.mean["w"].clone().requires_grad_()
        for _ in range(self.distil_steps):
            logits = task.logits(w, task.public)
            (grad,) = torch.autograd.grad(functional.cross_entropy(logits, target), w)
            w = (w - 0.1 * grad).detach().requires_grad_()
        return {"w": w.detach()}


@algorithm("test-ditto-one-loss", paper="Li et al. 2021 (arXiv:2012.04221), Algorithm 1")
class DittoInOneLoss(Algorithm):
    """A personal model beside the global one, kept near it: both in one stacked vector."""

    lam: float = 0.1

    def init_party(self, task, w):
        return {"personal": w}

    def start(self, party):
        return torch.cat([party.received["w"], party.state["personal"]])

    def loss(self, party, w, batch):
        shared, personal = w.chunk(2)
        drift = personal - party.received["w"]
        own = party.task.loss_of(party.task.logits(personal, batch, track=False), batch)
        return party.task.loss(shared, batch) + own + self.lam / 2 * drift.dot(drift)

    def upload(self, party, w):
        shared, personal = w.chunk(2)
        return {"delta": shared - party.received["w"]}, {"personal": personal}

    def personal(self, party):
        return party.state["personal"]
