"""Handwritten digits at parties that each have a few of the ten: one model for all, own models, or both.

Every party is tried on the test images of its own digits, with the model that it has. All take the same number of
local steps in a round; Ditto trains two models, and so takes twice as many.

How the settings were chosen: on validation images (a fifth of each party's, seeds 100 to 102), never on test
images. With two digits a party, the learning rates 0.05, 0.1 and 0.2 had a validation loss of 0.151, 0.113 and
0.114 after 30 rounds, averaged over alone, FedAvg and Ditto. With five digits a party and a rate of 0.1, Ditto's
lam of 0.03 and 0.1 then gave 0.111 and 0.099. That parties have something to learn from each other with five
digits, and hardly anything with two, was seen there too, and is why both are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unalike.data import load_dataset
from unalike.data.dataset import Array
from unalike.demo.hospitals import ALONE, FEDAVG, OWN
from unalike.demo.noise import Difference, OverSeeds
from unalike.demo.training import Tick, Trained, curve_of, round_work, train
from unalike.measure.skew import LabelSkew, label_skew
from unalike.partition import make_partition
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec
from unalike.scores import Figures

PARTIES = 20
SPLITS = {"five digits": "label-count(5)", "two digits": "label-count(2)"}
FIVE, TWO = SPLITS
SETTINGS: dict[str, Any] = {
    "dataset": "digits",
    "parties": PARTIES,
    "model": "mlp(32)",
    "steps": 10,
    "batch_size": 32,
    "lr": 0.1,
    "optimiser": "sgd(momentum=0.9)",
    "validation": 0.1,
    "held_out": 0.0,  # test images of its own digits take that part
    "test_by": "labels",
}
METHODS = {ALONE: "local", FEDAVG: "fedavg", OWN: "ditto(lam=0.1)"}


@dataclass(frozen=True, eq=False)
class DigitsMethod:
    """One way to train, over the seeds.

    ``right`` is a [seeds, test images] table: do the parties that have images of this digit get it right? Its mean
    is their share of right answers. ``worst`` is the mean over the worst tenth of the parties.
    """

    right: Array
    worst: OverSeeds
    curves: list[list[Figures]]
    """Of the split that is drawn, by seed and round."""

    @property
    def accuracy(self) -> OverSeeds:
        """The share of right answers."""
        return OverSeeds.of(self.right.mean(axis=1))


@dataclass(frozen=True, eq=False)
class UnevenDigits:
    """What the second part of the demonstration found; counts are those of the first seed, five digits each."""

    names: tuple[str, ...]
    classes: tuple[str, ...]
    counts: Array
    methods: dict[str, dict[str, DigitsMethod]]
    """By split and method."""
    seeds: tuple[int, ...]
    rounds: int

    @property
    def skew(self) -> LabelSkew:
        """How unalike the parties' labels are."""
        return label_skew(self.counts)

    def difference(self, better: str, worse: str, split: str) -> Difference:
        """How much more often one method is right than another on the same test images."""
        found = self.methods[split]
        return Difference.of(better, worse, split, found[better].right, found[worse].right)

    def differences(self) -> Iterator[Difference]:
        """Every comparison that the text or the picture may speak of."""
        for split in SPLITS:
            for better, worse in ((FEDAVG, ALONE), (OWN, FEDAVG), (OWN, ALONE)):
                yield self.difference(better, worse, split)


def work(seeds: int, rounds: int) -> int:
    """How much ``tick`` will hear of in all."""
    return seeds * rounds * len(SPLITS) * len(METHODS) * round_work(PARTIES)


def compare_digits(seeds: tuple[int, ...], rounds: int, tick: Tick) -> UnevenDigits:
    """Train all methods with all seeds; ``tick`` hears of every round."""
    data = load_dataset("digits")
    partition = make_partition(SPLITS[FIVE], data, PARTIES, seeds[0])
    methods = {split: {name: _method(split, name, seeds, rounds, tick) for name in METHODS} for split in SPLITS}
    return UnevenDigits(tuple(partition.names), data.classes, partition.label_counts(data), methods, seeds, rounds)


def specs(split: str, method: str, seeds: tuple[int, ...], rounds: int) -> list[RunSpec]:
    """The runs of one method; their own evaluation is left to the last round, as ``train`` looks at every one."""
    fields = {**SETTINGS, "partition": SPLITS[split], "algorithm": METHODS[method], "rounds": rounds}
    return [RunSpec.from_mapping({**fields, "evaluate_every": rounds, "seed": seed}) for seed in seeds]


def _method(split: str, name: str, seeds: tuple[int, ...], rounds: int, tick: Tick) -> DigitsMethod:
    runs: list[Trained] = [
        train(spec, f"{split}, {name}", tick, _own_digits, curve=split == FIVE)
        for spec in specs(split, name, seeds, rounds)
    ]
    return DigitsMethod(
        right=np.stack([run.right[-1] for run in runs]),
        worst=OverSeeds.of(np.array([run.worst_tenth for run in runs])),
        curves=[curve_of(run) for run in runs] if split == FIVE else [],
    )


def _own_digits(simulation: Simulation) -> list[Array]:
    return simulation.federation.test_by_labels
