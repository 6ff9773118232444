"""Images and weights of wide convolutions with their channels innermost in memory, as PyTorch's CPU kernels want.

Otherwise they are turned round in every layer, forward and back. What is computed is the same but for rounding,
and the flat vector stays as it is: a step's weights are copied, which takes a hundredth of the step.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

NARROW = 64
"""Convolutions of more channels than this are wide: there PyTorch's own kernels are faster than compiled ones."""
_OURS = ("torch.nn.", "unalike.models.")


def has_wide_convolutions(net: nn.Module) -> bool:
    """Whether a layer convolves to more than ``NARROW`` channels."""
    return any(isinstance(module, nn.Conv2d) and module.out_channels > NARROW for module in net.modules())


def gains(net: nn.Module, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether a net is faster so, and made of layers that do not mind: a user's own may look at the memory."""
    known = all(type(module).__module__.startswith(_OURS) for module in net.modules())
    return known and device.type == "cpu" and dtype == torch.float32 and has_wide_convolutions(net)


def innermost(tensor: Tensor) -> Tensor:
    """The same numbers with axis 1 innermost in memory, where there are four axes."""
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
