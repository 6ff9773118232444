"""FeSEM: k-means on the parties' models, in which every party finds its own centre."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.clustered.clusters import Clusters
from unalike.algorithms.contract import Kind, Party, Vectors, algorithm

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@algorithm("fesem", paper="Xie et al. 2020 (arXiv:2005.01026), Algorithm 1")
class FeSem(Clusters):
    """Several centres: each party goes to the one that its own last model is nearest to, and trains from there.

    With W_i the model that party i keeps and C_j the centres: it takes j_i = argmin_j ||W_i - C_j||^2 (E), trains
    from that centre to a new W_i, and C_j becomes the mean of its members' W_i (M). The party finds j_i itself, so
    the server needs sums alone; in the paper it keeps all W_i. With one cluster it is FedAvg.

    Departures: parties count by their rows, as in FedAvg. A party without a model yet takes a centre at random,
    and all centres start from the run's initial weights: between nets that are drawn apart the distances are those
    of the draws, and nobody would ever change. As with k-means, a bad start can end with groups together.
    """

    kind: ClassVar[Kind] = "train"

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """All centres start from the same weights."""
        return {"w": w.expand(self.clusters, -1).clone()}

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """No cluster and no model of one's own yet."""
        return {**super().init_party(task, w), "w": w}

    def choice(self, party: Party) -> Tensor:
        """The nearest centre; for a party that has never trained any."""
        gaps = ((party.received["w"] - party.state["w"]) ** 2).sum(dim=1)
        known = party.state["member"].sum() > 0
        return gaps.argmin().where(known, party.normal(self.clusters).argmax())

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The update at the place of the centre; the model stays with the party."""
        upload, kept = super().upload(party, w)
        return upload, {**kept, "w": w}
