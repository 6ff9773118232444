"""What a search has shown: for each algorithm the trials, rung by rung, and the one that was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from unalike.channels import parse_channel
from unalike.errors import UserError
from unalike.runs.files import atomic_write
from unalike.runs.results import Record
from unalike.runs.scales import Scale
from unalike.runs.spec import RunSpec
from unalike.studies.planned import Planned, over
from unalike.studies.study_file import Study
from unalike.studies.tuning.halving import Candidate, Halving, Heat
from unalike.toml import write_toml


@dataclass(frozen=True)
class TunedAlgorithm:
    """One algorithm's search, once it is over."""

    search: Halving
    records: Mapping[str, Record]
    """By key, the runs as they were when the search ended."""

    def _look(self, planned: Planned) -> Record:
        return self.records[planned.key]

    @property
    def algorithm(self) -> str:
        """The algorithm as it was asked for."""
        return self.search.algorithm

    @property
    def trials(self) -> tuple[Candidate, ...]:
        """All trials by number; number 0 is the untuned run."""
        return self.search.candidates

    @cached_property
    def heats(self) -> list[Heat]:
        """The rungs, with the score of every trial that came to them."""
        return self.search.heats(self._look)

    @cached_property
    def scale(self) -> Scale:
        """How scores are told: accuracy in percent, an error as it is."""
        return self.search.scale(self._look)

    @cached_property
    def chosen(self) -> Candidate:
        """The best trial on validation rows; it may be the untuned one."""
        number = self.search.winner(self._look)
        if number is None:
            raise UserError(f"{self.algorithm}: {self.search.choose(self._look).problem}.")
        return self.trials[number]

    @property
    def score(self) -> float | None:
        """The chosen trial's mean score on validation rows after the last round, as it is told."""
        return self.score_of(self.chosen.number, self.search.rounds)

    @property
    def untuned(self) -> float | None:
        """The same of the untuned run on the same seeds; None where it failed."""
        return self.score_of(0, self.search.rounds)

    def score_of(self, number: int, round: int) -> float | None:
        """A trial's mean score on validation rows after a round; None where it failed or did not come so far."""
        return self.trials[number].score(round, self._look)[1]

    @property
    def winner(self) -> int:
        """The number of the chosen trial."""
        return self.chosen.number

    def curves(self) -> dict[int, list[tuple[int, float]]]:
        """By trial, the rounds at which it was compared and its scores there; the untuned run has all of them."""
        stops = [rung.round for rung in self.search.rungs] or [self.search.rounds]
        made: dict[int, list[tuple[int, float]]] = {}
        for one in self.trials:
            entered = (
                [heat.rung.round for heat in self.heats if one.number in heat.entered] if one.number else stops
            )
            scores = ((round, self.score_of(one.number, round)) for round in entered)
            made[one.number] = [(round, score) for round, score in scores if score is not None]
        return made

    def failed(self, number: int) -> bool:
        """Whether a run of a trial failed, as one that diverges does."""
        return any(self._look(run).state == "failed" for run in self.trials[number].runs)

    @property
    def epsilon(self) -> tuple[float, float] | None:
        """Epsilon and delta of all runs of the search together, each added up; None without noise.

        Basic composition: it holds whatever was looked at between the runs, and is the price of choosing in a
        federation whose rows are the same in every trial.
        """
        spent = [record.rounds[-1].get("epsilon") for record in self._played()]
        spec = self.trials[0].runs[0].spec
        noise = None if spec is None else parse_channel(spec.channel).noise
        if noise is None or None in spent:
            return None
        return sum(map(float, filter(None, spent))), len(spent) * noise.delta

    def _played(self) -> list[Record]:
        found = {run.key: self._look(run) for run in self.search.runs()}
        return [record for record in found.values() if record.rounds]

    def _parties(self) -> int | None:
        """How many took part in a round."""
        cohorts = (row.get("cohort") for record in self._played() for row in record.rounds)
        return next((int(each) for each in cohorts if each), self.search.parties)

    @property
    def rounds(self) -> int:
        """The rounds that were played for it: what it has cost, untuned runs included."""
        return sum(len(record.rounds) for record in self._played())

    @property
    def why(self) -> str:
        """The choice in a sentence or two."""
        number, scale = self.chosen.number, self.scale
        untuned = "failed" if self.untuned is None else f"{scale.words} {scale.text(self.untuned)}"
        assert self.score is not None
        best = f"validation {scale.words} {scale.text(self.score)} after {self.search.rounds} rounds"
        if not number:
            return f"As untuned ({best}): no trial was better. From {self.search.how}."
        return f"Trial {number} of {len(self.trials) - 1}: {best}, untuned {untuned}. From {self.search.how}."

    def record(self) -> dict[str, Any]:
        """What was searched and found, for the study's file."""
        found = {"score": self.scale.name, "validation": self.score, "untuned": self.untuned}
        spent = {} if self.epsilon is None else {"epsilon": self.epsilon[0], "delta": self.epsilon[1]}
        allowed = {"trials": len(self.trials) - 1, "budget": self.search.allowance.budget}
        rungs = [{"round": rung.round, "trials": rung.trials} for rung in self.search.rungs]
        counts = {"trial": self.chosen.number, "rounds_played": self.rounds, "parties": self._parties()}
        made = found | counts | self.search.search.to_dict() | allowed | spent | {"rungs": rungs}
        return {name: value for name, value in made.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """One object, ready for JSON."""
        return {
            "algorithm": self.algorithm,
            "chosen": self.chosen.fields,
            "why": self.why,
            **self.record(),
            "tried": [self._trial(one) for one in self.trials],
        }

    def _trial(self, one: Candidate) -> dict[str, Any]:
        return {
            "trial": one.number,
            "values": dict(one.values),
            "scores": {str(round): score for round, score in self.curves()[one.number]},
            "failed": self.failed(one.number),
            "keys": [run.key for run in one.runs],
        }


@dataclass(frozen=True)
class TuningResult:
    """What ``unalike.tune`` gives: what was chosen for each algorithm, and a study that plays it."""

    study: Study
    tuned: tuple[TunedAlgorithm, ...]
    runs: Path

    @property
    def best(self) -> TunedAlgorithm:
        """The algorithm with the best chosen trial; of equals, the first."""
        return max(self.tuned, key=lambda one: one.scale.goodness(one.score))

    def spec(self, seed: int = 0, algorithm: str | None = None) -> RunSpec:
        """A run with the chosen values: of an algorithm that was tuned, or of the best one."""
        named = {one.algorithm: one for one in self.tuned}
        if algorithm is not None and algorithm not in named:
            raise UserError(f"{algorithm!r} was not tuned. Known: {', '.join(named)}.")
        one = self.best if algorithm is None else named[algorithm]
        return RunSpec.from_mapping(over(dict(self.study.base), one.chosen.fields) | {"seed": seed})

    def to_toml(self) -> str:
        """The text of a study that plays the chosen values with the reporting seeds."""
        chosen = {
            one.algorithm: {**one.chosen.fields, "why": one.why, "tuning": one.record()} for one in self.tuned
        }
        values = {
            "title": f"Tuned: {', '.join(chosen)}",
            "about": "Parameters were chosen on validation rows by unalike tune, on other seeds than these.",
            "seeds": list(self.study.seeds),
            "base": dict(self.study.base),
            "axes": {"algorithm": list(chosen)},
            "chosen": chosen,
        }
        return write_toml({name: value for name, value in values.items() if value != {}})

    def save(self, path: Path | str) -> None:
        """Write the study to a file, for ``unalike study run FILE``."""
        atomic_write(Path(path), self.to_toml().encode())

    def to_dict(self) -> dict[str, Any]:
        """One object, ready for JSON."""
        return {
            "best": self.best.algorithm,
            "reporting_seeds": list(self.study.seeds),
            "base": dict(self.study.base),
            "tuned": [one.to_dict() for one in self.tuned],
        }
