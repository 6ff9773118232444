"""How far apart two trainings ended."""

from __future__ import annotations

from torch import Tensor

from unalike.errors import UserError


def weight_divergence(w: Tensor, reference: Tensor) -> float:
    """||w - reference|| / ||reference||, e.g. of FedAvg's weights and those trained on all rows in one place.

    Zhao et al. 2018, "Federated learning with non-IID data" (arXiv:1806.00582), section 3.1. Both must start from
    the same initial weights, or the figure says more about the start than about the data.
    """
    if w.shape != reference.shape:
        raise UserError(
            f"Weights of {tuple(w.shape)} and {tuple(reference.shape)} cannot be compared: use one model."
        )
    length = reference.double().norm()
    if length == 0:
        raise UserError("The reference weights are all zero, so a divergence relative to them is not defined.")
    return float((w.double() - reference.double()).norm() / length)
