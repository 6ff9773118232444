"""Algorithms from papers that exchange something else than weights of the task's net: a generator (FedGAN)."""

import math

import torch
from torch import nn
from torch.nn import functional

from unalike.algorithms import Algorithm, algorithm

NAMES = ["test-fedgan"]


@algorithm("test-fedgan", paper="Rasouli et al. 2020 (arXiv:2006.07228), Algorithm 1")
class FedGan(Algorithm):
    """A generator and a judge (the paper's discriminator), both averaged: local steps move both at once.

    The judge learns to tell rows from made ones, the generator to be taken for rows (the non-saturating loss of
    Goodfellow et al. 2014). ``ratio`` is the generator's rate in units of the judge's. The run's own net has no
    part in it.
    """

    noise: int = 2
    ratio: float = 1.0

    def nets(self, task):
        """The generator and the judge, as functions of flat vectors."""
        width = math.prod(task.shape)
        made = task.extra("generator", lambda: nn.Linear(self.noise, width))
        return made, task.extra("judge", lambda: nn.Sequential(nn.Linear(width, 4), nn.Tanh(), nn.Linear(4, 1)))

    def init_server(self, task, w):
        return dict(zip(("generator", "judge"), (net.initial() for net in self.nets(task)), strict=True))

    def send(self, task, server):
        return server

    def start(self, party):
        return torch.cat([party.received["generator"], party.received["judge"]])

    def loss(self, party, w, batch):
        generator, judge = self.nets(party.task)
        g, d = torch.split(w, [generator.size, judge.size])
        real = batch.x.flatten(1)
        made = generator(g, batch.normal(len(real) * self.noise).reshape(len(real), self.noise))
        telling = functional.softplus(-judge(d, real)) + functional.softplus(judge(d, made.detach()))
        passing = functional.softplus(-judge(d.detach(), made))
        return batch.mean((telling + self.ratio * passing)[:, 0])

    def upload(self, party, w):
        generator, judge = self.nets(party.task)
        g, d = torch.split(w - self.start(party), [generator.size, judge.size])
        return {"generator": g, "judge": d}, party.state

    def fold(self, task, server, replies):
        return {key: server[key] + replies.mean[key] for key in server}

    def global_model(self, task, server):
        return None
