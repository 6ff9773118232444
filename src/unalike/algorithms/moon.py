"""MOON: FedAvg with a contrastive loss on the features of three models."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from unalike.algorithms.contract import Algorithm, Party, Vectors, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.models.batch import Batch
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

    def loss(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """Equation 4 of the paper: the task's loss plus mu times the contrast of features."""
        import torch
        from torch.nn import functional

        logits, features = party.task.forward(w, batch)
        near, far = (
            functional.cosine_similarity(features, self._frozen(party, other, batch), dim=-1)
            for other in (party.received["w"], party.state["previous"])
        )
        scores = torch.stack([near, far], dim=-1) / self.temperature
        contrast = -functional.log_softmax(scores, dim=-1)[..., 0]
        return party.task.loss_of(logits, batch) + self.mu * batch.mean(contrast)

    def _frozen(self, party: Party, w: Tensor, batch: Batch) -> Tensor:
        """Features of a model that is not trained; its batch norm leaves no trace in the running statistics."""
        return party.task.features(w, batch, track=False).detach()

    def upload(self, party: Party, w: Tensor) -> tuple[Vectors, Vectors]:
        """The update; the party keeps its model for the next time."""
        return {"delta": w - party.received["w"]}, {"previous": w}
