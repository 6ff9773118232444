"""How fast this machine could be: its best float32 matrix product on one thread, and what a net asks for.

Counted are the multiply-adds of convolutions and linear layers (2 operations each). A training step is one
forward pass, as much again for the gradient of the weights, and as much again for the gradient of each layer's
input, which the first layer does not need. Pooling, ReLU, the loss and the optimiser count nothing: no net can
reach the limit.

A library's product of matrices is not all that a processor can do: ``peak`` is what a loop of multiply-adds does
that do not wait for each other, in registers, with vectors of this machine.
"""

from __future__ import annotations

import sys
import time
from ctypes import c_int64

import torch
from torch import Tensor, nn

from unalike.native.compiler import NoCompiler, load, vector_width

SIZES = (512, 1024)
SECONDS = 0.15


def measure() -> float:
    """Operations per CPU-second of the best size of matrices."""
    return max(_rate(size) for size in SIZES)


CHAINS = 12
LOOP = """
#include <stdint.h>
typedef float vector __attribute__((vector_size(4 * V)));
float multiply_adds(int64_t times) {
    vector sum[CHAINS], factor = (vector){0} + 0.999f, more = (vector){0} + 0.001f;
    for (int i = 0; i < CHAINS; i++) sum[i] = (vector){0} + (float)i;
    for (int64_t n = 0; n < times; n++)
        _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) sum[i] = sum[i] * factor + more;
    float total = 0;
    for (int i = 0; i < CHAINS; i++) total += sum[i][0];
    return total;
}
"""


def peak() -> float | None:
    """Operations per CPU-second of multiply-adds in registers; None without a compiler."""
    try:
        width = vector_width()
        source = f"#define V {width}\n#define CHAINS {CHAINS}\n{LOOP}"
        loop = load(source, lambda line: print(line, file=sys.stderr), "a loop").multiply_adds
    except NoCompiler:
        return None
    loop.argtypes, times = [c_int64], 10**7
    began = time.process_time()
    loop(times)
    return 2 * width * CHAINS * times / (time.process_time() - began)


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
