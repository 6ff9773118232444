"""Personalised algorithms from papers, written against the contract.

A row of one's own for each party (FedAMP), two phases of training (Ditto, FedRep), and layers and statistics that
stay at home (FedBN).
"""

from typing import Literal

import torch

from tests.helpers import LayerNormBody, NormBody, TanhBody
from unalike.algorithms import Algorithm, ByParty, FedAvg, Phase, algorithm
from unalike.errors import UserError

NAMES = ["test-fedamp", "test-ditto", "test-fedrep", "test-fedbn"]
NETS = (NormBody, LayerNormBody, TanhBody)
"""test-norm-body, test-layer-norm and test-tanh, which these can be tried with."""
NEEDS = {"test-fedbn": {"model": "test-norm-body", "batch_size": 64}}
"""The settings without which an algorithm cannot be tried."""


@algorithm("test-fedamp", paper="Huang et al. 2021 (arXiv:2007.03797), Algorithm 1")
class FedAmp(Algorithm):
    """Parties that are alike pull each other: each is sent a mixture of models of its own, u_i.

    With A(x) = 1 - exp(-x / sigma) the server mixes u_i = sum_j xi_ij w_j, where xi_ij = alpha A'(||w_i - w_j||^2)
    for j != i and each row of xi sums to 1. Party i minimises F_i(w) + lam / (2 alpha) ||w - u_i||^2 from its own
    w_i.
    """

    needs_each = True
    lam: float = 0.05
    alpha: float = 0.1
    sigma: float = 1.0

    def init_server(self, task, w):
        most = self.alpha / self.sigma * (task.population - 1)
        if most > 1:
            raise UserError(
                "FedAMP's alpha / sigma is at most 1 / (parties - 1), as no party may count less than 0 in its "
                f"own mixture, got {self.alpha / self.sigma:g} for {task.population} parties. Lower alpha."
            )
        every = w.expand(task.population, -1).clone()
        return {"w": every, "u": every}

    def send(self, task, server):
        return {"u": ByParty(server["u"], torch.arange(task.population))}

    def init_party(self, task, w):
        return {"w": w}

    def start(self, party):
        return party.state["w"]

    def proximal(self, party):
        return self.lam / self.alpha, party.received["u"]

    def upload(self, party, w):
        return {"w": w}, {"w": w}

    def mixture(self, w):
        """xi: how much of every party's model each party is sent."""
        gaps = ((w[:, None] - w[None]) ** 2).sum(dim=-1)
        others = self.alpha / self.sigma * torch.exp(-gaps / self.sigma) * (1 - torch.eye(len(w)).to(w))
        return others + torch.diag(1 - others.sum(dim=1))

    def fold(self, task, server, replies):
        w = server["w"].clone()
        for number, upload in replies.each.items():
            w[number] = upload["w"]
        return {"w": w, "u": self.mixture(w) @ w}

    def global_model(self, task, server):
        return None

    def personal(self, party):
        return party.state["w"]


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
