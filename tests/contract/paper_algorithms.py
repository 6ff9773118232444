"""Algorithms from papers, written against the contract: proof that it can carry them.

Party state and gradient correction (SCAFFOLD), step counts (FedNova), two exchanges (rFedAvg+), personal
slices (FedPer), a leading cluster axis (IFCA), training on the server (FedDF), several models in one loss (MOON,
Ditto), two kinds of training in a round (FedRep).
"""

import torch
from torch.func import vmap
from torch.nn import functional

from unalike.algorithms import Algorithm, Ask, algorithm

NAMES = ["test-scaffold", "test-fednova", "test-rfedavg+", "test-fedper", "test-ifca", "test-feddf"]
NAMES += ["test-moon", "test-fedrep", "test-ditto"]


@algorithm("test-scaffold", paper="Karimireddy et al. 2020 (arXiv:1910.06378), Algorithm 1, option II")
class Scaffold(Algorithm):
    """Control variates."""

    plain = frozenset({"dc"})

    def init_server(self, task, w):
        return {"w": w, "c": torch.zeros_like(w)}

    def init_party(self, task, w):
        return {"c": torch.zeros_like(w)}

    def send(self, task, server):
        return server

    def correct(self, party, w, grad):
        return grad - party.state["c"] + party.received["c"]

    def upload(self, party, w):
        x, c, c_i = party.received["w"], party.received["c"], party.state["c"]
        new = c_i - c + (x - w) / (party.step_sum * party.lr)
        return {"delta": w - x, "dc": new - c_i}, {"c": new}

    def fold(self, task, server, replies):
        return {
            "w": server["w"] + replies.mean["delta"],
            "c": server["c"] + replies.size / replies.population * replies.plain_mean["dc"],
        }


@algorithm("test-fednova", paper="Wang et al. 2020 (arXiv:2007.07481)")
class FedNova(Algorithm):
    """Normalised averaging."""

    def upload(self, party, w):
        steps = party.step_sum
        return {"direction": (w - party.received["w"]) / steps, "steps": steps}, party.state

    def fold(self, task, server, replies):
        return {"w": server["w"] + replies.mean["steps"] * replies.mean["direction"]}


@algorithm("test-rfedavg+", paper="Wang et al. 2023, Algorithm 2")
class RFedAvgPlus(Algorithm):
    """MMD to the mean feature of the other parties."""

    lam: float = 0.1
    noise: float = 0.0
    plain = frozenset({"phi", "count"})

    def _nothing(self, task, w):
        return torch.zeros(task.net.head.in_features).to(w)

    def init_server(self, task, w):
        return {"w": w, "sum": self._nothing(task, w), "count": w.sum() * 0}

    def init_party(self, task, w):
        return {"phi": self._nothing(task, w), "counted": w.sum() * 0}

    def send(self, task, server):
        return server

    def round(self, task, server):
        replies = yield Ask("train", self.send(task, server))
        server = self.fold(task, server, replies)
        seen = yield Ask("measure", {"w": server["w"]})
        # Absent parties keep their last feature in the sum: what comes is the change since then.
        return server | {"sum": server["sum"] + seen.sum["phi"], "count": server["count"] + seen.sum["count"]}

    def loss(self, party, w, batch):
        logits, features = party.task.forward(w, batch)
        others = party.received["count"] - party.state["counted"]
        mean = (party.received["sum"] - party.state["phi"]) / others.clamp(min=1)
        gap = batch.mean(features) - mean
        return party.task.loss_of(logits, batch) + self.lam * (others > 0) * gap.dot(gap)

    def measure(self, party, batch):
        return {"phi": batch.mean(party.task.features(party.received["w"], batch))}

    def report(self, party):
        phi = party.measured["phi"]
        phi = phi + self.noise * party.normal(len(phi))
        one = torch.ones_like(party.size)
        changes = {"phi": phi - party.state["phi"], "count": one - party.state["counted"]}
        return changes, {"phi": phi, "counted": one}


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


@algorithm("test-moon", paper="Li et al. 2021 (arXiv:2103.16257), Algorithm 1")
class Moon(Algorithm):
    """Contrast with the global and the party's previous model."""

    mu: float = 1.0
    temperature: float = 0.5

    def init_party(self, task, w):
        return {"previous": w}

    def loss(self, party, w, batch):
        logits, features = party.task.forward(w, batch)
        near, far = (
            functional.cosine_similarity(features, party.task.features(other, batch, track=False).detach(), dim=-1)
            for other in (party.received["w"], party.state["previous"])
        )
        scores = torch.stack([near, far], dim=-1) / self.temperature
        return party.task.loss_of(logits, batch) - self.mu * batch.mean(functional.log_softmax(scores, -1)[..., 0])

    def upload(self, party, w):
        return {"delta": w - party.received["w"]}, {"previous": w}


@algorithm("test-fedrep", paper="Collins et al. 2021 (arXiv:2102.07078), Algorithm 1")
class FedRep(FedPer):
    """The head first, then the body: two phases of training in one round."""

    def round(self, task, server):
        body = self.send(task, server)
        yield Ask("train", body, phase="head")
        replies = yield Ask("train", body, phase="body")
        return self.fold(task, server, replies)

    def correct(self, party, w, grad):
        keep = torch.zeros_like(grad)
        keep[party.task.slices[party.phase]] = 1
        return grad * keep


@algorithm("test-ditto", paper="Li et al. 2021 (arXiv:2012.04221), Algorithm 1")
class Ditto(Algorithm):
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
