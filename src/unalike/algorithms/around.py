"""An algorithm around another one: its server is the base's, and it adds something at the parties."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from unalike.algorithms.contract import Algorithm, Ask, Party, Payload, Replies, Vectors
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
    from unalike.models.task import Task

_NEVER = (
    *("loss", "near", "teach", "contrast", "scales", "beside", "ahead", "pace"),
    *("correct", "phases", "adapt", "prepare", "keep", "personal"),
)
"""What a base may not bring: an objective or models of its own, which what is around it could not know."""


class AroundBase(Algorithm):
    """What travels, how it is weighed and what the server makes of it is the base's; the rest is a subclass's.

    The base must declare its local objective by ``proximal`` and ``linear``, so that it can be trained beside, or
    on a part of, what the subclass adds.
    """

    base: Algorithm

    def __post_init__(self) -> None:
        if self.base.overrides(*_NEVER):
            raise UserError(
                f"{type(self).__name__}.base must train one model by FedAvg's loss, got "
                f"{type(self.base).__name__}, which has an objective or a model of its own. Try base=scaffold."
            )

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The base's state of the shared model."""
        return self.base.init_server(task, w)

    def send(self, task: Task, server: Vectors) -> Payload:
        """What the base sends, and nothing beside it."""
        return self.base.send(task, server)

    def round(self, task: Task, server: Vectors) -> Generator[Ask, Replies, Vectors]:
        """A round of the base, which makes of the replies what it always does."""
        return self.base.round(task, server)

    def global_model(self, task: Task, server: Vectors) -> Tensor | None:
        """The base's model is the global one."""
        return self.base.global_model(task, server)

    def weight(self, party: Party) -> Tensor:
        """The party's weight by the base."""
        return self.base.weight(party)

    def measure(self, party: Party, batch: Batch) -> Vectors:
        """What the base measures of the shared model."""
        return self.base.measure(party, batch)
