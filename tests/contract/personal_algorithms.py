"""Personalised algorithms from papers, written against the contract.

A row of one's own for each party (FedAMP).
"""

import torch

from tests.helpers import LayerNormBody, NormBody, TanhBody
from unalike.algorithms import Algorithm, ByParty, algorithm
from unalike.errors import UserError

NAMES = ["test-fedamp"]
NETS = (NormBody, LayerNormBody, TanhBody)
"""test-norm-body, test-layer-norm and test-tanh, which these can be tried with."""


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
