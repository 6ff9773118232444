"""Synchronous successive halving: trials are stopped at a rung, compared there, and the best go on.

A rung is closed when all of its trials are there, and what goes on follows from their scores and numbers alone. So
the winner is the same with any number of processes, in any order, and after any interruption; and since a stopped
run goes on where it stopped, no round is played twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from unalike.runs.parts import PARTS, registry
from unalike.runs.results import Record, brief
from unalike.runs.scales import Scale
from unalike.studies.planned import Fields, Planned
from unalike.studies.tuning.choice import Choice, Look, Tuned, Tuning
from unalike.studies.tuning.rungs import Allowance, Rung, cost
from unalike.studies.tuning.search import Search
from unalike.studies.tuning.space import Dimension


@dataclass(frozen=True)
class Candidate:
    """A trial: what was drawn, the fields of its runs, and these, one a tuning seed. Number 0 is untuned."""

    number: int
    values: Mapping[str, Any]
    fields: Fields
    runs: tuple[Planned, ...]

    @property
    def label(self) -> str:
        """The trial for people: ``fedprox(mu=0.03), lr 0.1``; ``untuned`` where nothing was drawn."""
        return label(self.fields) if self.number else "untuned"

    def score(self, round: int, look: Look) -> tuple[bool, float | None]:
        """Whether all seeds have come to a round or failed, and the mean validation score there; None: failed."""
        found = [_validation(look(run), round) for run in self.runs]
        if any(not there for there, _ in found):
            return False, None
        values = [value for _, value in found if value is not None]
        return True, fmean(values) if len(values) == len(found) else None


def label(fields: Mapping[str, Any]) -> str:
    """Tuned fields in a line."""
    shown = {name: brief(registry(name), value) if name in PARTS else value for name, value in fields.items()}
    algorithm = shown.pop("algorithm", "")
    return ", ".join([str(algorithm), *(f"{name} {value}" for name, value in shown.items())])


def _validation(record: Record, round: int) -> tuple[bool, float | None]:
    """Whether a run is as far as a round or has failed, and its score on validation rows there, as it is told."""
    if len(record.rounds) >= round:
        return True, record.scale.of(record.rounds[round - 1], "validation_")
    return record.state == "failed", None


@dataclass(frozen=True)
class Heat:
    """What came of a rung: the scores of those who are there, and once all are, who goes on."""

    rung: Rung
    entered: tuple[int, ...]
    scores: Mapping[int, float | None]
    """By trial; None of one that failed. Whoever is missing has not come so far."""
    kept: tuple[int, ...] = ()

    @property
    def closed(self) -> bool:
        """Whether all trials of the rung are there."""
        return len(self.scores) == len(self.entered)


@dataclass(frozen=True)
class Halving(Tuning):
    """The search for one algorithm in one combination of the axes."""

    candidates: tuple[Candidate, ...]
    """The untuned run first, which is played to its end beside the trials."""
    rungs: tuple[Rung, ...]
    search: Search
    allowance: Allowance
    dimensions: tuple[Dimension, ...]
    rounds: int
    parties: int | None
    """How many take part in a round: a budget of rounds costs so many times as much. None: the data decide."""

    def runs(self) -> Iterator[Planned]:
        """The untuned runs and those of all trials."""
        return (run for candidate in self.candidates for run in candidate.runs)

    def heats(self, look: Look) -> list[Heat]:
        """The rungs that have begun; all but the last are closed."""
        made: list[Heat] = []
        alive = tuple(one.number for one in self.candidates[1:])
        for rung, after in zip(self.rungs, (*self.rungs[1:], None), strict=False):
            if not alive:
                break
            found = {number: self.candidates[number].score(rung.round, look) for number in alive}
            scores = {number: score for number, (there, score) in found.items() if there}
            heat = Heat(rung, alive, scores)
            if not heat.closed:
                return [*made, heat]
            ranked = self._ranked(scores, look)
            alive = tuple(ranked[: after.trials] if after else ranked[:1])
            made.append(Heat(rung, heat.entered, scores, alive))
        return made

    def _ranked(self, scores: Mapping[int, float | None], look: Look) -> list[int]:
        """Trials with a score, the best first; of equals, the one with the lower number."""
        scale = self.scale(look)
        known = [number for number, score in scores.items() if score is not None]
        return sorted(known, key=lambda number: (-scale.goodness(scores[number]), number))

    def scale(self, look: Look) -> Scale:
        """How the runs' score is told; only a run that was played says which it is."""
        records = [look(run) for run in self.runs()]
        return next((record for record in records if record.named_score), records[0]).scale

    def wanted(self, look: Look) -> Iterator[tuple[Planned, int | None]]:
        """The untuned runs to their end, and the rung that is open."""
        yield from self._missing(self.candidates[0], self.rounds, look)
        for heat in self.heats(look)[-1:]:
            for number in heat.entered:
                yield from self._missing(self.candidates[number], heat.rung.round, look)

    def _missing(self, candidate: Candidate, round: int, look: Look) -> Iterator[tuple[Planned, int | None]]:
        for run in candidate.runs:
            record = look(run)
            unfinished = round == self.rounds and record.state == "unfinished"
            if unfinished or not _validation(record, round)[0]:
                yield run, None if round == self.rounds else round

    @property
    def steps(self) -> int:
        """Every trial of every rung, and the untuned run, with every seed."""
        return len(self.search.seeds) * (1 + sum(rung.trials for rung in self.rungs))

    def done(self, look: Look) -> int:
        """The steps of closed rungs, and of the open one those runs that are there."""
        heats, seeds = self.heats(look), len(self.search.seeds)
        left = sum(1 for _ in self.wanted(look))
        begun = self.rungs if not heats or (heats[-1].closed and not heats[-1].kept) else self.rungs[: len(heats)]
        return seeds * (1 + sum(rung.trials for rung in begun)) - left

    def rounds_to_come(self, look: Look) -> int:
        """The rounds of rungs that have not begun."""
        heats = self.heats(look)
        if heats and heats[-1].closed and not heats[-1].kept:
            return 0
        seeds = len(self.search.seeds)
        return cost(self.rungs, seeds) - cost(self.rungs[: len(heats)], seeds)

    def finals(self, look: Look) -> dict[int, float | None]:
        """The scores after the last round of the untuned run and of the trials that came so far."""
        numbers = [0, *(heat.entered if (heat := _last(self.heats(look), self.rounds)) else ())]
        return {number: self.candidates[number].score(self.rounds, look)[1] for number in numbers}

    def winner(self, look: Look) -> int | None:
        """The number of the best trial; None while a rung is open, or where all have failed."""
        if any(True for _ in self.wanted(look)):
            return None
        return next(iter(self._ranked(self.finals(look), look)), None)

    def choose(self, look: Look) -> Choice:
        """The trial with the best mean score on validation rows after the last round; of equals, the first.

        The untuned run is one of them. A trial with a failed run is worse than any other.
        """
        if any(True for _ in self.wanted(look)):
            return Choice()
        number = self.winner(look)
        if number is None:
            problems = [record.problem for record in map(look, self.runs()) if record.problem]
            return Choice(problem=f"no trial could be tuned: {problems[0] if problems else 'no validation rows'}")
        fields = dict(self.candidates[number].fields)
        return Choice(str(fields.pop("algorithm")), fields=fields)

    @cached_property
    def spent(self) -> int:
        """The rounds of the plan, over all trials and seeds; trials that fail play fewer."""
        return cost(self.rungs, len(self.search.seeds))

    def tell(self, look: Look) -> Tuned:
        """What was chosen beside the untuned run and those that came to the last rung."""
        number = self.winner(look) or 0
        finals = {self.candidates[each].label: score for each, score in self.finals(look).items()}
        return Tuned(
            self.fields, self.algorithm, self.candidates[number].label, finals, self.scale(look).name, self.how
        )

    @property
    def how(self) -> str:
        """The search in a sentence."""
        if not self.rungs:
            return "nothing in the space is a parameter of it"
        space = ", ".join(f"{each.name} {each}" for each in self.dimensions)
        rungs = ", ".join(f"{rung.trials} until round {rung.round}" for rung in self.rungs)
        parties = f" x {self.parties} parties" if self.parties else ""
        return (
            f"{self.rungs[0].trials} trials over {space}: {rungs}; {self.spent:,} of {self.allowance.budget:,} "
            f"rounds{parties}, tuning seeds {_words(self.search.seeds)}"
        )


def _last(heats: Sequence[Heat], rounds: int) -> Heat | None:
    return next((heat for heat in heats if heat.rung.round == rounds), None)


def _words(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
