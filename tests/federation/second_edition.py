"""Algorithms beside those of the papers, as a user would write them: a plug-in file for real sites."""

import torch
from torch import nn

from unalike.algorithms import Algorithm, Ask, ByParty, Phase, algorithm
from unalike.models.model import register_model
from unalike.models.task import Net


@algorithm("site-relay")
class Relay(Algorithm):
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


@algorithm("site-newcomers-tune")
class NewcomersTune(Algorithm):
    """FedAvg that those tune before use who keep no state; here that is everybody."""

    def adapt(self, task):
        return (Phase("tune", epochs=1),)

    def adapts(self, known):
        return not known
