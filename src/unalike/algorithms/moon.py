"""MOON: FedAvg with a contrastive loss on the features of three models."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Party, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.task import Task


@algorithm("moon", paper="Li et al. 2021 (arXiv:2103.16257), Algorithm 1")
class Moon(Algorithm):
    """FedAvg whose features are drawn to those of the global model and away from the party's own last model.

    Local objective: f_k(w) + mu l_con (equation 4), and per row (equation 3)

        l_con = -log( exp(sim(z, z_glob) / T) / (exp(sim(z, z_glob) / T) + exp(sim(z, z_prev) / T)) )

    with the cosine similarity of the features z of the model in training, z_glob of the received one and z_prev
    of what this party had after its last training; these two are not trained. In a party's first round its last
    model is the run's initial one: z_prev = z_glob then, in round 1, and the term has no gradient.

    The paper adds a projection head (two layers, 256 wide) before the output layer and contrasts its output;
    here it is the layer before the head of whatever net is trained.
    """

    needs_features: ClassVar[bool] = True
    mu: float = 1.0
    temperature: float = 0.5

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise UserError(f"Moon.mu must be >= 0, got {self.mu}. Use 0 for FedAvg.")
        if not self.temperature > 0:
            raise UserError(f"Moon.temperature must be above 0, got {self.temperature}. The paper uses 0.5.")

    def init_party(self, task: Task, w: Tensor) -> Vectors:
        """The last local model: at first the initial one."""
        return {"previous": w}

    def contrast(self, party: Party) -> tuple[float, float, Tensor, Tensor] | None:
        """Equations 3 and 4 of the paper: towards the received model, away from the party's own last one."""
        return self.mu, self.temperature, party.received["w"], party.state["previous"]

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The update; the party keeps its model for the next time."""
        return {"delta": w - party.received["w"]}, {"previous": w}
