"""FedProx: FedAvg whose parties are held near the model that they received."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.algorithms.contract import Algorithm, Party, algorithm
from unalike.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


@algorithm("fedprox", paper="Li et al. 2020 (arXiv:1812.06127), Algorithm 2")
class FedProx(Algorithm):
    """FedAvg with a proximal term that keeps each party near the global model.

    Equation 2: h_k(w) = F_k(w) + mu/2 ||w - w^t||^2. As in the paper's experiments every party does the
    same local work; the paper's Algorithm 2 samples parties by size and averages plainly, here parties are
    sampled uniformly and averaged by size, as in NIID-Bench, so that mu = 0 is FedAvg.
    """

    mu: float = 0.01

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise UserError(f"FedProx.mu must be >= 0, got {self.mu}. Use 0 for FedAvg.")

    def proximal(self, party: Party) -> tuple[float, Tensor]:
        """The proximal term is centred at the received model."""
        return self.mu, party.received["w"]
