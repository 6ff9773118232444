"""``unalike.compare``: runs side by side, with what differs between them and how much of it is noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unalike.errors import UserError, shown, unknown
from unalike.runs.by_party import figure
from unalike.runs.differences import SAME_FOR_A_FAIR_COMPARISON, differences
from unalike.runs.frames import Library, frame, names_in
from unalike.runs.meaning import brief_model
from unalike.runs.parts import PARTS, registry
from unalike.runs.result import Result
from unalike.runs.results import Line, Record, Setting, brief, read_record, read_records
from unalike.scores import key_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OWN = ("personal", "parties")
"""The summaries of parties of which the first that a run has counts: each party under the model it would use."""

OWN_MEAN = "own.mean"
"""What is drawn where not all runs have a score on test rows: there is no model for all, or no such rows."""


@dataclass(frozen=True)
class Comparison:
    """Runs side by side: a line for all runs that differ in the seed alone, with means over seeds.

    In a notebook it is a table with curves, on a terminal a table. ``rows`` has the figures as dictionaries,
    ``table`` the same as a DataFrame. Fractions are fractions, as in a Result; only what is shown is in percent.
    """

    lines: tuple[Line, ...]
    """Each with a name that says in what it differs from the others, the best first where they can be compared."""
    differing: tuple[str, ...]
    """The fields of RunSpec, but for the seed, in which the runs differ."""
    common: dict[str, Any]
    """The fields that all runs share, with their values."""
    left_out: int = 0
    """How many runs in the given folders are not finished, and so not compared."""

    @property
    def records(self) -> tuple[Record, ...]:
        """All runs that are compared."""
        return tuple(record for line in self.lines for record in line.records)

    @cached_property
    def not_comparable(self) -> tuple[str, ...]:
        """Fields that differ, and because of which a better figure does not mean a better algorithm."""
        return tuple(name for name in self.differing if name in SAME_FOR_A_FAIR_COMPARISON)

    @cached_property
    def setting(self) -> Setting:
        """The lines as the report knows them."""
        return Setting(self.common, self.lines)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before believing the table, in sentences."""
        from unalike.notebook.notes import notes

        return tuple(notes(self))

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A dictionary for each line: in what it differs, and its figures, means over seeds."""
        return [_row(line, self.differing) for line in self.lines]

    @property
    def table(self) -> Any:
        """A DataFrame with a line for each of ``rows``, of pandas, or of polars where that is not there."""
        return self.table_frame()

    def table_frame(self, kind: Library | None = None) -> Any:
        """A DataFrame with a line for each of ``rows``; seeds are a text such as ``0 1 2``."""
        return frame([{**row, "seeds": " ".join(map(str, row["seeds"]))} for row in self.rows], kind)

    def plot(self, what: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw a figure by round, a curve for each line with a band over seeds, on these axes or on new ones.

        ``what`` is the score by default, or any column of a Result's ``rounds``, such as ``parties.worst``; or
        ``own.worst``, ``own.mean``: on the parties' own rows, each under the model that it would use.
        """
        from unalike.report.figures import curve, training_curves

        seeds = {line.algorithm: [rounds_of(record) for record in line.finished] for line in self.lines}
        key = self._figure(what)
        for name, rows in seeds.items():  # what cannot be drawn is refused before there are axes
            curve(rows, key, name)
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots(layout="constrained")
        training_curves(ax, seeds, key)
        ax.set_ylabel(key.replace("_", " ").replace(".", ", "))
        if len(seeds) > 1:
            ax.legend(frameon=False)
        return ax

    @cached_property
    def usual(self) -> str | None:
        """What is drawn where nobody says: the score on test rows, or what comes nearest and all runs have."""
        each = [set(names_in(rounds_of(record))) for record in self.records]
        score = key_of(self.records[0].score)
        wanted = [] if "score" in self.differing else [score, OWN_MEAN, f"validation_{score}", "train_loss"]
        return next((name for name in wanted if all(name in one for one in each)), None)

    def _figure(self, what: str | None) -> str:
        """The key of a figure in the rounds; a wrong name is answered with the nearest."""
        rows = [row for record in self.records for row in rounds_of(record)]
        known = [name for name in names_in(rows) if name != "round"]
        wanted = self.usual if what is None else key_of(str(what))
        if wanted is None:
            raise UserError("These runs share no score. Say what to draw, such as plot('train_loss').")
        if wanted not in known:
            raise unknown("figure of a round", wanted, known)
        return wanted

    def __str__(self) -> str:
        from unalike.notebook.views import as_text

        return as_text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The comparison as a table with curves, for notebooks."""
        from unalike.notebook.views import as_html

        return as_html(self)


def compare(runs: Iterable[Result | Path | str] | Result | Path | str) -> Comparison:
    """Put finished runs side by side: results, their folders, or a folder with runs in it.

    Runs that differ in the seed alone are one line with means over seeds. In what the lines differ is said, and
    whether they can be compared at all.
    """
    given = [runs] if isinstance(runs, Result | Path | str) else list(runs)
    records = {record.key: record for one in given for record in _records(one)}  # a run counts once
    if not records:
        raise UserError("There is nothing to compare. Give results of unalike.run, or folders of finished runs.")
    finished = [record for record in records.values() if record.state == "finished"]
    return _compared(finished, len(records) - len(finished))


def _records(one: Any) -> list[Record]:
    if isinstance(one, Result):
        return [one.record]
    if not isinstance(one, Path | str):
        raise UserError(f"compare needs results of unalike.run or folders of runs, got {shown(one)}.")
    folder = Path(one)
    if (record := read_record(folder)) is not None:
        if record.state != "finished":
            raise UserError(f"The run in {folder} is {record.state}. Run it to its end first.")
        return [record]
    found = read_records(folder) if folder.is_dir() else []
    if not any(each.state == "finished" for each in found):
        raise UserError(f"There is no finished run in {folder}. Give the folder of a run, or of several.")
    return found


def _compared(records: Sequence[Record], left_out: int = 0) -> Comparison:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(repr(sorted(_told(record).items())), []).append(record)
    differing, common = differences([_told(group[0]) for group in groups.values()])
    lines = [
        Line(_name(group[0], differing), tuple(sorted(group, key=lambda record: record.seed)))
        for group in groups.values()
    ]
    if not set(differing) & set(SAME_FOR_A_FAIR_COMPARISON):
        lines.sort(key=lambda line: -line.scale.goodness(None if line.value is None else line.value.mean))
    return Comparison(tuple(lines), tuple(differing), common, left_out)


def _told(record: Record) -> dict[str, Any]:
    """All that decides a run but the seed, with the score that it went by."""
    return {key: value for key, value in record.spec.items() if key != "seed"} | {"score": record.score}


def _name(record: Record, differing: Sequence[str]) -> str:
    """In what a line differs from the others, as short as it can be said; of a single line, its algorithm."""
    others = [f"{field} {told(field, _told(record).get(field))}" for field in differing if field != "algorithm"]
    alone = not others or "algorithm" in differing
    return ", ".join([*([record.algorithm] if alone else []), *others])


def told(field: str, value: Any) -> str:
    """The value of a field for people: a part without what is as by default, but for a net, whose size counts."""
    if value is None:
        return "–"
    if field == "model":
        return brief_model(str(value))
    return brief(registry(field), value) if field in PARTS else str(value)


def rounds_of(record: Record) -> list[dict[str, Any]]:
    """The run's rounds, where ``own`` is how parties fare under the model that each would use."""
    return [{**row, "own": next((row[key] for key in OWN if row.get(key)), None)} for row in record.rounds]


def _row(line: Line, differing: Sequence[str]) -> dict[str, Any]:
    first, value = line.records[0], line.value
    mean, worst = (figure(line, OWN, name) for name in ("mean", "worst"))
    factor = line.scale.factor
    return {
        "algorithm": first.algorithm,
        **{field: _told(first).get(field) for field in differing if field != "algorithm"},
        "seeds": [record.seed for record in line.records],
        "score": line.scale.name,
        "value": None if value is None else value.mean / factor,
        "std": None if value is None or value.seeds < 2 else value.std / factor,
        "mean_party": None if mean is None else mean.mean / factor,
        "worst_party": None if worst is None else worst.mean / factor,
        **{name: line.mean(name) for name in ("rounds", "bytes_up", "bytes_down", "seconds")},
    }
