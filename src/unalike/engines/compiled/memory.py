"""Vectors, plans and rows as the C code reads them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from unalike.algorithms.terms import Ahead
from unalike.engines.compiled.asked import KINDS, Data, KeptInC, RowsInC, Steps, Table
from unalike.engines.compiled.chain import Layer

WIDEST_VECTOR = 16
"""Floats in a vector, at most."""


def room(w: Tensor) -> Tensor:
    """Memory for a number for each weight, and for what a vector of the kernels may have beyond the last."""
    return torch.empty(len(w) + WIDEST_VECTOR)


def turned(vector: Tensor, layer: Layer, *, back: bool = False) -> Tensor:
    """The vector with the weights of a first layer on sparse rows the other way round, and room after it."""
    made, given = layer.made.size, layer.given.size
    new = room(vector)[: len(vector)].copy_(vector)
    span, shape = slice(layer.weight, layer.weight + made * given), (given, made) if back else (made, given)
    new[span].view(shape[::-1]).copy_(vector[span].view(shape).t())
    return new


def seen(steps: Steps) -> Tensor:
    """The numbers of the rows that steps see, each once, ascending."""
    index = steps.index[steps.index >= 0]  # marked, not sorted: epochs see a row again and again
    there = torch.zeros(int(index.max()) + 1 if len(index) else 0, dtype=torch.bool)
    there[index] = True
    return there.nonzero().flatten()


def places(rows: Tensor, index: Tensor) -> Tensor:
    """Where the rows of steps are among ``rows``; numbers that fill up stay as they are."""
    table = torch.empty(int(rows[-1]) + 1, dtype=torch.int64)
    table[rows] = torch.arange(len(rows))
    return torch.where(index < 0, index, table[index.clamp(min=0)])


def dealt_steps(steps: Steps) -> Steps:
    """The same rows in each step, those at even places first."""
    real = steps.index >= 0
    odd = torch.arange(steps.index.shape[1]) % 2
    order = torch.where(real, odd, 2).argsort(dim=1, stable=True)

    def dealt(plan: Tensor | None) -> Tensor | None:
        return None if plan is None else plan.gather(1, order)

    return Steps(steps.index.gather(1, order), *map(dealt, (steps.top, steps.left, steps.flip, steps.place)))


def ahead_in_c(ahead: Ahead | None) -> dict[str, float]:
    """What ``struct training`` has for a look ahead."""
    if ahead is None:
        return {}
    return {"inner": ahead.steps, "inner_lr": ahead.rate, "inner_pull": ahead.pull, "apart": int(ahead.apart)}


def table_in_c(kept: Table | None) -> KeptInC:
    """A term's table as C reads it; what it is made of must be kept until then."""
    if kept is None:
        return KeptInC()
    return KeptInC(kept.strength, kept.heat, address(kept.at), address(kept.table))


def joined(parts: tuple[tuple[str, int], ...], named: Mapping[str, Tensor]) -> Tensor | None:
    """The named parts as one vector, if there are any."""
    for name, size in parts:
        if name not in named or named[name].numel() != size:
            raise ValueError(f"{name} is frozen: its {size} weights must be given")
    return torch.cat([ready(named[name]).reshape(-1) for name, _ in parts]) if parts else None


def rows_in_c(data: Data) -> RowsInC:
    """The rows as C reads them; what they are made of must be kept until then."""
    kind = KINDS.index(data.x.dtype)
    numbers, more = (data.x, data.y, data.shift, data.scale), (data.starts, data.columns)
    return RowsInC(*map(address, numbers), kind, *map(address, more))


def strength_of(strength: float | Tensor) -> tuple[float, Tensor | None]:
    """One number for all weights; or 1, and a number for each of them."""
    if isinstance(strength, Tensor) and strength.dim():
        return 1.0, strength
    return float(strength), None


def ready_or_none(vector: Tensor | None) -> Tensor | None:
    """The same where there may be none."""
    return None if vector is None else ready(vector)


def ready(vector: Tensor) -> Tensor:
    """The vector as C reads it."""
    if vector.dtype != torch.float32 or vector.device.type != "cpu":
        raise ValueError(f"the kernels take float32 on the CPU, got {vector.dtype} on {vector.device}")
    return vector.detach().contiguous()


def checked(name: str, plan: Tensor | None, index: Tensor) -> Tensor | None:
    """A part of the plan as C reads it, if there is one."""
    kind = torch.bool if name == "flip" else torch.int64
    if plan is not None and (plan.dtype != kind or plan.shape != index.shape or not plan.is_contiguous()):
        raise ValueError(f"{name} must be contiguous {kind} of shape {tuple(index.shape)}")
    return plan


def address(tensor: Tensor | None) -> int | None:
    """Where the numbers of a tensor lie."""
    return None if tensor is None else tensor.data_ptr()
