"""FedAdam: the server divides its steps by the root of a running mean of squared updates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.algorithms.adaptive import AdaptiveServer
from unalike.algorithms.contract import algorithm

if TYPE_CHECKING:
    from torch import Tensor


@algorithm("fedadam", paper="Reddi et al. 2021 (arXiv:2003.00295), Algorithm 2")
class FedAdam(AdaptiveServer):
    """Adam on the server: v <- beta2 v + (1 - beta2) Delta^2."""

    beta2: float = 0.99

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """Line 13 of the paper: a running mean of squares, in which old ones fade."""
        return self.beta2 * v + (1 - self.beta2) * square
