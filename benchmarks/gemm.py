"""How fast this machine could be: its best float32 matrix product on one thread, and what a net asks for.

Counted are the multiply-adds of convolutions and linear layers (2 operations each). A training step is one
forward pass, as much again for the gradient of the weights, and as much again for the gradient of each layer's
input, which the first layer does not need. Pooling, ReLU, the loss and the optimiser count nothing: no net can
reach the limit.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

SIZES = (512, 1024)
SECONDS = 0.15


def measure() -> float:
    """Operations per CPU-second of the best size of matrices."""
    return max(_rate(size) for size in SIZES)


def _rate(size: int) -> float:
    a, b, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
    torch.mm(a, b, out=out)
    count, began = 0, time.process_time()
    while (spent := time.process_time() - began) < SECONDS:
        torch.mm(a, b, out=out)
        count += 1
    return 2 * size**3 * count / spent


def operations(net: nn.Module, shape: tuple[int, ...]) -> tuple[int, int]:
    """Operations of a forward pass of one row, and of a training step's share of one row."""
    layers: list[int] = []

    def count(module: nn.Module, inputs: object, output: Tensor) -> None:
        if isinstance(module, nn.Conv2d):
            layers.append(output.numel() * module.weight[0].numel())
        elif isinstance(module, nn.Linear):
            layers.append(module.weight.numel())

    hooks = [module.register_forward_hook(count) for module in net.modules()]
    with torch.no_grad():
        net(torch.zeros(1, *shape))
    for hook in hooks:
        hook.remove()
    return 2 * sum(layers), 2 * (3 * sum(layers) - layers[0])
