"""Algorithms from papers that exchange knowledge in another form than weights of one net.

Scores on public rows, between nets that differ (FedMD); nets beside the task's own (FedGAN).
"""

import math

import torch
from torch import nn
from torch.nn import functional

from unalike.algorithms import Algorithm, Ask, Phase, algorithm

NAMES = ["test-fedmd", "test-fedgan"]


@algorithm("test-fedmd", paper="Li and Wang 2019 (arXiv:1910.03581), Algorithm 1")
class FedMd(Algorithm):
    """Parties with nets of their own teach each other by their scores on public rows, which everybody has.

    Before round 1 each trains on the labelled public rows, then on its own. In a round, the mean of all parties'
    logits on the public rows is the consensus; a party first comes near it (digest), then trains on its own rows
    (revisit). As in the authors' code the distance is the mean absolute difference. Departure: all public rows are
    used in every round.
    """

    plain = frozenset({"logits"})
    sends = "scores on public rows"
    pretrain: int = 1
    digest: int = 1

    def phases(self, task, round):
        if round == 0:
            return Phase("public", epochs=self.pretrain, rows="public"), Phase("own", epochs=self.pretrain)
        return Phase("digest", epochs=self.digest, rows="public"), Phase("revisit")

    def init_server(self, task, w):
        return {"consensus": torch.zeros_like(task.logits(w, task.public))}

    def init_party(self, task, w):
        return {"w": w}

    def prepare(self, task, server):
        yield Ask("train", {})
        return server

    def round(self, task, server):
        seen = yield Ask("measure", {}, rows="public")
        server = {"consensus": seen.plain_mean["logits"]}
        yield Ask("train", server)
        return server

    def send(self, task, server):
        return server

    def report(self, party):
        return {"logits": party.task.logits(party.state["w"], party.task.public)}, party.state

    def start(self, party):
        return party.state["w"]

    def loss(self, party, w, batch):
        if party.phase != "digest":
            return party.task.loss(w, batch)
        gap = party.task.logits(w, batch) - party.received["consensus"][batch.index]
        return batch.mean(gap.abs().mean(dim=-1))

    def keep(self, party, w):
        return {"w": w}

    def upload(self, party, w):
        return {}, {"w": w}

    def global_model(self, task, server):
        return None

    def personal(self, party):
        return party.state["w"]


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
