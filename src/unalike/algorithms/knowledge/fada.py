"""FADA: labelled sources adapt a model to one party that has no labels."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.clustered.grouping import k_means
from unalike.algorithms.contract import Algorithm, Ask, ByParty, Party, Replies, Sends, Vectors, algorithm
from unalike.algorithms.fedrs import check_classes
from unalike.algorithms.knowledge.disentangle import Disentangler
from unalike.algorithms.knowledge.distil import table
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from unalike.models.batch import Batch
    from unalike.models.extra import Extra
    from unalike.models.task import Task


@algorithm("fada", paper="Peng et al. 2020 (arXiv:1911.02054)")
class Fada(Algorithm):
    """All parties but one have labels; the model is for the ``target``, whose labels are never looked at.

    In each round the target sends the features of ``rows`` of its rows. Every source trains the model on its
    labels, and a judge of its own (the paper's domain identifier DI_i, ``width`` units) that tells its features
    from the target's; the body is trained against the judge, ``lam`` times (the judge stands still). Then the
    target trains its body against all judges, its features to be taken for a source's.

    Attention: for each source the target applies that source's update alone, clusters its own features (k-means,
    as many clusters as classes), and sees by how much their spread within clusters, as a part of their whole
    spread, falls. The model moves by the sum of a_i delta_i, a = softmax(``sharpness`` x fall).
    ``attention=false``: by FedAvg's mean, with the sources' sizes.

    ``disentangle`` > 0 adds, so many times, what :class:`Disentangler` makes small: the body's features are to
    tell the class and not the domain, a code beside them the rest. Those nets stay with their party.

    What it shows: features of the target's rows go to every source, and for shallow bodies features are nearly
    rows; single updates go to the target. The paper was not at hand, and has no public code. Departures, or what
    we assumed: sources begin each round at the common model; both sides are trained with the judge's labels
    exchanged; the spread is a part of the whole, since a smaller scale of the features is no better clustering;
    in the paper the disentangler takes the body's features apart and classifies one part, here the body itself
    gives that part.
    """

    needs_each: ClassVar[bool] = True
    needs_features: ClassVar[bool] = True
    sends: ClassVar[Sends] = "features"
    target: int = 0
    lam: float = 0.1
    attention: bool = True
    sharpness: float = 10.0
    disentangle: float = 0.0
    width: int = 16
    rows: int = 256

    def __post_init__(self) -> None:
        leasts = {"target": 0, "lam": 0, "sharpness": 0, "disentangle": 0, "width": 1, "rows": 1}
        for name, least in leasts.items():
            if not getattr(self, name) >= least:
                raise UserError(f"Fada.{name} must be at least {least}, got {getattr(self, name)}.")

    def judge(self, task: Task) -> Extra:
        """What tells a source's features from the target's: above 0 for the source's."""
        return task.extra("fada judge", partial(_two_layers, task.feature_size, self.width))

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The model, and every source's judge."""
        check_classes(task, "Fada")
        if not self.target < task.population or task.population < 2:
            raise UserError(
                f"Fada's target must be one of two parties or more, 0 to {task.population - 1}, got {self.target}."
            )
        if self.disentangle:
            _ = Disentangler.of(task, self.width)  # made here, where nothing is stacked
        return {"w": w, "judges": self.judge(task).initial().repeat(task.population, 1)}

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The nets that disentangle, which a party keeps to itself."""
        return {"own": Disentangler.of(task, self.width).initial()} if self.disentangle else {}

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Features from the target, training at the sources, attention at the target, training there."""
        import torch

        w, judges, target = server["w"], server["judges"].clone(), (self.target,)
        sources = tuple(number for number in range(task.population) if number != self.target)
        sent: dict[str, Tensor | ByParty] = {"w": w, "judge": ByParty(judges, torch.arange(task.population))}
        if self.lam:
            seen = yield Ask("offer", {"w": w}, phase="features", to=target)
            sent["features"] = seen.each[self.target]["features"]
        replies = yield Ask("train", sent, phase="source", to=sources)
        there = sorted(replies.each)
        for number in there:
            judges[number] = replies.each[number]["judge"]
        if self.attention:
            deltas = w.new_zeros(task.population, len(w))
            deltas[there] = torch.stack([replies.each[number]["delta"] for number in there])
            tried = yield Ask("offer", {"w": w, "deltas": deltas}, phase="attention", to=target)
            falls = tried.each[self.target]["falls"][there]
            w = w + (self.sharpness * falls).softmax(dim=0) @ deltas[there]
        else:
            w = w + replies.mean["delta"]
        if self.lam:
            share = w.new_zeros(task.population)
            share[there] = 1 / len(there)
            moved = yield Ask("train", {"w": w, "judges": judges, "share": share}, phase="target", to=target)
            w = w + moved.each[self.target]["delta"]
        return {"w": w, "judges": judges}

    def offer(self, party: Party, batch: Batch) -> tuple[Vectors, Vectors]:
        """The target's features of some rows, or by how much each source's update lets their spread fall."""
        import torch

        if party.phase == "features":
            order = party.normal(len(batch.y)).argsort()[
                torch.arange(self.rows, device=batch.y.device) % len(batch.y)
            ]
            return {"features": self.features(party.task, party.received["w"], batch)[order]}, party.state
        w, deltas = party.received["w"], party.received["deltas"]
        before = self.spread(party, self.features(party.task, w, batch))
        after = [self.spread(party, self.features(party.task, w + delta, batch)) for delta in deltas]
        return {"falls": before - torch.stack(after)}, party.state

    def features(self, task: Task, w: Tensor, batch: Batch) -> Tensor:
        """What the body makes of all rows."""
        return table(lambda some: task.features(w, some), batch)

    def spread(self, party: Party, features: Tensor) -> Tensor:
        """The squares of distances from the centres of k-means' clusters, as a part of those from the mean."""
        import torch

        clusters = min(party.task.classes, len(features))
        groups = k_means(features, clusters, 0.0, party.task.generator(party.round))
        within = torch.stack([((part := features[group]) - part.mean(dim=0)).square().sum() for group in groups])
        whole = (features - features.mean(dim=0)).square().sum()
        return within.sum() / whole.clamp(min=1e-12)

    def start(self, party: Party) -> Tensor:
        """The model; a source's judge; and the nets that disentangle."""
        import torch

        judge = [party.received["judge"]] if party.phase == "source" else []
        return torch.cat([party.received["w"], *judge, *party.state.values()])

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """Of a source: labels, the judge, and against the judge; of the target: against all judges, no labels."""
        from torch.nn import functional

        task, judge, source = party.task, self.judge(party.task), party.phase == "source"
        logits, f = task.forward(w[: task.size], batch)
        own = w[task.size + source * judge.size :]
        loss = task.loss_of(logits, batch) if source else 0 * f.sum()
        if self.lam and source:
            d = w[task.size : task.size + judge.size]
            told = batch.mean(functional.softplus(-judge(d, f.detach())[:, 0]))
            told = told + functional.softplus(judge(d, party.received["features"])).mean()
            against = batch.mean(functional.softplus(judge(d.detach(), f)[:, 0]))
            loss = loss + told + self.lam * against
        elif self.lam:
            for d, share in zip(party.received["judges"], party.received["share"], strict=True):
                loss = loss + self.lam * share * batch.mean(functional.softplus(-judge(d, f)[:, 0]))
        if self.disentangle:
            parts = Disentangler.of(task, self.width)
            loss = loss + self.disentangle * parts.loss(own, f, batch, labels=source)
        return loss

    def correct(self, party: Party, w: Tensor, grad: Tensor) -> Tensor:
        """The target's head stays as it is: without labels nothing says where it should go."""
        if party.phase != "target":
            return grad
        free = grad.new_ones(grad.shape)
        free[party.task.slices["head"]] = 0
        return grad * free

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The change of the model, and a source's judge; the nets that disentangle stay."""
        size, judge = party.task.size, self.judge(party.task).size * (party.phase == "source")
        state = {"own": w[size + judge :]} if self.disentangle else {}
        sent = {"delta": w[:size] - party.received["w"]}
        return (sent | {"judge": w[size : size + judge]} if judge else sent), state


def _two_layers(size: int, width: int) -> nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(size, width), nn.Tanh(), nn.Linear(width, 1))
