"""Groups that are found once, from the parties' updates or models, and trained apart from then on."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from unalike.algorithms.clustered.grouping import Linkage, Metric, agglomerate, k_means, trimmed_mean
from unalike.algorithms.clustered.nodes import NodeModels, branched, count, moved, noted
from unalike.algorithms.contract import Ask, Phase, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


class OneSplit(NodeModels):
    """A root for all parties, and under it the groups that it was split into once."""

    def nodes(self, task: Task) -> int:
        """The root, and one for each party at most."""
        return 1 + task.population


@algorithm("fl+hc", paper="Briggs et al. 2020 (arXiv:2004.11791)")
class FlHc(OneSplit):
    """FedAvg for some rounds; then parties with updates near each other are clustered, and clusters train apart.

    After ``rounds`` rounds of FedAvg comes one in which every party trains from the joint model w. Its updates
    w_k - w are clustered agglomeratively: two clusters are merged, nearest first, while their distance is at most
    ``threshold`` in the ``metric`` (l1, l2, cosine) and ``linkage`` (single, complete, average; ward, for l2).
    From then on there is FedAvg in each cluster alone. Threshold 0 leaves everyone alone; infinity is FedAvg.

    Cosine distances (from 0 to 2) are the default, as they do not depend on the net, the learning rate and the
    local work. A threshold of 0.8 after 10 rounds was chosen on digits, with 8 and 20 parties: those that are
    alike merge below 0.73, planted groups (permuted labels) above 0.92. Many more rounds need a larger one, as
    updates of alike parties become mostly noise. The updates by which parties are clustered count
    as the first step of their clusters. Departure: the paper asks everybody in that round. With ``--sample`` below
    1 the joint model waits, and is sent to each new cohort, until everybody has answered; a party that never does
    leaves it waiting. A newcomer gets the joint model as it was then.
    """

    rounds: int = 10
    threshold: float = 0.8
    metric: Metric = "cosine"
    linkage: Linkage = "average"

    def __post_init__(self) -> None:
        if not self.rounds >= 0:
            raise UserError(f"FlHc.rounds must be >= 0, got {self.rounds}. Use 10.")
        if not self.threshold >= 0:
            raise UserError(f"FlHc.threshold must be >= 0, got {self.threshold}. Use 0.8.")
        if self.linkage == "ward" and self.metric != "l2":
            raise UserError(f"FlHc's ward linkage is for metric l2, got {self.metric}. Use linkage=average.")

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """FedAvg, then a joint model that waits for everybody's update, then FedAvg in each cluster."""
        now = noted(server, replies.each)
        if count(server) > 1 or int(now["round"]) <= self.rounds:
            return moved(now, list(replies.each))
        numbers = (now["latest"] > self.rounds).nonzero()[:, 0].tolist()
        if len(numbers) < replies.population:
            return now
        groups = agglomerate(now["update"][numbers], self.metric, self.linkage, self.threshold)
        return moved(branched(now, 0, [[numbers[place] for place in group] for group in groups]), numbers)


@algorithm("kmeans-models", paper="Ghosh et al. 2019 (arXiv:1906.06629)")
class KMeansModels(OneSplit):
    """Every party first trains a model alone; k-means groups these models, and each group goes on from its mean.

    Before round 1 all parties train for ``epochs`` epochs from the same initial weights, which stands for the
    paper's local optimum. The server runs k-means with ``k`` centres on their models (Lloyd's algorithm from 20
    k-means++ starts). Then there is FedAvg in each group, from the mean of its members' models.

    ``trim``: against parties that send anything. This fraction of the values at either end is left out of every
    mean, coordinate by coordinate: of k-means' centres and of the updates in a group, where parties then count the
    same. 0: plain k-means, and means by size. The root, which newcomers get, is the mean of all local models.
    """

    k: int = 2
    epochs: int = 10
    trim: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("k", self.k), ("epochs", self.epochs)):
            if not value >= 1:
                raise UserError(
                    f"KMeansModels.{name} must be at least 1, got {value}. Leave it out for the default."
                )
        if not 0 <= self.trim < 0.5:
            raise UserError(f"KMeansModels.trim must be at least 0 and below 0.5, got {self.trim}. Use 0.1, or 0.")

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The root alone; more groups than parties are refused."""
        if self.k > task.population:
            raise UserError(f"KMeansModels.k is {self.k}, but there are {task.population} parties. Lower k.")
        return super().init_server(task, w)

    def phases(self, task: Task, round: int) -> tuple[Phase, ...]:
        """Before round 1 the long training alone, then the run's local work."""
        return (Phase(),) if round else (Phase("alone", epochs=self.epochs),)

    def prepare(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """Everybody trains alone; the models are grouped, and every group begins at the mean of its own."""
        replies = yield Ask("train", self.send(task, server))
        numbers = list(replies.each)
        made = {**noted(server, replies.each), "round": server["round"]}  # before the first round
        groups = k_means(made["update"][numbers], self.k, self.trim, task.generator(0))
        parts = [[numbers[place] for place in group] for group in groups]
        root = self.step(made, numbers)["w"][0]
        after = self.step(branched(made, 0, parts), numbers)
        after["w"][0] = root
        return {**after, "latest": server["latest"]}

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """FedAvg in each group, or its trimmed version."""
        return self.step(noted(server, replies.each), list(replies.each))

    def step(self, server: Vectors, numbers: list[int]) -> Vectors:
        """Every group's model after the mean update of these parties."""
        if not self.trim:
            return moved(server, numbers)
        w, group = server["w"].clone(), server["group"].tolist()
        for node in sorted({group[number] for number in numbers}):
            members = [number for number in numbers if group[number] == node]
            w[node] = w[node] + trimmed_mean(server["update"][members], self.trim)
        return {**server, "w": w}
