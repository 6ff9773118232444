"""What a run needs of a host: ``[resources]`` in a study's file. It decides nothing about the outcome."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unalike.errors import UserError, shown

_UNITS = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@dataclass(frozen=True)
class Wants:
    """Cores, accelerators and memory of one run."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory: int | None = None
    """In bytes; None where it is not said."""

    def told(self) -> str:
        """What a run needs, in words that a line to a user can have."""
        memory = f", {self.memory / 1e9:g} GB" if self.memory else ""
        return f"{self.cpus:g} CPUs, {self.gpus:g} GPUs{memory}"

    def fit(self, host: Mapping[str, float]) -> int:
        """How many such runs a host has room for, by its resources as Ray names them."""
        needs = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(self.memory or 0)}
        return min(math.floor(host.get(name, 0.0) / need + 1e-9) for name, need in needs.items() if need)


def read_wants(values: Mapping[str, Any]) -> Wants:
    """The table ``[resources]`` of a study's file."""
    known = {"cpus": 1.0, "gpus": 0.0, "memory": None}
    for name in values:
        if name not in known:
            raise UserError(f"resources.{name} is not known. Known: {', '.join(known)}.")
    cpus, gpus = (_number(name, values.get(name, known[name])) for name in ("cpus", "gpus"))
    if not cpus:
        raise UserError("resources.cpus must be above 0, got 0.")
    return Wants(cpus, gpus, _bytes(values["memory"]) if "memory" in values else None)


def _number(name: str, value: Any) -> float:
    """Whole, or a part of one: Ray has no other shares."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise UserError(f"resources.{name} must be a number of 0 or more, got {shown(value)}.")
    if value > 1 and value != int(value):
        raise UserError(f"resources.{name} must be whole above 1, got {shown(value)}.")
    return float(value)


def _bytes(value: Any) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z]+)", value) if isinstance(value, str) else None
    if found is None or found[2] not in _UNITS or not (size := int(float(found[1]) * _UNITS[found[2]])):
        raise UserError(f'resources.memory must be a size such as "4 GB", got {shown(value)}.')
    return size
