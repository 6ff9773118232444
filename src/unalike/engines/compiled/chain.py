"""What a net is made of, where it is a chain that the C kernels know."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import nn

from unalike.models.layout import slices_of
from unalike.models.net import Net

LARGEST_KERNEL = 11
"""A row of a convolution's kernel has its sums in registers."""
WIDEST_OF_SPARSE = 512
"""What the first layer makes of a sparse row is summed in registers or in the first cache."""
WIDEST = 2**31 - 1
"""Places in a block of rows are counted with 32 bits."""


@dataclass(frozen=True)
class Values:
    """What a layer leaves behind for one row: [channels, height, width]; ``relu``: negative ones were cut off."""

    channels: int
    height: int = 1
    width: int = 1
    relu: bool = False

    @property
    def size(self) -> int:
        """How many numbers a row has at this place in the net."""
        return self.channels * self.height * self.width


@dataclass(frozen=True)
class Layer:
    """One step of the chain; ``weight`` and ``bias`` are places in the flat vector.

    Where ``frozen`` names one of them, it is never trained, and its place is in the vector of frozen weights.
    """

    kind: Literal["convolution", "pooling", "linear"]
    given: Values
    made: Values
    weight: int = -1
    bias: int = -1
    kernel: int = 1
    padding: int = 0
    frozen: tuple[str, ...] = ()

    @property
    def weights(self) -> int:
        """How many weights it has, biases not counted."""
        if self.kind == "pooling":
            return 0
        seen = self.given.size if self.kind == "linear" else self.given.channels * self.kernel**2
        return self.made.channels * seen

    @property
    def span(self) -> tuple[int, int]:
        """Where its weights and the biases after them begin and end in the flat vector; (0, 0) if it has none."""
        both = (("weight", self.weight, self.weights), ("bias", self.bias, self.made.channels))
        there = [(at, at + count) for name, at, count in both if at >= 0 and name not in self.frozen]
        return (there[0][0], there[-1][1]) if there else (0, 0)


@dataclass(frozen=True)
class Chain:
    """The layers in order, the last of which is the head; ``size`` weights that are trained.

    ``frozen`` has the names and sizes of the parameters that are not, in the order in which their vector has them.
    """

    shape: tuple[int, ...]
    layers: tuple[Layer, ...]
    size: int
    frozen: tuple[tuple[str, int], ...] = ()
    sparse: bool = False
    """Whether rows are sparse; then the first layer is linear and trained."""

    @property
    def input(self) -> Values:
        """The values of a row itself."""
        return self.layers[0].given

    @property
    def convolves(self) -> bool:
        """Whether there is a convolution."""
        return any(layer.kind == "convolution" for layer in self.layers)

    @property
    def multiply_adds(self) -> int:
        """Multiplications with a weight in one row's forward pass."""
        return sum(layer.weights * layer.made.height * layer.made.width for layer in self.layers)

    def still(self, first: int) -> int:
        """How many of the first layers stay as they are where only weights from place ``first`` on move."""
        count = 0
        while count < len(self.layers) - 1 and self.layers[count].span[1] <= first:
            count += 1
        return count


class NotAChain(Exception):
    """Why a net cannot be described."""


def describe(net: Net, shape: tuple[int, ...], *, sparse: bool = False) -> Chain:
    """The chain that ``net`` is for rows of that shape; :class:`NotAChain` says why it is none."""
    if type(net) is not Net:
        raise NotAChain(f"{type(net).__name__} has a forward of its own")
    if type(net.head) is not nn.Linear:
        raise NotAChain(f"head ({type(net.head).__name__}) is not one linear layer")
    if len(list(net.parameters())) < len(list(net.named_parameters(remove_duplicate=False))):
        raise NotAChain("layers share weights")
    free = {name: p.numel() for name, p in net.named_parameters() if p.requires_grad}
    frozen = {name: p.numel() for name, p in net.named_parameters() if not p.requires_grad}
    places = slices_of(free) | slices_of(frozen)
    flat = len(shape) == 1
    now = Values(*shape) if len(shape) == 3 else Values(math.prod(shape))
    layers: list[Layer] = []
    for name, module in [*_flattened(net.body, "body"), ("head", net.head)]:
        if type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
            flat = True
        elif type(module) is nn.ReLU:
            if not layers:
                raise NotAChain(f"{name} (ReLU) comes before any layer with values of its own")
            layers[-1] = replace(layers[-1], made=replace(layers[-1].made, relu=True))
        else:
            read = _KNOWN.get(type(module))
            layer = read(module, now, flat) if read else "is not a layer that the kernels know"
            if isinstance(layer, str):
                raise NotAChain(f"{name} ({type(module).__name__}) {layer}")
            own = dict(module.named_parameters())
            where = {what: places[f"{name}.{what}"].start for what in own}
            still = tuple(what for what, parameter in own.items() if not parameter.requires_grad)
            layers.append(replace(layer, **where, frozen=still))
        now = layers[-1].made if layers else now
    if max(v.size for layer in layers for v in (layer.given, layer.made)) > WIDEST // 1024:
        raise NotAChain("a layer is too large")
    if sparse and (layers[0].kind != "linear" or layers[0].frozen):
        raise NotAChain("sparse rows need a first layer that is linear and trained")
    if sparse and layers[0].made.size > WIDEST_OF_SPARSE:
        raise NotAChain(f"the first layer makes more than {WIDEST_OF_SPARSE} numbers of sparse rows")
    return Chain(shape, tuple(layers), sum(free.values()), tuple(frozen.items()), sparse)


def _flattened(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """The layers of nested sequences, in order."""
    if type(module) is nn.Sequential:
        for inner, child in module.named_children():
            yield from _flattened(child, f"{name}.{inner}")
    elif type(module) is not nn.Identity:
        yield name, module


def _convolution(module: Any, given: Values, flat: bool) -> Layer | str:
    kernel, stride, dilation = module.kernel_size, module.stride, module.dilation
    if flat:
        return "needs images"
    if kernel[0] != kernel[1] or kernel[0] > LARGEST_KERNEL:
        return f"has a kernel of {kernel}, not a square of at most {LARGEST_KERNEL}"
    if stride != (1, 1) or dilation != (1, 1) or module.groups != 1 or module.padding_mode != "zeros":
        return "has strides, dilation, groups or padding by other than zeros"
    size = int(kernel[0])
    if module.padding == "same" and size % 2:
        padding = (size // 2, size // 2)
    else:
        padding = (0, 0) if module.padding == "valid" else module.padding
    if isinstance(padding, str) or padding[0] != padding[1] or padding[0] >= size:
        return f"has padding {module.padding}, which differs between sides or exceeds the kernel"
    if module.in_channels != given.channels:
        return f"takes {module.in_channels} channels, got {given.channels}"
    grown = 2 * padding[0] - size + 1
    made = Values(module.out_channels, given.height + grown, given.width + grown)
    if min(made.height, made.width) < 1:
        return f"leaves {made.height} x {made.width} values"
    return Layer("convolution", given, made, kernel=size, padding=int(padding[0]))


def _pooling(module: Any, given: Values, flat: bool) -> Layer | str:
    def both(value: object) -> object:
        return value[0] if isinstance(value, tuple) and value[0] == value[1] else value

    plain = both(module.kernel_size) == both(module.stride) == 2 and both(module.padding) == 0
    if not plain or both(module.dilation) != 1 or module.ceil_mode or module.return_indices:
        return "is not over squares of 2 x 2"
    if flat or min(given.height, given.width) < 2:
        return "needs images of at least 2 x 2"
    return Layer("pooling", given, Values(given.channels, given.height // 2, given.width // 2))


def _linear(module: Any, given: Values, flat: bool) -> Layer | str:
    if not flat:
        return "needs flat rows"
    if module.in_features != given.size:
        return f"takes {module.in_features} numbers, got {given.size}"
    return Layer("linear", given, Values(int(module.out_features)))


_KNOWN: dict[type, Callable[[Any, Values, bool], Layer | str]] = {
    nn.Conv2d: _convolution,
    nn.MaxPool2d: _pooling,
    nn.Linear: _linear,
}
