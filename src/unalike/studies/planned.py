"""One run that a study is to make, and what there is of it in the folder of runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unalike.data.folder import NotFound
from unalike.data.sql import check_frozen
from unalike.runs.results import Record, read_record
from unalike.runs.spec import RunSpec

Fields = dict[str, Any]
"""Fields of a RunSpec, by name."""


@dataclass(frozen=True)
class Planned:
    """One run that is to be made; without a spec where a file that is part of it is not there."""

    fields: Mapping[str, Any]
    spec: RunSpec | None
    problem: str = ""

    @property
    def key(self) -> str:
        """The run's key, or else what it would be made of."""
        return repr(sorted(self.fields.items())) if self.spec is None else self.spec.key


def make(fields: Fields) -> Planned:
    """A run from its fields; a file that is not there is its problem, any other mistake an error."""
    try:
        spec = RunSpec.from_mapping(fields)
        check_frozen(spec.dataset)
        return Planned(fields, spec)
    except NotFound as error:
        return Planned(fields, None, f"data not found: {error}")


def look_at(planned: Planned, runs: Path) -> Record:
    """What there is of a run in the folder of runs. Takes no lock."""
    if planned.spec is None:
        return Record("", planned.fields, "failed", problem=planned.problem)
    found = read_record(runs / planned.spec.folder)
    if found is None:
        return Record(planned.spec.key, planned.spec.to_dict(), "unfinished")
    if found.state == "finished" and found.figures["key"] != planned.spec.key:  # a folder that was renamed
        return dataclasses.replace(found, state="unfinished", figures={})
    return found


def over(fields: Fields, others: Mapping[str, Any]) -> Fields:
    """``others`` win; epochs and steps replace each other."""
    if "epochs" in others or "steps" in others:
        fields = {name: value for name, value in fields.items() if name not in ("epochs", "steps")}
    return {**fields, **others}
