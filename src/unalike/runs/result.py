"""What a finished run shows, for programs and notebooks: its figures, its rounds, where its folder is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unalike.rounds.evaluation import Figures
from unalike.runs.rounds_file import finite
from unalike.runs.spec import RunSpec
from unalike.scores import value_of

if TYPE_CHECKING:
    from unalike.data.dataset import Array
    from unalike.runs.card import ModelCard
    from unalike.runs.export import Format
    from unalike.runs.kept import ModelStore
    from unalike.runs.model_file import Which
    from unalike.runs.trained import TrainedModel


@dataclass(frozen=True)
class Result:
    """What a finished run shows: the final round, and apart from it the round selected on validation rows."""

    spec: RunSpec
    figures: Figures
    rows: list[Figures]
    run_dir: Path | None = None
    models: ModelStore | None = field(default=None, repr=False, compare=False)
    """the trained models, where they are not in the run's folder"""

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

    @property
    def model(self) -> TrainedModel:
        """The final model for all parties: a torch module that takes raw rows and gives logits, or numbers."""
        return self.trained()

    def personal(self, party: int | str, which: Which = "final") -> TrainedModel:
        """The model that a party would use, by its number or name: its own where the algorithm gives it one."""
        return self.trained(which, party)

    def trained(self, which: Which = "final", party: int | str | None = None) -> TrainedModel:
        """The final model, or the one selected on validation rows; of all parties, or of one."""
        from unalike.runs.deploy import trained_of

        return trained_of(self, which, party)

    def predict(self, x: Any, which: Which = "final", party: int | str | None = None) -> Array:
        """The class of each row by its name (a whole number or a truth value where all are), or the number.

        ``x``: raw rows as an array or tensor; or a table, such as ``"csv:new.csv"`` or a data frame, which is
        coded as the training's was.
        """
        from unalike.runs.deploy import answers

        return answers(self, x, which, party)

    def predict_proba(self, x: Any, which: Which = "final", party: int | str | None = None) -> Array:
        """The probability of each class, [rows, classes], for the same rows."""
        from unalike.runs.deploy import probabilities

        return probabilities(self, x, which, party)

    def export(
        self,
        path: Path | str,
        format: Format = "safetensors",
        which: Which = "final",
        party: int | str | None = None,
    ) -> list[Path]:
        """Write the model for other programs into the folder ``path``: safetensors, torch or onnx; or its card."""
        from unalike.runs.export import export

        return export(self, path, format, which, party)

    def card(self) -> ModelCard:
        """The model card: what was trained on what, how well it does and for whom, what is spent of privacy."""
        from unalike.runs.card import card_of

        return card_of(self)
