"""Handwritten digits split so unevenly that most parties lack most digits, against the same digits dealt evenly.

How the settings were chosen: on the parties' validation rows (seeds 100 to 102), never on test rows. Of the
learning rates 0.01, 0.03, 0.1, 0.2 and 0.4 with 5 or 10 local steps, the pair with the lowest validation loss
after 30 rounds, averaged over the three ways to train: 0.2 and 10 steps, 0.165 (with as many steps 0.196 for 0.1
and 0.386 for 0.4). FedProx's mu of 0.1 and 1 then gave 0.195 and 0.700.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unalike.data import load_dataset
from unalike.data.dataset import Array
from unalike.demo.noise import Difference, OverSeeds
from unalike.demo.training import Tick, curve_of, round_work, train
from unalike.measure.skew import LabelSkew, label_skew
from unalike.partition import make_partition
from unalike.rounds.evaluation import Figures
from unalike.runs.spec import RunSpec

PARTIES = 10
UNEVEN = "label-dirichlet(0.1)"
SETTINGS: dict[str, Any] = {
    "dataset": "digits",
    "parties": PARTIES,
    "model": "mlp(32)",
    "steps": 10,
    "batch_size": 32,
    "lr": 0.2,
    "optimiser": "sgd(momentum=0.9)",
    "validation": 0.1,
    "held_out": 0.2,  # small parties need more than a tenth for a figure of their own
}
REFERENCE = "even split, FedAvg"
METHODS: dict[str, dict[str, Any]] = {
    REFERENCE: {"partition": "iid", "algorithm": "fedavg"},
    "FedAvg": {"partition": UNEVEN, "algorithm": "fedavg"},
    "FedProx": {"partition": UNEVEN, "algorithm": "fedprox(mu=0.1)"},
}


@dataclass(frozen=True, eq=False)
class DigitsMethod:
    """One way to train, over the seeds; ``right`` is a [seeds, test rows] table."""

    right: Array
    accuracy: OverSeeds
    worst: OverSeeds
    parties: OverSeeds
    curves: list[list[Figures]]


@dataclass(frozen=True, eq=False)
class UnevenDigits:
    """What the second part of the demonstration found; counts are those of the first seed's partition."""

    names: tuple[str, ...]
    classes: tuple[str, ...]
    counts: Array
    methods: dict[str, DigitsMethod]
    seeds: tuple[int, ...]
    rounds: int

    @property
    def skew(self) -> LabelSkew:
        """How unalike the parties' labels are."""
        return label_skew(self.counts)

    def difference(self, better: str, worse: str) -> Difference:
        """How much more often one method is right than another on the same test rows."""
        return Difference.of(better, worse, "test", self.methods[better].right, self.methods[worse].right)

    def differences(self) -> Iterator[Difference]:
        """Every comparison that the text or the picture may speak of."""
        for better, worse in ((REFERENCE, "FedAvg"), (REFERENCE, "FedProx"), ("FedProx", "FedAvg")):
            yield self.difference(better, worse)


def work(seeds: int, rounds: int) -> int:
    """How much ``tick`` will hear of in all."""
    return seeds * rounds * len(METHODS) * round_work(PARTIES)


def compare_digits(seeds: tuple[int, ...], rounds: int, tick: Tick) -> UnevenDigits:
    """Train all methods with all seeds; ``tick`` hears of every round."""
    data = load_dataset("digits")
    partition = make_partition(UNEVEN, data, PARTIES, seeds[0])
    methods = {name: _method(name, seeds, rounds, tick) for name in METHODS}
    return UnevenDigits(partition.names, data.classes, partition.label_counts(data), methods, seeds, rounds)


def specs(method: str, seeds: tuple[int, ...], rounds: int) -> list[RunSpec]:
    """The runs of one method."""
    return [
        RunSpec.from_mapping({**SETTINGS, **METHODS[method], "rounds": rounds, "seed": seed}) for seed in seeds
    ]


def _method(name: str, seeds: tuple[int, ...], rounds: int, tick: Tick) -> DigitsMethod:
    runs = [train(spec, f"digits, {name}", tick) for spec in specs(name, seeds, rounds)]

    def score(pick: Any) -> OverSeeds:
        return OverSeeds.of(np.array([pick(run.figures) for run in runs]))

    return DigitsMethod(
        right=np.stack([run.right for run in runs]),
        accuracy=score(lambda figures: figures["accuracy"]),
        worst=score(lambda figures: figures["parties"]["worst"]),
        parties=score(lambda figures: figures["parties"]["mean"]),
        curves=[curve_of(run.rows) for run in runs],
    )
