"""What the server can tell of a single upload: whether its agreed rows weigh so much, and how long it is."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from unalike.algorithms.contract import Vectors
from unalike.federation.envelope import Refused
from unalike.rounds.exchange import ENGINE, PLAIN, Exchange
from unalike.rounds.upload import BUFFERS

_ROUNDING = 1e-6
"""Of a weight that is not just the number of rows: two machines may round it differently."""


class _Unknown(LookupError):
    """A weight depends on what only the party knows."""


class _Untold:
    """Stands for what only the party knows: its state, and what it measured on its rows."""

    def _refuse(self, *asked: object) -> NoReturn:
        raise _Unknown

    __getattr__ = __getitem__ = __contains__ = __iter__ = __len__ = __bool__ = _refuse


def agreed_weight(exchange: Exchange, number: int) -> float | None:
    """What a party's upload weighs by the rows that it agreed with; None where its algorithm looks at more."""
    untold: Any = _Untold()
    own = exchange.own(number) | {"state": untold, "measured": untold}
    if exchange.measures:
        own["trained"] = untold
    try:
        return float(exchange.algorithm.weight(exchange.party(own)))
    except (_Unknown, TypeError):  # torch's functions refuse it by a TypeError
        return None


def check_weight(exchange: Exchange, number: int, weight: float) -> None:
    """Refuse an upload that counts for more than its party's agreed rows do."""
    if not weight >= 0:
        raise Refused("its weight is below zero")
    agreed = agreed_weight(exchange, number)
    if agreed is not None and weight > agreed * (1 + _ROUNDING):
        rows, _ = exchange.counts(number)
        raise Refused(
            f"its weight is {weight:.7g}, but the {rows:,} training rows that it agreed with weigh {agreed:.7g}. "
            "If its table has grown, stop and run again: all agree anew"
        )


def check_single(exchange: Exchange, message: Vectors, upload: Vectors) -> None:
    """Refuse a single upload, which some algorithms look at, that is not the one that is added."""
    weight, plain = message[f"{ENGINE}weight"], exchange.algorithm.plain
    for key, value in upload.items():
        added = message[f"{PLAIN}{key}"] if key in plain else message[key]
        if not torch.equal(added, value if key in plain else value * weight):
            raise Refused(f"the {key} that it shows is not the one that it adds")


def update_in(exchange: Exchange, number: int, message: Vectors) -> Vectors:
    """What a party uploaded, from its message; a weight that it made small does not make its update long."""
    weight = agreed_weight(exchange, number) or float(message[f"{ENGINE}weight"]) or 1.0
    update = {
        key: value if key.startswith(PLAIN) else value / weight
        for key, value in message.items()
        if not key.startswith(ENGINE)
    }
    if BUFFERS in message:
        update[BUFFERS] = message[BUFFERS] / weight - exchange.buffers
    return update


def norm_of(vectors: Vectors) -> float:
    """The l2 norm of all vectors together, in float64."""
    parts = [value.detach().double().reshape(-1) for value in vectors.values()]
    joined = torch.cat(parts) if parts else torch.zeros(1)
    largest = float(joined.abs().max()) if joined.numel() else 0.0
    # Divided by the largest entry first: the square of a huge one would be infinite.
    return largest * float(torch.linalg.vector_norm(joined / largest)) if largest else 0.0
