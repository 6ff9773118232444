"""What algorithms have in common whose parties keep models of their own, which never leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.algorithms.contract import Algorithm, Party, Vectors

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


class OwnModel(Algorithm):
    """Every party trains and deploys its own model, of any net; there is none that all share.

    Each phase of local training goes on from the one before. A subclass says what parties tell each other.
    """

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The party's own model begins as the run's initial weights of its net."""
        return {"w": w}

    def start(self, party: Party) -> Tensor:
        """Training goes on from the party's own model."""
        return party.state["w"]

    def keep(self, party: Party, w: Tensor) -> Vectors:
        """What a phase came to is where the next begins."""
        return {**party.state, "w": w}

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """Nothing leaves after training; the party keeps the model."""
        return {}, {**party.state, "w": w}

    def global_model(self, task: Task, server: Vectors) -> Tensor | None:
        """None: there is no model that all share."""
        return None

    def personal(self, party: Party) -> Tensor:
        """A party deploys its own model."""
        return party.state["w"]
