"""Where a run's parties are computed, as a user says it. It decides nothing of the outcome."""

from __future__ import annotations

import importlib.util
import math
import sys
from dataclasses import dataclass

from unalike.errors import UserError, shown

MOST_WORKERS = 4096


@dataclass(frozen=True)
class Machines:
    """Processes that share a run's work: so many on this machine, or on a Ray cluster that is there.

    ``cpus`` are those that Ray keeps for a worker; ``mixed`` lets workers join whose CPU or PyTorch computes other
    bits than this process.
    """

    workers: int | None = None
    cluster: str | None = None
    cpus: float | None = None
    mixed: bool = False

    def __post_init__(self) -> None:
        whole = isinstance(self.workers, int) and not isinstance(self.workers, bool)
        if self.workers is not None and not (whole and 1 <= self.workers <= MOST_WORKERS):
            raise UserError(f"--workers must be from 1 to {MOST_WORKERS:,}, got {shown(self.workers)}. Try 2.")
        if self.cluster is not None and not (isinstance(self.cluster, str) and self.cluster.strip()):
            raise UserError(f"--cluster must be HOST:PORT or auto, got {shown(self.cluster)}.")
        cpus: object = self.cpus
        if cpus is not None and not (isinstance(cpus, int | float) and 0 < cpus < math.inf):
            raise UserError(f"--worker-cpus must be a number above 0, got {shown(cpus)}. Try 1.")

    @classmethod
    def said(
        cls, workers: int | None, cluster: str | None, cpus: float | None, *, mixed: bool = False
    ) -> Machines | None:
        """What was said, if anything was; what means nothing without workers is refused."""
        made = cls(workers, cluster, cpus, mixed)
        if workers is not None or cluster is not None:
            return made
        for flag, value in (("--worker-cpus", cpus is not None), ("--mixed-workers", mixed)):
            if value:
                raise UserError(f"{flag} is for workers. Add --workers 2 or --cluster ADDRESS, or leave it out.")
        return None

    @property
    def flag(self) -> str:
        """The option by which they were asked for."""
        return "--workers" if self.cluster is None else "--cluster"

    def check_here(self) -> None:
        """Refuse, in one line, where Ray is not."""
        if sys.platform == "win32":
            raise UserError(f"{self.flag} needs Linux or macOS: Ray is not for Windows. Use --threads 2 instead.")
        if importlib.util.find_spec("ray") is None:
            raise UserError(f"{self.flag} needs Ray, which is not installed here: pip install 'unalike[ray]'.")
