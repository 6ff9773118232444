"""The demonstration: hospitals and digits, all figures in one object."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from unalike.demo import hospitals, uneven_digits
from unalike.demo.hospitals import Hospitals, compare_hospitals
from unalike.demo.noise import Difference
from unalike.demo.reading import read_digits, read_hospitals
from unalike.demo.training import Tick
from unalike.demo.uneven_digits import UnevenDigits, compare_digits


@dataclass(frozen=True)
class Length:
    """How long the demonstration trains: with which seeds, for how many rounds."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    rounds: int = 30

    @property
    def work(self) -> int:
        """The sum of what ``tick`` will hear of."""
        size = len(self.seeds), self.rounds
        return hospitals.work(*size) + uneven_digits.work(*size)


FULL = Length()
QUICK = Length((0, 1), 8)
"""For a first look and for tests: too short to compare anything."""


@dataclass(frozen=True, eq=False)
class Demonstration:
    """What ``unalike demo`` has trained: the four hospitals, and the digits at uneven parties."""

    plan: Length
    hospitals: Hospitals
    digits: UnevenDigits

    def to_dict(self) -> dict[str, Any]:
        """All figures, ready for JSON; the same plan gives the same ones."""
        plan = {"seeds": list(self.plan.seeds), "rounds": self.plan.rounds}
        return {"plan": plan, "hospitals": _hospitals(self.hospitals), "digits": _digits(self.digits)}


def demonstrate(plan: Length, tick: Tick) -> Demonstration:
    """Train everything that the demonstration shows."""
    return Demonstration(
        plan, compare_hospitals(plan.seeds, plan.rounds, tick), compare_digits(plan.seeds, plan.rounds, tick)
    )


def _hospitals(found: Hospitals) -> dict[str, Any]:
    skew = found.skew
    parties = [
        {
            "name": name,
            "patients": int(counts.sum()),
            "test_patients": int(found.tested(name).sum()),
            "label_counts": dict(zip(found.classes, counts.tolist(), strict=True)),
            "disease": float(counts[1] / counts.sum()),
            "missing": float(found.missing[number]),
            "entropy": float(skew.entropy[number]),
            "total_variation": float(skew.total_variation[number]),
            "own_model_everywhere": asdict(found.alone_everywhere[name]),
        }
        for number, (name, counts) in enumerate(zip(found.names, found.counts, strict=True))
    ]
    return {
        "settings": hospitals.SETTINGS,
        "parties": parties,
        "skew": _skew(found),
        "commoner_answer": {place: found.guess(place) for place in found.places},
        "methods": {
            name: {
                "accuracy": {place: asdict(found.score(name, place)) for place in found.places},
                "curves": method.curves,
            }
            for name, method in found.methods.items()
        },
        "differences": [_difference(gap) for gap in found.differences()],
        "reading": read_hospitals(found),
    }


def _digits(found: UnevenDigits) -> dict[str, Any]:
    return {
        "settings": uneven_digits.SETTINGS,
        "parties": [
            {"name": name, "label_counts": dict(zip(found.classes, counts.tolist(), strict=True))}
            for name, counts in zip(found.names, found.counts, strict=True)
        ],
        "skew": _skew(found),
        "methods": {
            split: {
                name: {
                    "partition": uneven_digits.SPLITS[split],
                    "algorithm": uneven_digits.METHODS[name],
                    "accuracy": asdict(method.accuracy),
                    "worst_tenth": asdict(method.worst),
                    "curves": method.curves,
                }
                for name, method in methods.items()
            }
            for split, methods in found.methods.items()
        },
        "differences": [_difference(gap) for gap in found.differences()],
        "reading": read_digits(found),
    }


def _skew(found: Hospitals | UnevenDigits) -> dict[str, float]:
    skew = found.skew
    return {name: getattr(skew, name) for name in ("jensen_shannon", "hellinger", "quantity_imbalance")}


def _difference(gap: Difference) -> dict[str, Any]:
    return {**asdict(gap), "beyond_noise": gap.beyond_noise}
