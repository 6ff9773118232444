"""FedAdagrad: the server adds up squared updates and divides its steps by their root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.algorithms.adaptive import AdaptiveServer
from unalike.algorithms.contract import algorithm

if TYPE_CHECKING:
    from torch import Tensor


@algorithm("fedadagrad", paper="Reddi et al. 2021 (arXiv:2003.00295), Algorithm 2")
class FedAdagrad(AdaptiveServer):
    """Adagrad on the server: v <- v + Delta^2, so that steps only ever get smaller. No momentum."""

    beta1: float = 0.0

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """Line 11 of the paper: squares are added up and never forgotten."""
        return v + square
