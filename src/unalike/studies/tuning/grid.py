"""Tuning on a grid: every value of an algorithm's own parameters is tried to the end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unalike.runs.results import Record, mean_validation
from unalike.studies.planned import Planned
from unalike.studies.tuning.choice import Choice, Look, Tuned, Tuning


@dataclass(frozen=True)
class ParameterGrid(Tuning):
    """An algorithm with each of its parameters' values."""

    candidates: Mapping[str, tuple[Planned, ...]]
    """By the algorithm's text, the runs, one for each tuning seed."""

    def runs(self) -> Iterator[Planned]:
        """Every candidate with every seed."""
        for runs in self.candidates.values():
            yield from runs

    def wanted(self, look: Look) -> Iterator[tuple[Planned, int | None]]:
        """All at once: no run depends on another."""
        return ((run, None) for run in self.runs() if look(run).state == "unfinished")

    @property
    def steps(self) -> int:
        """Every run is played once, to its end."""
        return sum(map(len, self.candidates.values()))

    def done(self, look: Look) -> int:
        """How many of the runs have finished."""
        return sum(look(run).state == "finished" for run in self.runs())

    def failures(self, look: Look) -> list[Record]:
        """Every run that failed: values of a grid are expected to work."""
        return [record for record in map(look, self.runs()) if record.state == "failed"]

    def choose(self, look: Look) -> Choice:
        """The candidate with the best mean of the final scores on validation rows; of equals, the first.

        Test figures take no part. A candidate with a failed run loses.
        """
        best, text, problems = -math.inf, "", []
        for candidate, runs in self.candidates.items():
            records = [look(run) for run in runs]
            if any(record.state == "unfinished" for record in records):
                return Choice()
            problems += [record.problem or "failed" for record in records if record.state == "failed"]
            goodness = records[0].scale.goodness(mean_validation(records))
            if goodness > best:
                best, text = goodness, candidate
        if text:
            return Choice(text)
        return Choice(problem=f"no value could be tuned: {problems[0] if problems else 'no validation rows'}")

    def tell(self, look: Look) -> Tuned:
        """The chosen values beside all others."""
        chosen = self.choose(look).algorithm
        tried = {text: [look(run) for run in runs] for text, runs in self.candidates.items()}
        validation = {text: mean_validation(records) for text, records in tried.items()}
        return Tuned(self.fields, self.algorithm, chosen, validation, tried[chosen][0].score, self.how)

    @property
    def how(self) -> str:
        """How many values there are, and on which seeds they are tried."""
        first = next(iter(self.candidates.values()))
        seeds = ", ".join(str(run.fields["seed"]) for run in first)
        return f"all {len(self.candidates)} values, each with tuning seed(s) {seeds}"
