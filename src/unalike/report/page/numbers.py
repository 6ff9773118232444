"""The figures behind the charts and tables, small enough to be carried in the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unalike.runs.results import Line, Record, first_round
from unalike.runs.scales import Scale, Spread, spread

MOST_POINTS = 300
"""Points of a curve, and parties in a strip, beyond which some are left out."""
SCORE = "score"
"""The curve of the setting's score, whichever it is."""
LOSSES = {"loss": "Test loss", "train_loss": "Training loss"}
_DIGITS = 4


@dataclass(frozen=True)
class Fairness:
    """How the parties of one line fare on their own held-out rows, by their score as it is told."""

    values: tuple[float, ...]
    """Every party of every seed, the lowest value first."""
    mean: Spread
    std: Spread
    worst: Spread
    worst_tenth: Spread
    personal: bool
    """Whether each party's own model is tried, not the global one."""


@dataclass(frozen=True)
class Reached:
    """When a line's seeds first reached the target; figures are of those that did."""

    reached: int
    seeds: int
    rounds: Spread | None
    megabytes: Spread | None


def short(value: float | None, digits: int = _DIGITS) -> float | int | None:
    """The number with few digits; None of what JSON does not have."""
    if value is None or not math.isfinite(value):
        return None
    if value == 0:
        return 0
    made = round(value, digits - 1 - math.floor(math.log10(abs(value))))
    return int(made) if made == int(made) else made


def thin(count: int, most: int = MOST_POINTS) -> list[int]:
    """Places in a list of ``count``, the first and the last among them, at most ``most``, evenly spread."""
    if count <= most:
        return list(range(count))
    return sorted({round(place) for place in np.linspace(0, count - 1, most)})


def metrics(scale: Scale) -> dict[str, str]:
    """The curves of a setting, and what to call them: its score, and the losses."""
    return {SCORE: f"Test {scale.words}", **LOSSES}


def scales(scale: Scale, lines: Sequence[Line]) -> dict[str, dict[str, Any]]:
    """For each curve, what an axis needs: its name, digits, the bounds of values, and which way is better."""
    ends = [abs(line.value.mean) for line in lines if line.value is not None]
    low, high = scale.bounds
    score = {
        "name": f"test {scale.column}",
        "own": scale.words,
        "unit": scale.unit,
        "digits": scale.digits(max(ends, default=1.0)),
        "low": low,
        "high": high,
        "up": scale.sign,
    }
    loss = {"own": "loss", "unit": "", "digits": 3, "low": 0, "high": None, "up": -1}
    return {SCORE: score, **{key: {**loss, "name": name.lower()} for key, name in LOSSES.items()}}


def curves(line: Line) -> dict[str, Any]:
    """Mean and deviation over seeds by round of the score and the losses, and the bytes sent until then."""
    made: dict[str, Any] = {"name": line.algorithm, "seeds": len(line.finished)}
    sent = _sent(line)
    for name in (SCORE, *LOSSES):
        points = line.curve(None if name == SCORE else name)
        points = [points[place] for place in thin(len(points))]
        factor = line.scale.factor if name == SCORE else 1.0
        made[name] = {
            "round": [number for number, _ in points],
            "mean": [short(factor * value.mean) for _, value in points],
            "std": [short(factor * value.std, 3) for _, value in points] if len(line.finished) > 1 else [],
        }
        if name == SCORE:
            made[name]["sent"] = [short(sent[number]) for number, _ in points if number in sent]
    return made


def megabytes(record: Record) -> dict[int, float]:
    """What was sent up and down until each round, all parties together, in megabytes."""
    total, found = 0.0, {}
    for row in record.rounds:
        total += (row.get("bytes_up") or 0) + (row.get("bytes_down") or 0)
        found[int(row["round"])] = total / 1e6
    return found


def _sent(line: Line) -> dict[int, float]:
    each = [megabytes(record) for record in line.finished]
    rounds = set.intersection(*map(set, each)) if each else set()
    return {number: float(np.mean([one[number] for one in each])) for number in rounds}


def reached(line: Line, target: float) -> Reached:
    """Rounds and megabytes until the target, over the seeds that reach it."""
    rounds, sent = [], []
    for record in line.finished:
        first = first_round(record, target)
        if first is not None:
            rounds.append(first)
            sent.append(megabytes(record)[first])
    return Reached(len(rounds), len(line.finished), spread(rounds), spread(sent))


def fairness(line: Line) -> Fairness | None:
    """How the parties fare; None where no rows were held out."""
    found = [_by_party(record) for record in line.finished]
    known = [one for one in found if one is not None]
    if not known:
        return None
    factor = line.scale.factor
    values = sorted(factor * value for one in known for value in one.get("each") or () if value is not None)

    def over_seeds(name: str) -> Spread:
        made = spread(factor * float(one[name]) for one in known)
        assert made is not None, "there is at least one"
        return made

    return Fairness(
        tuple(values),
        over_seeds("mean"),
        over_seeds("std"),
        over_seeds("worst"),
        over_seeds("worst_10_percent"),
        any(record.figures.get("personal") for record in line.finished),
    )


def _by_party(record: Record) -> Mapping[str, Any] | None:
    figures = record.figures.get("personal") or record.figures.get("parties")
    if not isinstance(figures, Mapping):
        return None
    names = ("mean", "std", "worst", "worst_10_percent")
    return figures if all(isinstance(figures.get(name), int | float) for name in names) else None


def strip(name: str, found: Fairness) -> dict[str, Any]:
    """The points and the box of a strip plot."""
    values = np.array(found.values)
    if not len(values):
        return {"name": name, "values": [], "box": [], "tenth": short(found.worst_tenth.mean)}
    shown = values[thin(len(values))]
    box = np.quantile(values, (0, 0.25, 0.5, 0.75, 1))
    return {
        "name": name,
        "values": [short(float(value)) for value in shown],
        "box": [short(float(value)) for value in box],
        "tenth": short(found.worst_tenth.mean),
    }


def degrees(lines: Sequence[Line]) -> dict[str, Spread]:
    """The degrees of unlikeness over seeds; the partition, and so they, are the same for every algorithm."""
    by_seed = {
        record.seed: record.figures["degrees"]
        for line in lines
        for record in line.finished
        if isinstance(record.figures.get("degrees"), Mapping)
    }
    names = {name for found in by_seed.values() for name in found}
    made = {
        name: spread(float(found[name]) for found in by_seed.values() if isinstance(found.get(name), int | float))
        for name in names
    }
    return {name: value for name, value in made.items() if value is not None}
