"""Algorithms from papers, written against the contract: proof that it can carry more than is shipped.

Several models in one loss (Ditto).
"""

import torch

from unalike.algorithms import Algorithm, algorithm

NAMES = ["test-ditto-one-loss"]


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
