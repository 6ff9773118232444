"""The parts of a net by name, and where their weights are in the flat vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import nn

from unalike.errors import unknown

_NORMALISES = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm)


class Parts:
    """What can be named of a net: "head", "body", a layer, a parameter, or "norm".

    "norm" are the scales and shifts of all layers that normalise, wherever they are and whatever they are called.
    ``slices`` are the places by name, ``statistics`` the names of the running statistics. ``layers`` are the names
    of all layers that have weights of their own to train, from the first to the last.
    """

    def __init__(self, net: nn.Module, slices: Mapping[str, slice], statistics: Sequence[str]) -> None:
        self._slices = slices
        self._with_statistics = {name.rpartition(".")[0] for name in statistics}
        own = [(name, module, list(self._own(name, module))) for name, module in net.named_modules()]
        self.layers = tuple(name for name, _, spans in own if spans)
        self._norm = [span for _, module, spans in own if isinstance(module, _NORMALISES) for span in spans]

    def _own(self, name: str, module: nn.Module) -> Iterator[slice]:
        """Where the parameters of a layer itself are, not of layers in it; frozen ones are nowhere."""
        for own, _ in module.named_parameters(recurse=False):
            span = self._slices.get(f"{name}.{own}" if name else own, slice(0, 0))  # tied ones have one name
            if span.start < span.stop:
                yield span

    def spans(self, *parts: str) -> list[slice]:
        """Where the weights of some parts are: runs that are apart from each other, in order."""
        found: list[slice] = []
        for span in sorted((span for part in parts for span in self._of(part)), key=lambda s: (s.start, s.stop)):
            if found and span.start <= found[-1].stop:
                found[-1] = slice(found[-1].start, max(found[-1].stop, span.stop))
            elif span.start < span.stop:
                found.append(span)
        return found

    def _of(self, part: str) -> list[slice]:
        if part == "norm":
            return self._norm
        if part not in self._slices and part not in ("head", "body"):
            raise unknown("part of the net", part, ["norm", *self._slices])
        return [self._slices[part]]

    def have_statistics(self, *parts: str) -> bool:
        """Whether a layer of some parts has running statistics, as batch norm has."""
        return any(
            part == "norm" or f"{layer}.".startswith(f"{part}.") or part.startswith(f"{layer}.")
            for layer in self._with_statistics
            for part in parts
        )
