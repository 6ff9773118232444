"""Algorithms from papers, written against the contract: proof that it can carry more than is shipped.

Personal slices (FedPer), training on the server (FedDF), several models in one loss
(Ditto, which as two phases is in personal_algorithms.py).
"""

import torch
from torch.nn import functional

from unalike.algorithms import Algorithm, algorithm

NAMES = ["test-fedper", "test-feddf", "test-ditto-one-loss"]


@algorithm("test-fedper", paper="Arivazhagan et al. 2019 (arXiv:1912.00818)")
class FedPer(Algorithm):
    """A personal head on a shared body."""

    def init_party(self, task, w):
        return {"head": w[task.slices["head"]]}

    def send(self, task, server):
        return {"body": server["w"][task.slices["body"]]}

    def start(self, party):
        return party.task.join(party.received["body"], party.state["head"])

    def upload(self, party, w):
        slices = party.task.slices
        return {"delta": w[slices["body"]] - party.received["body"]}, {"head": w[slices["head"]]}

    def fold(self, task, server, replies):
        w = server["w"]
        return {"w": task.join(w[task.slices["body"]] + replies.mean["delta"], w[task.slices["head"]])}

    def global_model(self, task, server):
        return None

    def personal(self, party):
        return self.start(party)


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
