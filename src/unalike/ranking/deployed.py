"""Runs by what each party would use on its own rows, apart from runs by their global model.

Where an algorithm gives each party a model of its own, or a run fine-tunes the shared one (``--fine-tune``), its
score is the mean over the parties, each tried with that model on its own held-out rows. FedAvg and pooled
training, whose parties all use the one model, stand beside them as baselines, tried on the same rows. The two
kinds of score are never in one table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from unalike.algorithms import ALGORITHMS, Algorithm
from unalike.errors import UserError
from unalike.ranking.standing import REFERENCE
from unalike.runs.results import Record
from unalike.scores import key_of

BASELINES = (REFERENCE, "pooled")
"""Algorithms with one model for all that stand beside personal ones."""
WORST_TENTH = "worst_10_percent"
"""The figure of a run, as recorded, that is the mean over the worst tenth of the parties."""
_TUNED = ", tuned"


def has_own_models(record: Record) -> bool:
    """Whether its algorithm gives each party a model of its own: fine-tuning is no matter of the algorithm."""
    if record.figures and not record.spec.get("fine_tune"):
        return bool(record.figures.get("personal"))
    try:
        part: object = ALGORITHMS.build(str(record.spec.get("algorithm")))
        return isinstance(part, Algorithm) and part.overrides("personal", "adapt")
    except UserError:  # a plug-in that is not here
        return bool(record.figures.get("personal"))


def by_global_model(records: Iterable[Record]) -> list[Record]:
    """The runs of algorithms that train one model for all, which is what ranks them."""
    return [record for record in records if not has_own_models(record)]


def by_own_models(records: Sequence[Record]) -> list[Record]:
    """The runs with models of the parties' own and their baselines, where the score is the parties' own mean.

    Settings differ in no more than the algorithm then: fine-tuning is a part of its name. Those without any model
    of a party's own are left out, and so are runs without held-out rows.
    """
    own = [record for record in records if has_own_models(record) or record.spec.get("fine_tune")]
    made = [one for record in own if (one := _deployed(record))]
    places = {record.setting for record in made}
    beside = [record for record in records if record not in own and family(record.algorithm) in BASELINES]
    return made + [one for record in beside if (one := _deployed(record)) and one.setting in places]


def family(algorithm: str) -> str:
    """The algorithm without its parameters, but with the word that it is fine-tuned."""
    name, tuned, _ = algorithm.partition(_TUNED)
    return name.split("(")[0] + tuned


def command_of(algorithm: str) -> dict[str, str]:
    """The options of ``unalike run`` that play an algorithm of these tables, by name."""
    name, tuned, epochs = algorithm.partition(_TUNED)
    return {"algorithm": name} | ({"fine-tune": epochs.strip() or "1"} if tuned else {})


def _deployed(record: Record) -> Record | None:
    """The record with the parties' own mean for its score; None where no party has rows to be tried on."""
    key = key_of(record.score)
    found = _by_party(record.figures)
    if record.figures and not found.get("count"):
        return None
    kept = {name: value for name, value in record.figures.items() if name not in ("personal", "parties")}
    figures = {**kept, key: found.get("mean"), WORST_TENTH: found.get(WORST_TENTH)} if record.figures else {}
    rounds = tuple({**row, key: _by_party(row).get("mean")} for row in record.rounds)
    name = _with_tuning(record.algorithm, record.spec.get("fine_tune"))
    return replace(record, spec={**record.spec, "algorithm": name, "fine_tune": 0}, figures=figures, rounds=rounds)


def _with_tuning(algorithm: str, epochs: int | None) -> str:
    if not epochs:
        return algorithm
    return f"fedavg-tuned({epochs})" if algorithm == REFERENCE else f"{algorithm}{_TUNED} {epochs}"


def _by_party(figures: Mapping[str, Any]) -> Mapping[str, Any]:
    found = figures.get("personal") or figures.get("parties")
    return found if isinstance(found, dict) else {}
