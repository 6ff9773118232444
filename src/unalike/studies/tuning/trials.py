"""The trials of a search for one algorithm in one setting: drawn, checked, and made into runs."""

from __future__ import annotations

from collections.abc import Callable

from unalike.errors import UserError
from unalike.runs.rules import cohort_size
from unalike.runs.spec import RunSpec
from unalike.studies.planned import Fields, Planned, over
from unalike.studies.tuning.binding import Binding
from unalike.studies.tuning.halving import Candidate, Halving
from unalike.studies.tuning.rungs import Allowance, allow, make_rungs, most_rungs
from unalike.studies.tuning.search import Search

Prepare = Callable[[Fields], Planned]
"""Makes a run of its fields; at a smaller scale, of fewer rounds and rows."""


def make_halving(search: Search, fields: Fields, own: Fields, algorithm: str, prepare: Prepare) -> Halving:
    """The search for one algorithm; ``own`` are the fields of a tuning run, ``fields`` those of a final one."""

    def candidate(number: int, values: Fields, changed: Fields) -> Candidate:
        try:
            runs = tuple(prepare(over(own, changed) | {"seed": seed}) for seed in search.seeds)
        except UserError as error:
            raise UserError(f"trial {number} ({_shown(values)}): {error}" if number else str(error)) from None
        return Candidate(number, values, changed, runs)

    untuned = candidate(0, {}, {"algorithm": own.get("algorithm", "fedavg")})
    played = untuned.runs[0].spec
    whole = RunSpec.from_mapping(over(own, {"seed": search.seeds[0]})) if played is not None else None
    if played is None or whole is None:  # a file is not there: the untuned run says so
        none = Allowance(0, 0)
        return Halving(fields, algorithm, (untuned,), (), search, none, (), 1, None)
    if not whole.validation:
        raise UserError("validation must be above 0: parameters are tuned on validation rows.")
    seeds, every = len(search.seeds), whole.evaluate_every
    allowance = allow(search.trials, search.budget, whole.rounds, seeds, every)
    binding = Binding(search.space, whole, algorithm)
    _check_values(binding, own)
    rungs = allowance.rungs(binding.size, whole.rounds, seeds, every)
    if played.rounds != whole.rounds and rungs:  # at a smaller scale, as many trials and rungs on fewer rounds
        count = min(len(rungs), most_rungs(played.rounds))
        rungs = make_rungs(rungs[0].trials, played.rounds, count, every)
    drawn = binding.draws(search.draw_seed, rungs[0].trials if rungs else 0)
    trials = [candidate(number, values, binding.fields(values)) for number, values in enumerate(drawn, 1)]
    parties = cohort_size(whole, whole.parties) if whole.parties else None
    return Halving(
        fields,
        algorithm,
        (untuned, *trials),
        rungs,
        search,
        allowance,
        binding.dimensions,
        played.rounds,
        parties,
    )


def _check_values(binding: Binding, own: Fields) -> None:
    """Refuse values that no run can have, before anything is played."""
    for one in binding.dimensions:
        for value in one.extremes:
            try:
                RunSpec.from_mapping(over(own, binding.fields({one.name: value})))
            except UserError as error:
                raise UserError(f"The space of {one.name} has {value}, which cannot be: {error}") from None


def _shown(values: Fields) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
