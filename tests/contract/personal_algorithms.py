"""Personalised algorithms from papers, written against the contract.

Two phases of training (Ditto, FedRep), models that are trained further
before they are used (Per-FedAvg), and layers and statistics that stay at home (FedBN).
"""

from typing import Literal

import torch
from torch.func import grad

from tests.helpers import LayerNormBody, NormBody, TanhBody
from unalike.algorithms import Algorithm, FedAvg, Phase, algorithm
from unalike.errors import UserError

NAMES = ["test-ditto", "test-fedrep", "test-per-fedavg", "test-fedbn"]
NETS = (NormBody, LayerNormBody, TanhBody)
"""test-norm-body, test-layer-norm and test-tanh, which these can be tried with."""
NEEDS = {"test-fedbn": {"model": "test-norm-body", "batch_size": 64}}
"""The settings without which an algorithm cannot be tried."""


@algorithm("test-ditto", paper="Li et al. 2021 (arXiv:2012.04221), Algorithm 1")
class Ditto(Algorithm):
    """A personal model v beside the shared one, which any algorithm trains: min f_k(v) + lam/2 ||v - w||^2.

    v is trained first, near w as it was received; then the base trains w as if there were no v. The authors' code
    trains both step by step on the same batches; here each has its own order of the rows. A base must declare its
    local objective by ``proximal`` and ``linear``.
    """

    base: Algorithm = FedAvg()
    lam: float = 0.1
    steps: int | None = None

    def __post_init__(self):
        if self.base.overrides("loss", "correct", "phases", "adapt", "prepare", "personal"):
            raise UserError(
                f"Ditto's base must train one model by FedAvg's loss, got {type(self.base).__name__}. "
                "Try base=scaffold."
            )

    def phases(self, task, round):
        return Phase("personal", steps=self.steps), Phase("shared")

    def init_party(self, task, w):
        return {**self.base.init_party(task, w), "personal": w}

    def start(self, party):
        return party.state["personal"] if party.phase == "personal" else self.base.start(party)

    def proximal(self, party):
        return (self.lam, party.received["w"]) if party.phase == "personal" else self.base.proximal(party)

    def linear(self, party):
        return None if party.phase == "personal" else self.base.linear(party)

    def keep(self, party, w):
        return {**party.state, "personal": w}

    def upload(self, party, w):
        upload, state = self.base.upload(party, w)
        return upload, {**state, "personal": party.state["personal"]}

    def personal(self, party):
        return party.state["personal"]

    # All else is the base's.
    def init_server(self, task, w):
        return self.base.init_server(task, w)

    def send(self, task, server):
        return self.base.send(task, server)

    def round(self, task, server):
        return self.base.round(task, server)

    def weight(self, party):
        return self.base.weight(party)

    def measure(self, party, batch):
        return self.base.measure(party, batch)

    def global_model(self, task, server):
        return self.base.global_model(task, server)


@algorithm("test-fedrep", paper="Collins et al. 2021 (arXiv:2102.07078), Algorithm 1")
class FedRep(Algorithm):
    """A shared body and a head of one's own: first epochs of the head alone, then of the body alone."""

    head_epochs: int = 3
    body_epochs: int = 1

    def phases(self, task, round):
        return Phase("head", self.head_epochs, trains="head"), Phase("body", self.body_epochs, trains="body")

    def init_party(self, task, w):
        return {"head": w[task.slices["head"]]}

    def send(self, task, server):
        return {"body": server["w"][task.slices["body"]]}

    def start(self, party):
        return party.task.join(party.received["body"], party.state["head"])

    def keep(self, party, w):
        return {"head": w[party.task.slices["head"]]}

    def upload(self, party, w):
        return {"delta": w[party.task.slices["body"]] - party.received["body"]}, party.state

    def fold(self, task, server, replies):
        w = server["w"]
        return {"w": task.join(w[task.slices["body"]] + replies.mean["delta"], w[task.slices["head"]])}

    def global_model(self, task, server):
        return None

    def personal(self, party):
        return self.start(party)


@algorithm("test-per-fedavg", paper="Fallah et al. 2020 (arXiv:2002.07948), Algorithm 1")
class PerFedAvg(Algorithm):
    """A start from which one step suits every party: min sum_k f_k(w - alpha grad f_k(w)).

    Its gradient is (I - alpha H(w)) g(v) with v = w - alpha g(w). ``order``: "fo" drops H; "hf" takes H u as a
    difference of gradients at w +- delta u; "exact" differentiates twice, which compiled nets cannot. Parties
    count the same. Before a party uses its model, it takes one step of rate alpha. Departure: one batch serves as
    the paper's D, D' and D''.
    """

    alpha: float = 0.05
    order: Literal["fo", "hf", "exact"] = "fo"
    delta: float = 1e-3

    def adapt(self, task):
        return (Phase("adapt", steps=1),)

    def weight(self, party):
        return party.size / party.size

    def loss(self, party, w, batch):
        task, alpha = party.task, self.alpha
        if party.phase == "adapt":
            return alpha / party.lr * task.loss(w, batch)
        if self.order == "exact":
            return task.loss(w - alpha * grad(lambda v: task.loss(v, batch, track=False))(w), batch)
        here = w.detach()
        moved = here - alpha * task.gradient(here, batch)
        gradient = task.gradient(moved, batch)
        if self.order == "hf":
            step = self.delta * gradient
            bent = task.gradient(here + step, batch) - task.gradient(here - step, batch)
            gradient = gradient - alpha * bent / (2 * self.delta)
        return task.loss(moved, batch) + (w - here).dot(gradient)  # the loss after the step, with this gradient


@algorithm("test-fedbn", paper="Li et al. 2021 (arXiv:2102.07623), Algorithm 1")
class FedBn(Algorithm):
    """Scales, shifts and statistics of the layers that normalise stay at home; all else is averaged.

    ``own``: "norm", or "nothing" (FedAvg with statistics of one's own).
    """

    keeps_statistics = True
    own: Literal["norm", "nothing"] = "norm"

    def _split(self, task):
        """The positions of what stays, and of what is shared."""
        stays = torch.zeros(task.size, dtype=torch.bool, device=task.device)
        if self.own == "norm":
            stays[task.positions("norm")] = True
        return stays.nonzero()[:, 0], (~stays).nonzero()[:, 0]

    def init_server(self, task, w):
        if self.own == "norm" and not len(task.positions("norm")):
            raise UserError(
                "FedBN keeps layers that normalise at home, but this net has none: it would be FedAvg. "
                "Choose another --model."
            )
        return {"w": w}

    def init_party(self, task, w):
        return {"own": w[self._split(task)[0]]}

    def send(self, task, server):
        return {"shared": server["w"][self._split(task)[1]]}

    def start(self, party):
        own, shared = self._split(party.task)
        w = party.received["shared"].new_zeros(party.task.size)
        return w.index_copy(0, shared, party.received["shared"]).index_copy(0, own, party.state["own"])

    def upload(self, party, w):
        own, shared = self._split(party.task)
        return {"delta": w[shared] - party.received["shared"]}, {"own": w[own]}

    def fold(self, task, server, replies):
        return {"w": server["w"].index_add(0, self._split(task)[1], replies.mean["delta"])}

    def global_model(self, task, server):
        return None

    def personal(self, party):
        return self.start(party)
