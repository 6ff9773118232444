"""Federated distillation (FD): parties exchange, for each label, what their models say of rows that have it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Ask, Party, Replies, Sends, Vectors, algorithm
from unalike.algorithms.knowledge.own_model import OwnModel
from unalike.algorithms.knowledge.scores import needs_classes
from unalike.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Generator

    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@algorithm("fd", paper="Jeong et al. 2018 (arXiv:1811.11479), section 2")
class Fd(OwnModel):
    """Each party learns what the others' models say of rows with the same label. No weights, no public rows.

    F_k[l] is the mean of softmax(logits) over party k's rows with label l (the paper's "logit vector" of a label,
    which it normalises by a softmax). In the next round party k trains its own model on

        CE(F, y) + gamma CE(F, T_k[y]),   T_k[l] = (sum over j of F_j[l] - F_k[l]) / (how many others have label l)

    Departures: F_k is measured over all rows after local training, not collected during it. The paper divides by
    the number of all other parties; here parties without a label do not pull its mean to zero, and a row whose
    label nobody else has is learnt without a teacher. With ``--sample`` below 1 the others are those of the last
    cohort.

    No gain was found: on MNIST by label-dirichlet(0.1) models are as training alone leaves them
    (docs/knowledge.md).

    The server needs sums alone. Nets may differ. The teacher goes by the label of a row and not by its place, as
    ``teach`` would have it: training is not one compiled call, though its gradients are compiled.
    """

    sends: ClassVar[Sends] = "scores by label"
    plain: ClassVar[frozenset[str]] = frozenset({"scores", "parties"})
    needs_exact: ClassVar[bool] = True
    gamma: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < math.inf:
            raise UserError(f"Fd.gamma must be >= 0, got {self.gamma}. Use 0 for training alone.")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """For each label the sum of what parties' models say, of how many, and in which round."""
        needs_classes(task, "FD")
        scores = w.new_zeros(task.classes, task.classes)
        return {"scores": scores, "parties": scores[0].clone(), "round": w.new_zeros(())}

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The party's own model, and its share of the sums."""
        return {"w": w, **self.init_server(task, w)}

    def send(self, task: Task, server: Vectors) -> Vectors:
        """Everybody gets the sums, and takes its own share out of them."""
        return server

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Train, then look at all rows."""
        replies = yield Ask("train+measure", self.send(task, server))
        return self.fold(task, server, replies)

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """The sums of this round in place of those of the last."""
        return {key: replies.sum[key] for key in ("scores", "parties")} | {"round": server["round"] + 1}

    def others(self, party: Party) -> tuple[Tensor, Tensor]:
        """T_k: the mean scores of the other parties by label, and whether another has the label at all."""
        own = party.state["round"] == party.received["round"]  # else the party is not in the sums
        scores, parties = (party.received[key] - own * party.state[key] for key in ("scores", "parties"))
        return scores / parties.clamp(min=1)[:, None], (parties > 0.5).to(parties.dtype)

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """The task's loss and the distance to the others' scores of the rows' labels."""
        told, known = self.others(party)
        logits = party.task.logits(w, batch)
        distance = -(told[batch.y] * logits.log_softmax(dim=-1)).sum(dim=-1)
        return party.task.loss_of(logits, batch) + self.gamma * batch.mean(known[batch.y] * distance)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """Of each label: its share of the rows, and of these the sum of what the trained model says."""
        from torch.nn import functional

        assert party.trained is not None
        scores = party.task.logits(party.trained, batch).softmax(dim=-1)
        has = functional.one_hot(batch.y, party.task.classes).to(scores.dtype)
        return {"share": batch.mean(has), "scores": batch.mean(has[:, :, None] * scores[:, None, :])}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """F_k, zero where the party has no such row, and which labels it has."""
        share = party.measured["share"]
        has = (share > 0).to(share.dtype)
        scores = party.measured["scores"] / (share + 1 - has)[:, None]
        own = {"scores": scores, "parties": has}
        return own, {"w": w, **own, "round": party.state["round"] * 0 + party.round}
