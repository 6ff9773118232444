"""What the server can tell of a single upload: whether its agreed rows weigh so much, and how long it is."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from unalike.algorithms.contract import Vectors
from unalike.channels import Summand
from unalike.federation.envelope import Refused
from unalike.rounds.order import BUFFERS, Order
from unalike.rounds.worker import Recipe, Worker

_ROUNDING = 1e-6
"""Of a weight that is not just the number of rows: two machines may round it differently."""


class _Unknown(LookupError):
    """A weight depends on what only the party knows."""


class _Untold:
    """Stands for what only the party knows: its state, and what it measured on its rows."""

    def _refuse(self, *asked: object) -> NoReturn:
        raise _Unknown

    __getattr__ = __getitem__ = __contains__ = __iter__ = __len__ = __bool__ = _refuse


def agreed_weight(worker: Worker, order: Order) -> float | None:
    """What a party's upload weighs by the rows that it agreed with; None where its algorithm looks at more.

    ``worker`` stands for the party: it has as many rows as that one agreed with.
    """
    untold: Any = _Untold()
    own = worker.own(order) | {"state": untold, "measured": untold}
    if order.measures:
        own["trained"] = untold
    if order.trains:
        own["steps"] = torch.full_like(own["steps"], worker.steps_in_all(order)[-1])
    try:
        phase = order.phases[-1].name if order.trains else order.phase
        return float(worker.recipe.algorithm.weight(worker.party(order, own, phase)))
    except (_Unknown, TypeError):  # torch's functions refuse it by a TypeError
        return None


def check_weight(worker: Worker, order: Order, weight: float) -> None:
    """Refuse an upload that counts for more than its party's agreed rows do."""
    if not weight >= 0:
        raise Refused("its weight is below zero")
    agreed = agreed_weight(worker, order)
    if agreed is not None and weight > agreed * (1 + _ROUNDING):
        raise Refused(
            f"its weight is {weight:.7g}, but the {worker.size(order):,} training rows that it agreed with weigh "
            f"{agreed:.7g}. If its table has grown, stop and run again: all agree anew"
        )


def check_single(recipe: Recipe, message: Summand, upload: Vectors) -> None:
    """Refuse a single upload, which some algorithms look at, that is not the one that is added."""
    plain = recipe.algorithm.plain
    for key, value in upload.items():
        if not torch.equal(message.vectors[key], value if key in plain else value * message.weight):
            raise Refused(f"the {key} that it shows is not the one that it adds")


def update_in(worker: Worker, order: Order, message: Summand) -> Vectors:
    """What a party uploaded, from its message; a weight that it made small does not make its update long."""
    weight, plain = agreed_weight(worker, order) or message.weight or 1.0, worker.recipe.algorithm.plain
    update = {key: value if key in plain else value / weight for key, value in message.vectors.items()}
    if BUFFERS in update:
        update[BUFFERS] = update[BUFFERS] - order.buffers
    return update


def norm_of(vectors: Vectors) -> float:
    """The l2 norm of all vectors together, in float64."""
    parts = [value.detach().double().reshape(-1) for value in vectors.values()]
    joined = torch.cat(parts) if parts else torch.zeros(1)
    largest = float(joined.abs().max()) if joined.numel() else 0.0
    # Divided by the largest entry first: the square of a huge one would be infinite.
    return largest * float(torch.linalg.vector_norm(joined / largest)) if largest else 0.0
