"""What algorithms share whose steps are not plain gradient steps of the run's learning rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.algorithms.contract import Party

if TYPE_CHECKING:
    from torch import Tensor


def pace(party: Party, distance: float) -> Tensor:
    """What gradients are multiplied by, so that all steps of the phase go as far as one step of rate ``distance``.

    One pass over a party's rows is then, to first order, one step on all of them, whatever the batches; where
    one batch holds them all it is that step exactly. Momentum is counted in (``party.step_sum``).
    """
    return distance / (party.lr * party.step_sum)


def equal_weight(party: Party) -> Tensor:
    """One, for algorithms whose parties count the same."""
    return party.size / party.size
