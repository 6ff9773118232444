"""IFCA and its relatives: each party trains the one of several models that has the least loss on its rows."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from unalike.algorithms.clustered.clusters import Clusters
from unalike.algorithms.contract import Ask, Party, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task


@dataclass(frozen=True)
class ByLoss(Clusters):
    """Base of the algorithms whose parties choose by the mean loss over all of their training rows."""

    def choice(self, party: Party) -> Tensor:
        """The model with the least loss; of equals the first."""
        return party.measured["losses"].argmin()


@algorithm("ifca", paper="Ghosh et al. 2020 (arXiv:2006.04088), Algorithm 1")
class Ifca(ByLoss):
    """Several models: each party trains the one that fits its rows best, so that parties which are alike meet.

    In each round party i takes j_i = argmin_j F_i(theta_j) over the k models, F_i being the mean loss over all of
    its training rows. ``option``:

    - "model": it trains theta_j by the run's local work, and theta_j becomes the mean of its members' models;
    - "gradient": it sends one gradient g_i over all of its training rows, and theta_j moves by
      -(gamma / m) sum_i s_ij g_i, with s_ij = 1 for members and m *all* parties of the round, as in the paper:
      a small cluster moves little. gamma is the run's learning rate; optimiser and local work are not used. It
      takes a second exchange, as the gradient of one model is cheaper than those of all.

    With one cluster the first is FedAvg, the second gradient descent. Departures: parties count by their rows, as
    in FedAvg (the paper's all have as many); the models start from k independent draws, once. The paper restarts
    training from other draws and keeps the best, because a bad draw collapses: one model wins all parties in round
    1, and the others never get any. Look at the clusters' sizes, and try another ``--seed``. The weights that the
    paper shares between clusters are left out.
    """

    option: Literal["model", "gradient"] = "model"

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """One exchange that chooses and trains; of gradients one that chooses and one that measures them."""
        if self.option == "model":
            return (yield from super().round(task, server))
        payload = self.send(task, server)
        counted = yield Ask("measure", payload, phase="choose")
        if task.least_opened > 1:
            payload = self.with_members(task, payload, counted)
        replies = yield Ask("measure", payload, phase="train")
        return {"w": server["w"] + replies.mean["delta"]}

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """The loss of each model; of gradients, in the second exchange, that of the chosen one."""
        if party.phase == "train":
            return {"gradient": party.task.gradient(self.start(party), batch)}
        return super().measure(party, batch)

    def report(self, party: Party) -> tuple[Vectors, Vectors]:
        """A 1 for the party's cluster; of gradients, in the second exchange, its step at that place."""
        if party.phase != "train":
            return super().report(party)
        step = -party.lr * party.measured["gradient"]
        return {"delta": self.sent(party)[:, None] * step}, party.state


@algorithm("hypcluster", paper="Mansour et al. 2020 (arXiv:2002.10619), Algorithm HypCluster")
class HypCluster(ByLoss):
    """Several models, each trained by the parties that it fits best: the same as ifca(option=model).

    The paper alternates between the two steps of IFCA: every party of the round is assigned the hypothesis of
    least loss on its rows, then each hypothesis is trained by its parties.
    """


@algorithm("fedfmc", paper="Kopparapu et al. 2020 (arXiv:2006.10937), the fork")
class FedFmc(ByLoss):
    """The fork of FedFMC: parties choose between several models at times, and stay with their choice in between.

    As ifca(option=model), but a party chooses in the rounds 1, 1 + every, 1 + 2 every, ... alone; one that has
    never chosen does so when it first takes part. Left out: the paper's merge of the models into one and its
    consolidation by elastic weights (EWC). For one model for all see ``tried=mean``, which only averages.
    """

    every: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.every < 1:
            raise UserError(f"FedFmc.every must be >= 1, got {self.every}. Use 1 to choose in each round.")

    def choice(self, party: Party) -> Tensor:
        """The model with the least loss in rounds that fork; else the one that the party had."""
        best, before = super().choice(party), party.state["member"]
        if (party.round - 1) % self.every == 0:
            return best
        return before.argmax().where(before.sum() > 0, best)
