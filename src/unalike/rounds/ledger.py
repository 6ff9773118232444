"""What one round has changed and cost so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from unalike.algorithms.contract import Vectors
from unalike.rounds.blocks import blocks_of

Traffic = dict[str, dict[str, int]]
"""Bytes "up" and "down", by what they carry."""


@dataclass
class Ledger:
    """What one round has changed and cost so far."""

    buffers: Tensor
    states: dict[int, Vectors] = field(default_factory=dict)
    own_buffers: dict[int, Tensor] = field(default_factory=dict)
    memories: dict[int, Vectors] = field(default_factory=dict)
    loss: float = math.nan
    traffic: Traffic = field(default_factory=lambda: {"up": {}, "down": {}})
    turn: int = 0
    cohort: Sequence[int] = ()
    """who has answered so far in this round"""
    blocks: Mapping[int, int] = field(default_factory=dict)
    """by party, the block that it is in: of all who are asked in this round, whoever answers"""

    def begin(self, cohort: Sequence[int], *, stacked: bool) -> None:
        """Ask a cohort, which is cut into blocks here, once: who is absent later moves nobody into another."""
        self.cohort, self.blocks = cohort, blocks_of(cohort, stacked=stacked)

    def count(self, way: str, sizes: Mapping[str, int]) -> None:
        """Add bytes sent ``up`` or ``down``, by key."""
        for key, size in sizes.items():
            self.traffic[way][key] = self.traffic[way].get(key, 0) + size


def total_traffic(rows: Sequence[Mapping[str, Any]]) -> Traffic:
    """Bytes up and down over all recorded rounds, by what they carry."""
    total: Traffic = {"up": {}, "down": {}}
    for row in rows:
        for way, sizes in row.get("traffic", {}).items():
            for key, size in sizes.items():
                total[way][key] = total[way].get(key, 0) + size
    return total
