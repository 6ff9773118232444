"""What a finished run shows, for programs and notebooks: its figures, its rounds, where its folder is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import unalike
from unalike.runs.frames import Library, frame
from unalike.runs.headline import gain_words, headline
from unalike.runs.results import Record
from unalike.runs.rounds_file import finite
from unalike.runs.spec import RunSpec
from unalike.scores import Figures, value_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unalike.data.dataset import Array
    from unalike.runs.card import ModelCard
    from unalike.runs.export import Format
    from unalike.runs.kept import ModelStore
    from unalike.runs.model_file import Which
    from unalike.runs.trained import TrainedModel
    from unalike.trees.importance import Importance


@dataclass(frozen=True, repr=False)
class Result:
    """What a finished run shows: the final round, and apart from it the round selected on validation rows.

    In a notebook it is a small table with its curve. ``rows`` has a dictionary for each round, ``rounds`` the
    same as a DataFrame.
    """

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

    @property
    def gain(self) -> float | None:
        """Where columns are split: how much better the score is than on the label holder's own columns."""
        value: float | None = self.figures.get("gain")
        return value

    @property
    def curve(self) -> list[tuple[int, float]]:
        """The score on the global test set by round, for the rounds that were evaluated."""
        return [(row["round"], value) for row in self.rows if (value := value_of(row)) is not None]

    @property
    def rounds(self) -> Any:
        """A DataFrame with a line for each round, of pandas, or of polars where that is not there."""
        return self.rounds_frame()

    def rounds_frame(self, kind: Library | None = None) -> Any:
        """A DataFrame with a line for each round; a figure within another has a dot: ``parties.worst``."""
        return frame(self.rows, kind)

    def plot(self, what: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw a figure by round, the score by default, or any column of ``rounds``, on these axes or new ones."""
        return unalike.compare([self]).plot(what, ax)

    @property
    def record(self) -> Record:
        """The run as tables, reports and comparisons know it."""
        spec, rows = self.spec, tuple(self.rows)
        return Record(spec.key, spec.to_dict(), "finished", self.figures, rows, folder=self.run_dir)

    def __repr__(self) -> str:
        record = self.record
        what = f"{record.algorithm} on {record.dataset}, {record.partition}, seed {record.seed}"
        said = ", ".join(headline(self.figures, loss=False))
        where = "" if self.run_dir is None else f", kept in {self.run_dir}"
        worth = gain_words(self.figures)
        after = f"Result: {what}\n  {said} after {self.figures['rounds']} rounds{where}"
        return f"{after}\n  {worth}" if worth else after

    def _repr_html_(self) -> str:
        """The run as a small table with its curve, for notebooks."""
        return unalike.compare([self])._repr_html_()

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

    def importance(self, which: Which = "final", party: int | str | None = None) -> Importance:
        """Of trees: what each column gains them, how much it covers and how often they look at it.

        It is made of dictionaries, the most important column first: ``pandas.DataFrame(result.importance())``.
        """
        from unalike.runs.deploy import importance_in

        return importance_in(self, which, party)

    def export(
        self,
        path: Path | str,
        format: Format = "safetensors",
        which: Which = "final",
        party: int | str | None = None,
    ) -> list[Path]:
        """Write the model for other programs into the folder ``path``, in a format of ``unalike export``."""
        from unalike.runs.export import export

        return export(self, path, format, which, party)

    def card(self) -> ModelCard:
        """The model card: what was trained on what, how well it does and for whom, what is spent of privacy."""
        from unalike.runs.card import card_of

        return card_of(self)
