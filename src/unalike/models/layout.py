"""Named tensors as one flat vector."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

from unalike.models.net import no_head


class WeightLayout:
    """Where each named tensor lies in a flat vector."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.names = list(tensors)
        self.shapes = [tuple(t.shape) for t in tensors.values()]
        self.sizes = [t.numel() for t in tensors.values()]
        self.size = sum(self.sizes)

    @property
    def layers(self) -> tuple[tuple[str, int], ...]:
        """The layers that the tensors belong to, in order, and how many numbers each has."""
        found: dict[str, int] = {}
        for name, size in zip(self.names, self.sizes, strict=True):
            layer = name.rpartition(".")[0]
            found[layer] = found.get(layer, 0) + size
        return tuple(found.items())

    def flatten(self, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> Tensor:
        """The named tensors as one vector."""
        parts = [tensors[name].detach().reshape(-1).to(dtype) for name in self.names]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=dtype)

    def unflatten(self, vector: Tensor) -> dict[str, Tensor]:
        """Views of the vector, by name. One split, so that the backward pass is one concatenation."""
        parts = torch.split(vector, self.sizes)
        return {n: p.view(s) for n, p, s in zip(self.names, parts, self.shapes, strict=True)}


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of named tensors: of their names, types, shapes and values, whatever order they come in."""
    sha = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        sha.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        sha.update(value.detach().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()


def slices_of(sizes: Mapping[str, int]) -> dict[str, slice]:
    """The slice of every tensor of such a size, and of every module that holds a contiguous run of them."""
    found: dict[str, slice] = {}
    start = 0
    for name, size in sizes.items():
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            prefix = ".".join(parts[:depth])
            found[prefix] = slice(found[prefix].start if prefix in found else start, start + size)
        start += size
    return found


class Places(dict[str, slice]):
    """Slices of the flat vector by name; of a net without a head, nobody may ask for the head or the body."""

    def __init__(self, slices: Mapping[str, slice], headless: bool = False) -> None:
        super().__init__({n: s for n, s in slices.items() if not headless or n not in ("head", "body")})
        self._headless = headless

    def __missing__(self, name: str) -> slice:
        if self._headless and name in ("head", "body"):
            raise no_head()
        raise KeyError(name)
