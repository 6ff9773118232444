"""Algorithms from papers, written against the contract: proof that it can carry more than is shipped.

A leading cluster axis (IFCA), training on the server (FedDF), several models in one loss (Ditto).
"""

import torch
from torch.func import vmap
from torch.nn import functional

from unalike.algorithms import Algorithm, Ask, algorithm

NAMES = ["test-ifca", "test-feddf", "test-ditto-one-loss"]


@algorithm("test-ifca", paper="Ghosh et al. 2020 (arXiv:2006.04088), Algorithm 1")
class Ifca(Algorithm):
    """Clusters: each party trains the model that fits it best."""

    clusters: int = 2

    def init_server(self, task, w):
        return {"w": torch.stack([task.initial(k) for k in range(self.clusters)])}

    def init_party(self, task, w):
        return {"member": torch.full((self.clusters,), 1 / self.clusters).to(w)}

    def round(self, task, server):
        replies = yield Ask("measure+train", self.send(task, server))
        return self.fold(task, server, replies)

    def measure(self, party, batch):
        return {"losses": vmap(lambda w: party.task.loss(w, batch))(party.received["w"])}

    def _member(self, party):
        return functional.one_hot(party.measured["losses"].argmin(), self.clusters).to(party.size)

    def start(self, party):
        return self._member(party) @ party.received["w"]

    def upload(self, party, w):
        member = self._member(party)
        delta = member[:, None] * (w - self.start(party))
        return {"delta": delta, "member": member}, {"member": member}

    def fold(self, task, server, replies):
        share = replies.mean["member"][:, None]
        return {"w": server["w"] + torch.where(share > 0, replies.mean["delta"] / share.clamp(min=1e-12), 0)}

    def global_model(self, task, server):
        return None

    def personal(self, party):
        return party.state["member"] @ party.received["w"]


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
