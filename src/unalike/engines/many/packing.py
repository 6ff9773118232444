"""Orders and answers as plain arrays: what Ray sends, without anything of torch.

What all parties of an exchange are sent is packed once, and reaches each host once. Arrays that come out of shared
memory are read-only; here they become tensors with memory of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unalike.algorithms.contract import Vectors
from unalike.channels import Summand
from unalike.data.dataset import Array
from unalike.rounds.blocks import BlockSum
from unalike.rounds.order import Order, Reply

_NONE = torch.empty(0)


@dataclass(frozen=True)
class Numbers:
    """A tensor on its way."""

    values: Array


@dataclass(frozen=True)
class Outlined:
    """A tensor without numbers: its shape and type alone."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Packed:
    """An object of this program, by the name of its class and its fields."""

    name: str
    fields: dict[str, Any]


_KNOWN: dict[str, type[Any]] = {cls.__name__: cls for cls in (Order, Reply, Summand, BlockSum)}


def packed(value: Any) -> Any:
    """The value with plain arrays in place of tensors."""
    if isinstance(value, Tensor):
        if value.device.type == "meta":
            return Outlined(tuple(value.shape), str(value.dtype).removeprefix("torch."))
        return Numbers(value.detach().cpu().numpy())
    if isinstance(value, dict):
        return {key: packed(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(packed(each) for each in value) if type(value) in (tuple, list) else value
    if type(value).__name__ in _KNOWN:
        return Packed(
            type(value).__name__, {each.name: packed(getattr(value, each.name)) for each in fields(value)}
        )
    return value


def unpacked(value: Any, device: torch.device | str = "cpu") -> Any:
    """What was packed, its tensors in memory of their own."""
    if isinstance(value, Numbers):
        return torch.tensor(np.asarray(value.values), device=device)
    if isinstance(value, Outlined):
        return torch.empty(value.shape, dtype=getattr(torch, value.dtype), device="meta")
    if isinstance(value, dict):
        return {key: unpacked(each, device) for key, each in value.items()}
    if type(value) in (tuple, list):
        return type(value)(unpacked(each, device) for each in value)
    if isinstance(value, Packed):
        return _KNOWN[value.name](**{name: unpacked(each, device) for name, each in value.fields.items()})
    return value


@dataclass(frozen=True)
class Common:
    """What all orders of an exchange have in common, and the engine that answers them."""

    engine: str
    names: tuple[str, ...]
    payload: Vectors
    buffers: Tensor | None


def common(engine: str, orders: Sequence[Order]) -> Common:
    """What is the same tensor in all of these orders."""
    first = orders[0]
    payload = {k: v for k, v in first.payload.items() if all(order.payload.get(k) is v for order in orders)}
    same = all(order.buffers is first.buffers for order in orders)
    return Common(engine, tuple(first.payload), payload, first.buffers if same else None)


def pack_common(shared: Common) -> Common:
    """The same on its way."""
    return replace(shared, payload=packed(shared.payload), buffers=packed(shared.buffers))


def unpack_common(shared: Common, device: torch.device) -> Common:
    """The same as it arrives."""
    return replace(shared, payload=unpacked(shared.payload, device), buffers=unpacked(shared.buffers, device))


def pack_block(orders: Sequence[Order], shared: Common) -> list[Packed]:
    """The orders of a block without what all have in common."""
    made = []
    for order in orders:
        own = {key: value for key, value in order.payload.items() if key not in shared.payload}
        buffers = order.buffers if shared.buffers is None else _NONE
        made.append(packed(replace(order, payload=own, buffers=buffers)))
    return made


def unpack_block(orders: Sequence[Packed], shared: Common, device: torch.device) -> list[Order]:
    """The orders of a block as one process would have them: what is common is one tensor for all."""
    made: list[Order] = []
    for each in orders:
        order: Order = unpacked(each, device)
        payload = {key: (order.payload if key in order.payload else shared.payload)[key] for key in shared.names}
        buffers = order.buffers if shared.buffers is None else shared.buffers
        made.append(replace(order, payload=payload, buffers=buffers))
    return made


def lean(part: BlockSum, *, keeps_statistics: bool) -> BlockSum:
    """A block's answer without what the driver does not look at: it checks the first outline for all."""
    first, *others = (reply if keeps_statistics else replace(reply, buffers=None) for reply in part.kept)
    return replace(part, kept=(first, *(replace(reply, outline={}) for reply in others)))
