"""A run that was asked to stop after a round: its rounds so far, and no result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unalike.errors import UserError, shown
from unalike.runs.spec import RunSpec
from unalike.scores import Figures


@dataclass(frozen=True, repr=False)
class Paused:
    """What ``run(..., until=K)`` gives where rounds are left to play: no figures of a finished run, no model."""

    spec: RunSpec
    rows: list[Figures]
    """The rounds that are recorded; they may be more than K, if an earlier call went further."""
    run_dir: Path

    @property
    def round(self) -> int:
        """The last round that was played."""
        return len(self.rows)

    @property
    def rounds_left(self) -> int:
        """How many rounds the whole run still has."""
        return self.spec.rounds - self.round

    def __repr__(self) -> str:
        return f"Paused after round {self.round} of {self.spec.rounds}, kept in {self.run_dir}"


def check_until(until: object, spec: RunSpec, *, kept: bool) -> None:
    """Refuse a round that the run does not have, and a stop that nothing could be resumed from."""
    if until is None:
        return
    if not isinstance(until, int) or isinstance(until, bool) or not 1 <= until <= spec.rounds:
        raise UserError(f"until must be a round from 1 to {spec.rounds}, got {shown(until)}.")
    if not kept:
        raise UserError(f"until={until} needs runs=FOLDER: without a folder the run could not go on later.")
