"""What every other algorithm has to beat: training alone, one model tuned at home, and all rows at one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.algorithms.contract import Algorithm, Party, Phase, Replies, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task

POOLED = "pooled"
BASELINES = ("local", "fedavg", "fedavg-tuned", POOLED)
"""What ``--baselines`` puts beside the algorithms that are asked for."""


@algorithm("local")
class Local(Algorithm):
    """Every party trains alone on its own rows and nothing is sent: what taking part has to beat.

    A party trains in the rounds in which it is asked, for as long as under any other algorithm (with ``--sample``
    not in every round), and tries the model that it has then. Newcomers train alone in the same way, as there is
    nothing that they could come too late for. Running statistics of batch norm are each party's own.
    """

    keeps_statistics = True
    sends = "nothing"

    def init_server(self, task: Task, w: Tensor) -> Vectors:
        """The server has nothing to know."""
        return {}

    def send(self, task: Task, server: Vectors) -> Vectors:
        """No party is sent anything."""
        return {}

    def fold(self, task: Task, server: Vectors, replies: Replies) -> Vectors:
        """Nothing came, so nothing changes."""
        return server

    def global_model(self, task: Task, server: Vectors) -> Tensor | None:
        """There is no model that parties share."""
        return None

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """All parties begin with the run's initial weights."""
        return {"w": w}

    def start(self, party: Party) -> Tensor:
        """A party goes on with its own model."""
        return party.state["w"]

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """Nothing leaves; the trained model is kept."""
        return {}, {"w": w}

    def personal(self, party: Party) -> Tensor:
        """The model that the party has trained alone."""
        return party.state["w"]


@algorithm("pooled")
class Pooled(Algorithm):
    """All parties' training rows at one place and one model: what could be had if rows might leave.

    Only a simulation can do so. In a round it takes as many passes over the rows as the parties together take
    under any other algorithm: with ``--sample`` a share of them, with ``--steps`` those of the whole cohort.
    Validation, held-out and test rows are the same as for every other algorithm, and newcomers' rows are left out.
    No model travels, so no bytes are counted.
    """

    pools = True
    sends = "rows"


@algorithm("fedavg-tuned", paper="Wang et al. 2019 (arXiv:1910.10252)")
class FedAvgTuned(Algorithm):
    """FedAvg whose model each party trains further on its own rows before it uses it.

    The plainest way to a model of one's own. Training is FedAvg's to the bit; ``epochs`` are those of tuning, and
    where none are given a party tunes for as long as it trains in a round. It is FedAvg with ``--fine-tune``,
    under a name of its own, so that a table can have it beside FedAvg.
    """

    epochs: int | None = None

    def __post_init__(self) -> None:
        if self.epochs is not None and not 1 <= self.epochs <= 10**4:
            raise UserError(f"fedavg-tuned: epochs must be from 1 to 10,000, got {self.epochs}. Try 1.")

    def adapt(self, task: Task) -> tuple[Phase, ...]:
        """Plain training from the shared model."""
        return (Phase("fine-tune", epochs=self.epochs),)
