"""CFL: FedAvg that splits a group of parties in two where one model for all of them has come to a standstill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.algorithms.clustered.nodes import NodeModels, branched, count, directions, weighted_mean
from unalike.algorithms.contract import Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@algorithm("cfl", paper="Sattler et al. 2019 (arXiv:1910.01991)")
class Cfl(NodeModels):
    """One model for all until parties pull it apart; then a group splits in two, and the tree of models is kept.

    With dW_k the update of party k, which has n_k rows, a group is split when its mean update stands still while a
    party's own does not:

        || sum_k n_k/n dW_k || < eps1   and   max_k || dW_k || > eps2.

    It splits into the two parts whose largest cosine similarity a_ij = <dW_i, dW_j> / (||dW_i|| ||dW_j||) across
    is least. That optimal bipartition is what single linkage gives: merge the parts of the most similar pair until
    two are left. Both parts go on from the group's model, each by its own mean update, and may split again. The
    group itself stays in the tree as a node, with the model that it had.

    ``relative``: norms have the scale of the net, the learning rate and the local work, so a number that fits one
    run fits no other. With it (the default) eps1 is a fraction of the largest update in the group, and eps2 one of
    the largest update that was seen in the run; without it both are norms, as in the paper. ``most``: room for so
    many nodes (2 L - 1 for L groups); a tree that is full is not split any more.

    Departures. Noise stands still, too: where updates are mostly noise, the mean of many is small. So a group is
    split only if no two parties of different parts are more similar than ``across`` (1: always). The
    defaults were chosen on digits, with 8 and 20 parties and 2 local epochs, so that planted groups (permuted
    labels) are split and alike parties are not: other data may need others. The paper asks everybody in each
    round. Where some are
    absent (``--sample``), the criterion looks at the latest update of every member since the group began, and
    waits until there is one of each; only those who answered move the model. A newcomer gets the root's model; the
    paper's walk down the tree, to the child whose members' updates are more similar to its own, is
    ``ModelTree.walk`` (by the mean similarity to the members).
    """

    eps1: float = 0.2
    eps2: float = 0.4
    most: int = 15
    across: float = 0.0
    relative: bool = True

    def __post_init__(self) -> None:
        for name, value in (("eps1", self.eps1), ("eps2", self.eps2)):
            if not value >= 0:
                raise UserError(f"Cfl.{name} must be >= 0, got {value}. Leave it out for the default.")
        if self.relative and not self.eps2 <= 1:
            raise UserError(
                f"Cfl.eps2 must be at most 1, got {self.eps2}: it is a fraction of the largest update. "
                "Use relative=False for a norm."
            )
        if not -1 <= self.across <= 1:
            raise UserError(
                f"Cfl.across must be from -1 to 1, a cosine, got {self.across}. Use 1 to split always."
            )
        if not self.most >= 1:
            raise UserError(f"Cfl.most must be at least 1, got {self.most}. Use 1 for FedAvg, 15 for 8 groups.")

    def nodes(self, task: Task) -> int:
        """As many as are allowed, and no more than a tree has whose leaves are single parties."""
        return min(self.most, 2 * task.population - 1)

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The root alone, and the norm of the largest update, 0 so far."""
        return {**super().init_server(task, w), "largest": w.new_zeros(())}

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """Remember the largest update, then do as all trees of models do."""
        norms = [upload["delta"].norm() for upload in replies.each.values()]
        return super().fold(task, {**server, "largest": max([server["largest"], *norms])}, replies)

    def grow(self, server: Vectors, population: int) -> Vectors:
        """Split every group that has come to a standstill, as long as there is room for two nodes more."""
        for node in sorted(set(server["group"].tolist())):
            members = self.ready(server, node, population)
            if len(members) > 1 and count(server) + 2 <= self.most and self.stands_still(server, members):
                *parts, similarity = bipartition(server["update"][members])
                if similarity <= self.across:
                    server = branched(server, node, [[members[place] for place in part] for part in parts])
        return server

    def ready(self, server: Vectors, node: int, population: int) -> list[int]:
        """The members of a group, if each has sent an update since it began; else nobody."""
        mine = server["group"] == node
        heard = mine & (server["latest"] > server["born"][node])
        expected = int(mine.sum()) if node else population  # newcomers are at the root, and never heard
        return heard.nonzero()[:, 0].tolist() if int(heard.sum()) == expected else []

    def stands_still(self, server: Vectors, members: list[int]) -> bool:
        """Whether the mean update of these parties is small while the largest of them is not."""
        mean, largest = weighted_mean(server, members).norm(), server["update"][members].norm(dim=1).max()
        if self.relative:
            return bool(mean < self.eps1 * largest) and bool(largest > self.eps2 * server["largest"])
        return bool(mean < self.eps1) and bool(largest > self.eps2)


def bipartition(updates: Tensor) -> tuple[list[int], list[int], float]:
    """The places of the two parts whose largest cosine similarity across is least, and that similarity."""
    from scipy.cluster.hierarchy import linkage, to_tree
    from scipy.spatial.distance import squareform

    unit = directions(updates.detach().cpu().double())
    similar = (unit @ unit.T).clamp(-1, 1)
    root = to_tree(linkage(squareform((1 - similar).numpy(), checks=False), "single"))
    one, other = sorted(sorted(part.pre_order()) for part in (root.get_left(), root.get_right()))
    return one, other, float(similar[one][:, other].max())
