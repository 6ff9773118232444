"""FedYogi: as FedAdam, but what the server's steps are divided by changes more slowly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.algorithms.adaptive import AdaptiveServer
from unalike.algorithms.contract import algorithm

if TYPE_CHECKING:
    from torch import Tensor


@algorithm("fedyogi", paper="Reddi et al. 2021 (arXiv:2003.00295), Algorithm 2")
class FedYogi(AdaptiveServer):
    """Yogi on the server: v <- v - (1 - beta2) Delta^2 sign(v - Delta^2), which lets v fall slowly."""

    beta2: float = 0.99

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """Line 12 of the paper: v moves towards the new square, by an amount that does not depend on v."""
        return v - (1 - self.beta2) * square * (v - square).sign()
