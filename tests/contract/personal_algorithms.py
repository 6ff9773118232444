"""Personalised algorithms from papers, written against the contract.

A row of one's own for each party (FedAMP), and models that are trained further before they are used (Per-FedAvg).
"""

from typing import Literal

import torch
from torch.func import grad

from tests.helpers import LayerNormBody, NormBody, TanhBody
from unalike.algorithms import Algorithm, ByParty, Phase, algorithm
from unalike.errors import UserError

NAMES = ["test-fedamp", "test-per-fedavg"]
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
