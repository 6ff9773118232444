"""What a finished run shows, for programs and notebooks: its figures, its rounds, where its folder is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unalike.rounds.evaluation import Figures
from unalike.runs.rounds_file import finite
from unalike.runs.spec import RunSpec
from unalike.scores import value_of


@dataclass(frozen=True)
class Result:
    """What a finished run shows: the final round, and apart from it the round selected on validation rows."""

    spec: RunSpec
    figures: Figures
    rows: list[Figures]
    run_dir: Path | None = None

    @property
    def accuracy(self) -> float | None:
        """Accuracy of the final global model on the global test set; None where numbers are predicted."""
        value: float | None = self.figures.get("accuracy")
        return value

    @property
    def score(self) -> float | None:
        """The score that the run goes by, of the final global model on the global test set."""
        return value_of(self.figures)

    def to_dict(self) -> dict[str, Any]:
        """One object, ready for JSON."""
        where = None if self.run_dir is None else str(self.run_dir)
        made: dict[str, Any] = finite({**self.figures, "run_dir": where, "spec": self.spec.to_dict()})
        return made
