"""What tuning chose, in a study's file: the parameters of each algorithm, why, and what was tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unalike.errors import UserError
from unalike.runs.scales import is_number
from unalike.scores import SCORES, score_of
from unalike.studies.tuning.binding import FIELDS
from unalike.studies.tuning.choice import Tuned
from unalike.studies.tuning.halving import label
from unalike.studies.tuning.search import check_apart

_OWN = ("why", "tuning")


@dataclass(frozen=True)
class Chosen:
    """The fields of a run that were chosen for an algorithm, and how."""

    fields: Mapping[str, Any]
    why: str = ""
    tuning: Mapping[str, Any] | None = None
    """A record of the search: its space, seeds, trials, budget, and the scores of the winner and untuned."""

    def told(self, algorithm: str) -> Tuned:
        """As a report shows it: the scores as far as the file has them."""
        record, text = self.tuning or {}, label(self.fields)
        score = str(record.get("score", ""))
        known = {name: record.get(key) for name, key in ((text, "validation"), ("untuned", "untuned"))}
        values = {name: value if is_number(value) else None for name, value in known.items()}
        return Tuned({}, algorithm, text, values if score in SCORES else {}, score or score_of({}), self.why)


def read_chosen(values: Mapping[str, Any], reporting: Sequence[int]) -> dict[str, Chosen]:
    """The ``[chosen.ALGORITHM]`` tables of a study's file; a mistake is one line that names the key."""
    made = {}
    for name, table in values.items():
        key = f"chosen.{name}"
        if not isinstance(table, Mapping):
            raise UserError(f"{key} must be a table of fields, got {table!r}.")
        for field in table:
            if field not in (*_OWN, "algorithm", *FIELDS):
                raise UserError(f"{key}.{field} is nothing that is tuned. Known: {', '.join(FIELDS)}.")
        why, record = table.get("why", ""), table.get("tuning", {})
        if not isinstance(why, str) or not isinstance(record, Mapping):
            raise UserError(f"{key} needs a text as why and a table as tuning, got {why!r} and {record!r}.")
        seeds = record.get("seeds", [])
        check_apart(seeds if isinstance(seeds, list) else [], reporting)
        fields = {field: value for field, value in table.items() if field not in _OWN}
        made[name] = Chosen({"algorithm": name, **fields}, " ".join(why.split()), record)
    return made
