"""Cronus: parties learn from a mean of their scores on public rows that a few liars cannot move far."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Ask, Party, Phase, Replies, Sends, Vectors, algorithm
from unalike.algorithms.knowledge.own_model import OwnModel
from unalike.algorithms.knowledge.scores import at_their_places, needs_classes
from unalike.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Generator

    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("cronus", paper="Chang et al. 2019 (arXiv:1912.11279)")
class Cronus(OwnModel):
    """Parties send what their models say of public rows, and learn a mean of it from which outliers are removed.

    Each first trains ``alone`` epochs on its own rows (0: not at all). In a round it sends softmax(logits) on all
    public rows. Of every row the server takes a robust mean (:func:`filtered`): of n parties it removes up to
    floor(outliers n), one after the other, each time the one farthest from the mean of the rest along the
    direction in which the rest vary most, while their variance along it is above ``spread``. Parties then train on
    their own rows, with labels, and the public ones, with that mean in place of labels, together. Nets may differ.

    The paper was not at hand in full: that its filter is the spectral one of Diakonikolas et al. 2017
    (arXiv:1703.00893) is from memory, and removing one at a time, up to a fixed number, is our choice of it.

    Where labels are skewed, the few parties that know a class are the outliers on its rows: the filter then
    removes the wrong ones, which cost 11 and 16 points on MNIST by label-dirichlet(0.1). Without liars use 0.
    ``removed`` in the server's state counts, by party, the rows of the last round on which it was removed. The
    server must see single scores.
    """

    sends: ClassVar[Sends] = "scores on public rows"
    needs_each: ClassVar[bool] = True
    alone: int = 1
    outliers: float = 0.2
    spread: float = 0.0

    def __post_init__(self) -> None:
        if not self.alone >= 0:
            raise UserError(f"Cronus.alone must be at least 0, got {self.alone}. Use 1.")
        if not 0 <= self.outliers < 0.5:
            raise UserError(f"Cronus.outliers must be at least 0 and below 0.5, got {self.outliers}. Use 0.2.")
        if not self.spread >= 0:
            raise UserError(f"Cronus.spread must be at least 0, got {self.spread}. Use 0.")

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """Before round 1 own rows alone, then own and public ones together."""
        return (Phase(rows="own+public"),) if round else (Phase("alone", epochs=self.alone),)

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """Scores that nobody has given, and how often each party was removed."""
        needs_classes(task, "Cronus")
        return {"scores": w.new_zeros(len(task.public.y), task.classes), "removed": w.new_zeros(task.population)}

    def prepare(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Everybody trains alone on its own rows."""
        if self.alone:
            yield Ask("train", {})
        return server

    def send(self, task: Task, server: Vectors) -> Vectors:
        """Everybody gets the robust mean of the scores."""
        return {"scores": server["scores"]}

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """All say what they think of the public rows, and learn what most think."""
        import torch

        seen = (yield Ask("measure", {}, rows="public")).each
        told = torch.stack([each["scores"] for each in seen.values()])
        scores, kept = filtered(told, int(self.outliers * len(told)), self.spread)
        removed = torch.zeros_like(server["removed"])
        removed[list(seen)] = (~kept).sum(dim=1).to(removed.dtype)
        server = {"scores": scores, "removed": removed}
        yield Ask("train", self.send(task, server))
        return server

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """What the party's model says of the public rows."""
        scores = party.task.logits(party.state["w"], batch).softmax(dim=-1)
        return {"scores": at_their_places(scores, batch, len(party.task.public.y))}

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """Own rows against their labels, public ones against the robust mean."""
        import torch

        if party.phase == "alone":
            return party.task.loss(w, batch)
        logits = party.task.logits(w, batch)
        assert batch.index is not None
        public = batch.index - party.size.to(batch.index.dtype)
        target = party.received["scores"][public.clamp(min=0)]
        distance = -(target * logits.log_softmax(dim=-1)).sum(dim=-1)
        return batch.mean(torch.where(public < 0, party.task.objective.losses(logits, batch.y), distance))


def filtered(points: Tensor, count: int, spread: float = 0.0) -> tuple[Tensor, Tensor]:
    """Of each row the mean of the points that are left, and which are left; all [points, rows, dimensions].

    ``count`` times the point is removed that is farthest from the mean of those left along the direction in which
    they vary most, where their variance along it is above ``spread``.
    """
    import torch

    given, points = points.dtype, points.double()
    kept = torch.ones(points.shape[:2], dtype=torch.bool, device=points.device)
    for _ in range(count):
        share = (kept / kept.sum(dim=0)).to(points.dtype)
        away = points - torch.einsum("kp,kpd->pd", share, points)
        most = torch.linalg.eigh(torch.einsum("kp,kpc,kpd->pcd", share, away, away))
        along = torch.einsum("kpd,pd->kp", away, most.eigenvectors[..., -1]) ** 2
        farthest = torch.where(kept, along, -1).argmax(dim=0, keepdim=True)
        varies = most.eigenvalues[..., -1] > max(spread, 1e-18)
        kept = kept & ~torch.zeros_like(kept).scatter(0, farthest, varies[None])
    share = (kept / kept.sum(dim=0)).to(points.dtype)
    return torch.einsum("kp,kpd->pd", share, points).to(given), kept
