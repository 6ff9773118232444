"""Algorithms that use every part of the contract, as a user would write them: a plug-in file for real sites."""

import torch
from torch import nn

from unalike.algorithms import Algorithm, Ask, ByParty, Phase, algorithm
from unalike.models.model import register_model
from unalike.models.task import Net


@algorithm("site-ditto")
class Ditto(Algorithm):
    """A personal model beside the shared one: two phases."""

    lam: float = 0.1

    def phases(self, task, round):
        return (Phase("personal"), Phase("shared"))

    def init_party(self, task, w):
        return {"personal": w}

    def start(self, party):
        return party.state["personal"] if party.phase == "personal" else party.received["w"]

    def proximal(self, party):
        return (self.lam, party.received["w"]) if party.phase == "personal" else None

    def keep(self, party, w):
        return {"personal": w}

    def personal(self, party):
        return party.state["personal"]


@algorithm("site-fedrep")
class FedRep(Algorithm):
    """The head stays at the party: it trains first and longer, then the shared body does."""

    def phases(self, task, round):
        return (Phase("head", epochs=3, trains="head"), Phase("body", epochs=1, trains="body"))

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


@algorithm("site-fedamp")
class FedAmp(Algorithm):
    """Every party is sent a model of its own: a mix of all, in which those that are like its own count most."""

    needs_each = True
    alpha: float = 0.05

    def init_server(self, task, w):
        each = w.expand(task.population, -1).clone()
        return {"w": each, "cloud": each.clone()}

    def send(self, task, server):
        return {"cloud": ByParty(server["cloud"], torch.arange(task.population))}

    def init_party(self, task, w):
        return {"w": w}

    def start(self, party):
        return party.state["w"]

    def proximal(self, party):
        return 1.0, party.received["cloud"]

    def upload(self, party, w):
        return {"w": w}, {"w": w}

    def fold(self, task, server, replies):
        w = server["w"].clone()
        for number, upload in replies.each.items():
            w[number] = upload["w"]
        mix = self.alpha * torch.exp(-((w[:, None] - w[None]) ** 2).sum(-1))
        mix.fill_diagonal_(0)
        return {"w": w, "cloud": (mix + torch.diag(1 - mix.sum(1))) @ w}

    def global_model(self, task, server):
        return None

    def personal(self, party):
        return party.state["w"]


@algorithm("site-adapt")
class Adapt(Algorithm):
    """FedAvg whose parties take two steps on their own rows before they use the model, as in Per-FedAvg."""

    def adapt(self, task):
        return (Phase("adapt", steps=2),)


@algorithm("site-fedbn")
class FedBn(Algorithm):
    """Batch norm stays at the party: its weights and its running statistics."""

    keeps_statistics = True

    def init_party(self, task, w):
        return {"norm": w[task.positions("norm")]}

    def start(self, party):
        return party.received["w"].index_copy(0, party.task.positions("norm"), party.state["norm"])

    def upload(self, party, w):
        place = party.task.positions("norm")
        return {"delta": (w - party.received["w"]).index_fill(0, place, 0)}, {"norm": w[place]}

    def personal(self, party):
        return self.start(party)


@algorithm("site-fedmd")
class FedMd(Algorithm):
    """Nets that differ learn from each other's scores on public rows: no weights travel."""

    plain = frozenset({"logits"})
    sends = "scores on public rows"
    classes: int = 2

    def init_server(self, task, w):
        return {"consensus": w.new_zeros(len(task.public.y), self.classes)}

    def init_party(self, task, w):
        return {"w": w}

    def prepare(self, task, server):
        yield Ask("train", {})
        return server

    def phases(self, task, round):
        if round == 0:
            return (Phase("labels", rows="public", epochs=1), Phase("labels"))
        return (Phase("digest", rows="public", epochs=1), Phase("labels"))

    def send(self, task, server):
        return {}

    def round(self, task, server):
        seen = yield Ask("measure", {}, rows="public")
        server = {"consensus": seen.plain_mean["logits"]}
        yield Ask("train", server)
        return server

    def measure(self, party, batch):
        return {"logits": party.task.logits(party.state["w"], party.task.public)}

    def start(self, party):
        return party.state["w"]

    def keep(self, party, w):
        return {"w": w}

    def loss(self, party, w, batch):
        if party.phase == "digest":
            gap = party.task.logits(w, batch) - party.received["consensus"][batch.index]
            return batch.mean(gap.abs().mean(-1))
        return party.task.loss(w, batch)

    def upload(self, party, w):
        return {}, {"w": w}

    def global_model(self, task, server):
        return None

    def personal(self, party):
        return party.state["w"]


@algorithm("site-defkt")
class DefKt(Algorithm):
    """One party trains and shows its model to one other, which learns from it; then all are measured."""

    needs_each = True

    def init_server(self, task, w):
        return {
            "shown": torch.stack([w, w]),
            "count": torch.zeros((), dtype=torch.int64),
            "losses": w.new_zeros(1),
        }

    def init_party(self, task, w):
        return {"w": w}

    def send(self, task, server):
        return {}

    def round(self, task, server):
        sender = int(server["count"]) % task.population
        receiver = (sender + 1) % task.population
        replies = yield Ask("train", {}, to=(sender,))
        shown = server["shown"].clone()
        shown[1] = next(iter(replies.each.values()))["w"]
        which = torch.zeros(task.population, dtype=torch.int64)
        which[receiver] = 1
        yield Ask("train", {"teacher": ByParty(shown, which)}, phase="learn", to=(receiver,))
        seen = yield Ask("measure", {}, rows="validation")
        return {"shown": shown, "count": server["count"] + 1, "losses": seen.mean["loss"]}

    def start(self, party):
        return party.state["w"]

    def proximal(self, party):
        return (1.0, party.received["teacher"]) if party.phase == "learn" else None

    def upload(self, party, w):
        return {"w": w}, {"w": w}

    def measure(self, party, batch):
        return {"loss": party.task.loss(party.state["w"], batch).reshape(1)}

    def global_model(self, task, server):
        return None

    def personal(self, party):
        return party.state["w"]


@algorithm("site-mean-rows")
class MeanRows(Algorithm):
    """FedAvg that also sends the mean of a party's rows, once: what a site must agree to by name."""

    sends = "mean rows"

    def init_server(self, task, w):
        return {"w": w, "rows": w.new_zeros(task.size)}

    def prepare(self, task, server):
        seen = yield Ask("measure", {"w": server["w"]})
        mean = seen.mean["rows"]
        return server | {"rows": torch.cat([mean, server["rows"][len(mean) :]])}

    def measure(self, party, batch):
        return {"rows": batch.mean(batch.x)}


@register_model("site-normed")
class Normed:
    """A small net with batch norm."""

    width: int = 6

    def build(self, shape, classes):
        """The net for such rows."""
        return Net(
            nn.Sequential(nn.Linear(shape[0], self.width), nn.BatchNorm1d(self.width), nn.ReLU()),
            nn.Linear(self.width, classes),
        )
