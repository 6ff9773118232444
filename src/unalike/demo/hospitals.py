"""Four hospitals that may not share patients: alone, together, both, and the pooled training that is not allowed.

Every model is judged by the same 185 test patients, a fifth of each hospital's, that no one trains on, each by the
model that the patient's own hospital has. The budget is the same for all: each hospital takes the same number of
local steps in a round, alone as together, and pooled training takes as many steps on batches four times as large,
so it sees as many patients. Only Ditto takes twice the steps, as it trains two models at each hospital: the
shared one as FedAvg does, and one of the hospital's own that is held near it.

How the settings were chosen: on validation patients (a fifth of each hospital's training patients, seeds 100 to
104), never on test patients. Of the learning rates 0.01, 0.03 and 0.1, the one with the lowest validation loss
after 30 rounds, averaged over alone, FedAvg and pooled: 0.474, 0.402 and 0.420. Ditto's lam of 0.1 and 1 then gave
0.391 and 0.386. Ditto itself was chosen beforehand, as a plain method with a shared model and one of one's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unalike.data import Dataset, load_dataset
from unalike.data.dataset import Array
from unalike.data.heart import FEATURES, HOSPITALS
from unalike.demo.noise import Difference, OverSeeds
from unalike.demo.training import Tick, Trained, curve_of, round_work, train
from unalike.measure.skew import LabelSkew, label_skew
from unalike.partition import make_partition
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec
from unalike.scores import Figures

SETTINGS: dict[str, Any] = {
    "dataset": "heart",
    "model": "mlp(16)",
    "steps": 5,
    "batch_size": 32,
    "lr": 0.03,
    "optimiser": "sgd(momentum=0.9)",
    "validation": 0.1,
    "held_out": 0.0,  # the test patients of each hospital take that part
    "partition": "natural",
}
ALONE, NEIGHBOUR, FEDAVG, OWN, POOLED, ALL = "alone", "neighbour", "FedAvg", "Ditto", "pooled", "all"
METHODS = {ALONE: "local", FEDAVG: "fedavg", OWN: "ditto(lam=1.0)", POOLED: "fedavg"}


@dataclass(frozen=True, eq=False)
class HospitalsMethod:
    """One way to get a model, over the seeds.

    ``right`` is a [seeds, patients] table: does each test patient's own hospital, with the model that it has
    under this method, get the patient right? Under ``neighbour`` each hospital uses the models that the other
    three trained alone, and the table holds the share of them that are right.
    """

    right: Array
    curves: list[list[Figures]]


@dataclass(frozen=True, eq=False)
class Hospitals:
    """What the first part of the demonstration found."""

    names: tuple[str, ...]
    classes: tuple[str, ...]
    counts: Array
    missing: Array
    test_hospital: Array
    majority: Array
    methods: dict[str, HospitalsMethod]
    alone_everywhere: dict[str, OverSeeds]
    """The accuracy of each hospital's own model on the test patients of all."""
    seeds: tuple[int, ...]
    rounds: int

    @property
    def skew(self) -> LabelSkew:
        """How unalike the hospitals' labels are."""
        return label_skew(self.counts)

    @property
    def places(self) -> tuple[str, ...]:
        """The hospitals, and all together."""
        return (*self.names, ALL)

    def tested(self, place: str) -> Array:
        """Which test patients belong to a hospital, or to all."""
        if place == ALL:
            return np.ones(len(self.test_hospital), bool)
        mine: Array = self.test_hospital == self.names.index(place)
        return mine

    def score(self, method: str, place: str) -> OverSeeds:
        """The accuracy on the test patients of ``place``, each judged by their own hospital's model."""
        return OverSeeds.of(self.methods[method].right[:, self.tested(place)].mean(axis=1))

    def guess(self, place: str) -> float:
        """The accuracy of a hospital that tells everyone what most of its training patients have."""
        return float(self.majority[self.tested(place)].mean())

    def difference(self, better: str, worse: str, place: str) -> Difference:
        """How much more often one method is right than another on the same patients."""
        chosen = self.tested(place)
        right, other = (self.methods[name].right[:, chosen] for name in (better, worse))
        return Difference.of(better, worse, place, right, other)

    def differences(self) -> Iterator[Difference]:
        """Every comparison that the text or the picture may speak of."""
        pairs = ((FEDAVG, NEIGHBOUR), (FEDAVG, ALONE), (OWN, ALONE), (OWN, FEDAVG), (POOLED, FEDAVG))
        for better, worse in pairs:
            for place in self.places:
                yield self.difference(better, worse, place)


def work(seeds: int, rounds: int) -> int:
    """How much ``tick`` will hear of in all."""
    parties = [1 if method == POOLED else len(HOSPITALS) for method in METHODS]
    return seeds * rounds * sum(map(round_work, parties))


def compare_hospitals(seeds: tuple[int, ...], rounds: int, tick: Tick) -> Hospitals:
    """Train all methods with all seeds; ``tick`` hears of every round."""
    data = load_dataset("heart")
    test_hospital = data.group_test
    assert test_hospital is not None
    runs = {
        name: [train(spec, f"hospitals, {name}", tick, _own_patients) for spec in specs(name, seeds, rounds)]
        for name in METHODS
    }
    counts = make_partition("natural", data, None, 0).label_counts(data)
    return Hospitals(
        names=data.group_names,
        classes=data.classes,
        counts=counts,
        missing=_missing(data),
        test_hospital=test_hospital,
        majority=data.y_test == counts.argmax(axis=1)[test_hospital],
        methods={NEIGHBOUR: _neighbour(runs[ALONE])} | {name: _method(found) for name, found in runs.items()},
        alone_everywhere={
            name: OverSeeds.of(np.array([run.answers[number].mean() for run in runs[ALONE]]))
            for number, name in enumerate(data.group_names)
        },
        seeds=seeds,
        rounds=rounds,
    )


def specs(method: str, seeds: tuple[int, ...], rounds: int) -> list[RunSpec]:
    """The runs of one method; their own evaluation is left to the last round, as ``train`` looks at every one."""
    fields = {**SETTINGS, "rounds": rounds, "evaluate_every": rounds, "algorithm": METHODS[method]}
    if method == POOLED:
        fields |= {"partition": "iid", "parties": 1, "batch_size": fields["batch_size"] * len(HOSPITALS)}
    return [RunSpec.from_mapping({**fields, "seed": seed}) for seed in seeds]


def _own_patients(simulation: Simulation) -> list[Array]:
    hospital = simulation.federation.dataset.group_test
    return [np.flatnonzero(hospital == number) for number in range(len(HOSPITALS))]


def _missing(data: Dataset) -> Array:
    """The share of the clinical features that each hospital has no value of."""
    assert data.group is not None
    gaps = [number for number, name in enumerate(data.features) if name.endswith("_missing")]
    per_patient = data.x[:, gaps].sum(axis=1) / len(FEATURES)
    return np.bincount(data.group, weights=per_patient) / np.bincount(data.group)


def _method(runs: list[Trained]) -> HospitalsMethod:
    return HospitalsMethod(np.stack([run.right[-1] for run in runs]), [curve_of(run) for run in runs])


def _neighbour(alone: list[Trained]) -> HospitalsMethod:
    """For each patient the share of the other three hospitals' own models that are right."""
    others = [(run.answers.sum(axis=0) - run.right[-1]) / (len(run.answers) - 1) for run in alone]
    return HospitalsMethod(np.stack(others), [])
