"""Groups of parties that are known before training: FedAvg in each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from unalike.algorithms.clustered.clusters import Clusters, at
from unalike.algorithms.contract import Kind, Party, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@algorithm("groups", paper="McMahan et al. 2017 (arXiv:1602.05629), FedAvg in each group")
class Groups(Clusters):
    """Groups that are known before training, such as countries or kinds of device: FedAvg in each of them.

    ``of`` has the group of each party, by its number: groups(clusters=2, of=(0, 0, 1, 1)). Without it party k is
    in group k modulo ``clusters``, which is how distorting partitions deal out their kinds (rotations, say). All
    groups start from the same weights. ``tried``: "group" is the model of the party's own group, which newcomers
    have too; the others are as in ifca.
    """

    kind: ClassVar[Kind] = "train"
    tried: Literal["group", "loss", "ensemble", "mean"] = "group"  # type: ignore[assignment]  # one more
    of: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if wrong := [group for group in self.of if not 0 <= group < self.clusters]:
            raise UserError(
                f"Groups.of must name groups from 0 to {self.clusters - 1}, got {wrong[0]}. Raise clusters."
            )

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """All groups start from the same weights."""
        self.check_clusters(task)
        if self.of and len(self.of) != task.population:
            raise UserError(
                f"Groups.of must name a group for each of {task.population} parties, got {len(self.of)}. "
                "Without it party k is in group k modulo clusters."
            )
        return {"w": w.expand(self.clusters, -1).clone()}

    def choice(self, party: Party) -> Tensor:
        """The party's group, by its number."""
        if not self.of:
            return party.number % self.clusters
        return at(party.number.new_tensor(self.of), party.number)

    def personal(self, party: Party) -> Tensor:
        """The model of the party's group, or what ``tried`` says."""
        return at(party.received["w"], self.choice(party)) if self.tried == "group" else super().personal(party)
