"""What a page is made of: one neutral class that a run and a study both become."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from unalike.data import DATASETS
from unalike.ranking.comparison import Compared, compare
from unalike.ranking.published import TABLES
from unalike.runs.command import command, with_own_code
from unalike.runs.differences import differences, field_told
from unalike.runs.results import Line, Record, Setting, brief, settings
from unalike.runs.scales import Scale, scale_of
from unalike.scores import value_of


@dataclass(frozen=True)
class Page:
    """All that is shown. ``compared`` has a published number beside ours where there is one."""

    title: str
    settings: tuple[Setting, ...]
    about: str = ""
    compared: tuple[Compared, ...] = ()
    source: str = ""
    """Where the published numbers are from."""
    target: float | None = None
    """A value as it is recorded that rounds are counted to; None: what FedAvg ends with."""
    notes: tuple[str, ...] = ()
    """What a reader must know before the figures: a smaller scale, runs that are missing."""
    commands: tuple[str, ...] = ()
    failures: tuple[Record, ...] = ()
    tuned: tuple[tuple[str, str, str, str], ...] = ()
    """Where, what was chosen, and each candidate's score on validation rows."""

    @cached_property
    def names(self) -> list[tuple[str, str]]:
        """What to call each setting: its data set, and its partition with whatever else tells it from others."""
        made = []
        for one in self.settings:
            place = (one.dataset, one.partition)
            group = [other.spec for other in self.settings if (other.dataset, other.partition) == place]
            differing = set(differences(group)[0]) - {"dataset", "partition"}
            apart = [
                field_told(field, value).replace("_", " ") if field != "model" else field_told(field, value)
                for field, value in one.spec.items()
                if field in differing
            ]
            made.append((brief(DATASETS, one.dataset), ", ".join([one.partition, *apart])))
        return made

    @property
    def algorithms(self) -> list[str]:
        """The algorithms of all settings, in order."""
        return sorted({line.algorithm for setting in self.settings for line in setting.lines})

    @cached_property
    def families(self) -> dict[str, str]:
        """What each algorithm goes by in colours and columns: its bare name, unless a setting has two of it.

        A study may tune ``fedprox`` to another mu in every setting; it is one column and one colour all the same.
        """
        bare = {name: name.split("(")[0] for name in self.algorithms}
        clashes = {
            base
            for one in self.settings
            for base, number in Counter(bare[line.algorithm] for line in one.lines).items()
            if number > 1
        }
        return {name: name if base in clashes else base for name, base in bare.items()}

    @cached_property
    def places(self) -> dict[str, int]:
        """The number of each algorithm's colour and dash."""
        order = sorted(set(self.families.values()))
        return {name: order.index(family) for name, family in self.families.items()}

    @property
    def finished(self) -> list[Record]:
        """The runs behind the figures."""
        return [record for one in self.settings for line in one.lines for record in line.finished]

    def comparison(self, setting: Setting, line: Line) -> Compared:
        """The line beside its published number; ours alone where there is none."""
        place = (setting.dataset, setting.partition, line.algorithm)
        found = [one for one in self.compared if (one.dataset, one.partition, one.algorithm) == place]
        same = [one for one in found if one.ours == line.value]  # two settings may differ in other fields
        return (same or found or [Compared(*place, line.value, None)])[0]

    @property
    def scales(self) -> list[Scale]:
        """Those of all settings, each once: one, unless settings go by different scores."""
        return list(dict.fromkeys(setting.scale for setting in self.settings))

    def goal(self, setting: Setting) -> float | None:
        """The value that rounds are counted to: the page's, or what FedAvg (else the weakest line) ends with."""
        if self.target is not None:
            return round(setting.scale.factor * self.target, 9)
        ends = _ends(setting)
        return setting.scale.easier(ends[self.measure(setting)]) if ends else None

    def measure(self, setting: Setting) -> str:
        """The algorithm whose end is the goal where the page has no target."""
        ends = _ends(setting)
        return "fedavg" if "fedavg" in ends else min(ends, key=lambda name: setting.scale.goodness(ends[name]))


def _ends(setting: Setting) -> dict[str, float]:
    return {line.algorithm: line.value.mean for line in setting.lines if line.value is not None}


class Study(Protocol):
    """What a page needs to know of a study."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def about(self) -> str: ...  # noqa: D102
    @property
    def target(self) -> float | None: ...  # noqa: D102  # as it is recorded
    @property
    def published(self) -> str | None: ...  # noqa: D102


class StudyResults(Protocol):
    """A study's results, as ``bench`` gathers them."""

    @property
    def study(self) -> Study: ...  # noqa: D102
    @property
    def settings(self) -> Sequence[Setting]: ...  # noqa: D102
    @property
    def compared(self) -> Sequence[Compared]: ...  # noqa: D102
    @property
    def tuned(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def done(self) -> int: ...  # noqa: D102
    @property
    def total(self) -> int: ...  # noqa: D102
    @property
    def failed(self) -> Sequence[Record]: ...  # noqa: D102
    @property
    def damaged(self) -> Sequence[Record]: ...  # noqa: D102
    @property
    def scale(self) -> float: ...  # noqa: D102
    @property
    def warning(self) -> str: ...  # noqa: D102


def page_of_study(results: StudyResults, runs: Path | None = None, only: Sequence[str] = ()) -> Page:
    """The page of a study, whole or not; settings without a finished run are only counted.

    ``only`` are the texts of ``--only`` that chose a part of it.
    """
    study, notes = results.study, []
    if results.scale != 1.0:
        notes.append(results.warning)
    if results.done < results.total:
        notes.append(f"{results.done} of {results.total} runs are done; all figures are of those.")
    begun = tuple(one for one in results.settings if any(line.finished for line in one.lines))
    empty = len(results.settings) - len(begun)
    if empty:
        notes.append(f"{empty} of {len(results.settings)} settings have no finished run and are not shown.")
    notes += _damages(results.damaged)
    table = str(study.published or "")
    return Page(
        title=study.title or study.name,
        about=" ".join(study.about.split()),
        settings=begun,
        compared=tuple(results.compared),
        source=TABLES.get(table, table) if any(one.paper for one in results.compared) else "",
        target=study.target,
        notes=tuple(notes),
        commands=(_study_command(study, results.scale, runs, only) + with_own_code(_codes(begun)),),
        failures=tuple(results.failed),
        tuned=tuple((place, one.chosen, _candidates(one), one.how) for place, one in results.tuned.items()),
    )


def _damages(records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(f"A run is left out, since it is damaged: {record.problem}" for record in records)


def _study_command(study: Study, scale: float, runs: Path | None, only: Sequence[str]) -> str:
    name = str(getattr(study, "source", "") or study.name)
    words = ["unalike", "study", "run", name if name.endswith(".toml") else study.name]
    words += [] if scale == 1.0 else ["--scale", str(scale)]
    if runs is not None and runs != Path("runs") and not runs.is_absolute():  # a page may be sent to others
        words += ["--runs", str(runs)]
    words += [word for text in only for word in ("--only", text)]
    return shlex.join(words)


def _candidates(tuned: Any) -> str:
    scale = scale_of(tuned.score)
    return "; ".join(
        f"{name}: failed" if value is None else f"{name}: {scale.words} {scale.text(value)}"
        for name, value in tuned.validation.items()
    )


def page_of_run(record: Record) -> Page:
    """The page of one run; of one that was stopped, as far as it went."""
    notes = []
    if record.state != "finished":
        notes.append(_how_far(record))
        record = _so_far(record)
    found = tuple(settings([record]))
    return Page(
        title=f"{record.algorithm} on {record.dataset}",
        about=f"One run: {record.dataset} split by {record.partition}, trained with {record.algorithm}, "
        f"seed {record.seed}.",
        settings=found,
        compared=tuple(compare(found, None)),
        notes=tuple(notes),
        commands=(command(record.spec),),
    )


def page_of_records(title: str, records: Sequence[Record]) -> Page:
    """The page of any runs, gathered into settings; failed ones are listed apart."""
    found = tuple(settings(records))
    failed = tuple(record for record in records if record.state == "failed")
    damages = _damages([record for record in records if record.damaged])
    return Page(title, found, compared=tuple(compare(found, None)), notes=damages, failures=failed)


def _codes(found: Sequence[Setting]) -> list[Any]:
    records = (record for setting in found for line in setting.lines for record in line.records)
    return [record.spec["code"] for record in records if record.spec.get("code")]


def folder_of(line: Line) -> Path | None:
    """Where the first finished run of a line is kept."""
    return next((record.folder for record in line.finished if record.folder is not None), None)


def _how_far(record: Record) -> str:
    what = "is damaged" if record.damaged else "failed"
    end = "" if record.problem is None else f" It {what}: {record.problem}"
    return (
        f"The run is not finished: {len(record.rounds)} of {record.spec.get('rounds')} rounds are played, and the "
        f"figures are of the last round that was evaluated.{end}"
    )


def _so_far(record: Record) -> Record:
    last: Mapping[str, Any] = next((row for row in reversed(record.rounds) if value_of(row) is not None), {})
    sums = {key: sum(row.get(key) or 0 for row in record.rounds) for key in ("bytes_up", "bytes_down", "seconds")}
    return replace(record, state="finished", figures={**last, **sums, "rounds": len(record.rounds)})
