"""Several models, and parties that each train one of them: what all such algorithms have in common."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.algorithms.contract import Algorithm, Ask, Kind, Party, Payload, Replies, Vectors
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task

Tried = Literal["loss", "ensemble", "mean"]
FEWEST = 3
"""Parties of a cluster in a sum that hides them, as of any such sum (``channels/rules.py``)."""


@dataclass(frozen=True)
class Clusters(Algorithm):
    """Base of the algorithms with k models, of which a party chooses one, trains it, and sends sums alone.

    A party uploads its update at the place of its cluster and zeros at the others, [k, d], and in the same way a 1
    for itself, [k]. From the sums the server moves each model by the mean update of its members, weighted by their
    rows; a cluster without members keeps its model. All k models go to everybody. Running statistics of batch norm
    are those of all parties; with ``--batch-norm local`` each party has its own.

    ``tried``: the model that a party evaluates and deploys. "loss": the one with the least loss on the party's own
    training rows, which newcomers can find too; "ensemble": the mean of what all models predict, for evaluation
    alone, as it is no one net; "mean": the mean of all models' weights, which makes little sense of nets that
    started apart.

    On a channel that hides single uploads the parties first add up how many are in each cluster, which is all that
    the server learns, and those in a cluster of fewer than ``least`` keep their updates at home: the sum of a
    cluster of one is that party's model, and of two each could subtract its own. Where a plan lets parties be
    missing, ``least`` must be larger by their number: they may leave after they were counted.
    """

    plain: ClassVar[frozenset[str]] = frozenset({"members"})
    needs_exact: ClassVar[bool] = True
    kind: ClassVar[Kind] = "measure+train"
    """The exchange of a round; "train" where the choice needs no pass over the party's rows."""
    clusters: int = 2
    tried: Tried = "loss"
    least: int = FEWEST

    def __post_init__(self) -> None:
        object.__setattr__(self, "measures_personal", self.tried == "loss")
        name = type(self).__name__
        if self.clusters < 1:
            raise UserError(f"{name}.clusters must be >= 1, got {self.clusters}. Try 2.")
        if self.least < FEWEST:
            raise UserError(
                f"{name}.least must be >= {FEWEST}, got {self.least}: the sum of a cluster of one is that "
                "party's update, and of two each could subtract its own. Leave it out."
            )

    def choice(self, party: Party) -> Tensor:
        """The number of the cluster that the party takes now, as a 0-d tensor of whole numbers."""
        raise NotImplementedError

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """Models that start apart: the first is the run's own, the others are drawn like it."""
        import torch

        self.check_clusters(task)
        return {"w": torch.stack([w, *(task.initial(k) for k in range(1, self.clusters))])}

    def check_clusters(self, task: Task) -> None:
        """Refuse more clusters than parties, of which some could never have a member."""
        if self.clusters > task.population:
            raise UserError(
                f"{type(self).__name__}.clusters must be at most the number of parties, {task.population}, got "
                f"{self.clusters}. Lower it."
            )

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The cluster that the party was in last, as a 1 among zeros; none yet."""
        return {"member": w.new_zeros(self.clusters)}

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """One exchange; two where the members must be counted before any update leaves a party."""
        payload = self.send(task, server)
        if task.least_opened > 1:
            counted = yield Ask("measure", payload, phase="choose")
            replies = yield Ask("train", self.with_members(task, payload, counted), phase="train")
        else:
            replies = yield Ask(self.kind, payload)
        return self.fold(task, server, replies)

    def with_members(self, task: Task, payload: Payload, counted: Replies) -> Payload:
        """The payload with how many are in each cluster, by which a party sees whether its own may be opened."""
        if task.least_opened > self.least:
            raise UserError(
                f"{type(self).__name__}.least must be >= {task.least_opened} where so many parties may be missing "
                f"from a hidden sum, got {self.least}. Write least={task.least_opened}, or ask for all parties."
            )
        return {**payload, "members": counted.sum["members"].to(task.dtype).round()}

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The loss of each model."""
        import torch

        if party.phase == "choose" and self.kind == "train":
            return {}
        return {"losses": torch.stack([party.task.loss(w, batch) for w in party.received["w"].unbind()])}

    def member(self, party: Party) -> Tensor:
        """The party's cluster as a 1 among zeros: chosen now, or in the exchange before."""
        from torch.nn import functional

        if party.phase == "train":
            return party.state["member"]
        return functional.one_hot(self.choice(party), self.clusters).to(party.size)

    def sent(self, party: Party) -> Tensor:
        """The same as far as the party tells it: zeros where its cluster is too small to be opened."""
        member = self.member(party)
        if "members" not in party.received:
            return member
        return member * (party.received["members"] >= self.least)

    def start(self, party: Party) -> Tensor:
        """The model of the party's cluster."""
        return at(party.received["w"], self.member(party).argmax())

    def report(self, party: Party) -> tuple[Vectors, Vectors]:
        """Where members are counted first: a 1 for the party at the place of its cluster."""
        member = self.member(party)
        return {"members": member}, {**party.state, "member": member}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The update at the place of the party's cluster; zeros where that is too small to be opened."""
        sent = self.sent(party)
        kept = {**party.state, "member": self.member(party)}
        return {"delta": sent[:, None] * (w - self.start(party)), "share": sent}, kept

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """Each model moves by the mean update of its members; that of an empty cluster is a sum of zeros."""
        share = replies.mean["share"][:, None]
        return {"w": server["w"] + replies.mean["delta"] / share.where(share > 0, 1)}

    def global_model(self, task: Task, server: Vectors) -> Tensor | None:
        """The mean of all models, where it is what parties deploy; else there is no one model."""
        return server["w"].mean(dim=0) if self.tried == "mean" else None

    def personal(self, party: Party) -> Tensor:
        """The model with the least loss on the party's training rows, or what ``tried`` says."""
        if self.tried == "loss":
            return at(party.received["w"], party.measured["losses"].argmin())
        return party.received["w"] if self.tried == "ensemble" else party.received["w"].mean(dim=0)


def at(models: Tensor, which: Tensor) -> Tensor:
    """One of a stack of models, its bits as they are."""
    return models.index_select(0, which.reshape(1))[0]
