"""The weight divergence of Zhao et al. 2018."""

from __future__ import annotations

import pytest
import torch

from unalike.errors import UserError
from unalike.rounds.divergence import weight_divergence


def test_by_hand():
    assert weight_divergence(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 0.0])) == pytest.approx(4 / 3)
    assert weight_divergence(torch.tensor([1.0, -2.0]), torch.tensor([1.0, -2.0])) == 0


def test_scale_does_not_matter():
    one, other = torch.randn(2, 50, dtype=torch.float64)
    assert weight_divergence(7 * one, 7 * other) == pytest.approx(weight_divergence(one, other))


def test_mistakes():
    with pytest.raises(UserError, match="use one model"):
        weight_divergence(torch.zeros(3), torch.zeros(4))
    with pytest.raises(UserError, match="all zero"):
        weight_divergence(torch.ones(3), torch.zeros(3))
