"""What is trained in a benchmark. Only numpy is imported here: peers read it in environments of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

LR = 0.01
MOMENTUM = 0.9


@dataclass(frozen=True)
class Workload:
    """Parties with equally many rows, SGD with momentum; by default one local epoch, all parties in a round."""

    name: str
    shape: tuple[int, ...]
    classes: int
    model: str
    parties: int
    rows: int
    test: int = 8
    epochs: int = 1
    cohort: int = 0
    """parties in a round; 0: all"""
    batch: int = 64
    key: str = ""

    @property
    def trained(self) -> int:
        """Rows trained in a round, each counted once an epoch."""
        return (self.cohort or self.parties) * self.rows * self.epochs

    def arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Random rows with labels that can be learnt (the largest of a few projections), and the same to test."""
        rng = np.random.default_rng(0)
        total = self.parties * self.rows
        x = rng.standard_normal((total + self.test, *self.shape), dtype=np.float32)
        directions = rng.standard_normal((int(np.prod(self.shape)), self.classes), dtype=np.float32)
        y = (x.reshape(len(x), -1) @ directions).argmax(axis=1)
        return x[:total], y[:total], x[total:], y[total:]

    def quick(self) -> Workload:
        """A small part of it, to try the benchmark itself."""
        few = replace(self, rows=max(64, self.rows // 20), test=max(64, self.test // 20))
        return replace(few, parties=self.parties // 25, cohort=self.cohort // 25) if self.cohort else few

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Workload:
        """The workload that ``dataclasses.asdict`` and JSON have carried."""
        return cls(**{**fields, "shape": tuple(fields["shape"])})
