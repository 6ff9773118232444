"""Four hospitals that may not share patients: alone, together, and the pooled training that is not allowed.

Every model is judged by the same 185 test patients, a fifth of each hospital's, that no one trains on. The
budget is the same for all: each hospital takes the same number of local steps in a round, alone as together,
and pooled training takes as many steps on batches four times as large, so it sees as many patients.

How the settings were chosen: on validation patients (a fifth of each hospital's training patients, seeds 100
to 104), never on test patients. Of the learning rates 0.01, 0.03 and 0.1, the one with the lowest validation
loss after 30 rounds, averaged over alone, FedAvg and pooled: 0.461, 0.393 and 0.414 with batches of 32 (batches
of 16 gave the same). FedProx's mu of 0.1 and 1 then gave 0.397 and 0.398.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unalike.data import Dataset, load_dataset
from unalike.data.dataset import Array
from unalike.data.heart import FEATURES, HOSPITALS
from unalike.demo.noise import Difference, OverSeeds
from unalike.demo.training import Tick, Trained, curve_of, round_work, train
from unalike.measure.skew import LabelSkew, label_skew
from unalike.partition import make_partition
from unalike.rounds.evaluation import Figures
from unalike.runs.spec import RunSpec

SETTINGS: dict[str, Any] = {
    "dataset": "heart",
    "model": "mlp(16)",
    "steps": 5,
    "batch_size": 32,
    "lr": 0.03,
    "optimiser": "sgd(momentum=0.9)",
    "validation": 0.1,
    "held_out": 0.0,  # the test patients of each hospital take that part
}
TOGETHER = {"FedAvg": "fedavg", "FedProx": "fedprox(mu=0.1)"}
ALONE, NEIGHBOUR, POOLED, ALL = "alone", "neighbour", "pooled", "all"


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
        for name in TOGETHER:
            for better, worse in ((name, NEIGHBOUR), (name, ALONE), (POOLED, name)):
                for place in self.places:
                    yield self.difference(better, worse, place)
        yield self.difference("FedProx", "FedAvg", ALL)


def work(seeds: int, rounds: int) -> int:
    """How much ``tick`` will hear of in all."""
    parties = [1] * (len(HOSPITALS) + 1) + [len(HOSPITALS)] * len(TOGETHER)
    return seeds * rounds * sum(map(round_work, parties))


def compare_hospitals(seeds: tuple[int, ...], rounds: int, tick: Tick) -> Hospitals:
    """Train all methods with all seeds; ``tick`` hears of every round."""
    data = load_dataset("heart")
    own = [only(data, number) for number in range(len(data.group_names))]
    test_hospital = data.group_test
    assert test_hospital is not None
    alone = [[train(spec, f"{name} alone", tick, patients) for spec in specs(ALONE, seeds, rounds)]
             for name, patients in zip(data.group_names, own, strict=True)]  # fmt: skip
    together = {
        name: [train(spec, f"hospitals, {name}", tick) for spec in specs(name, seeds, rounds)]
        for name in (*TOGETHER, POOLED)
    }
    counts = make_partition("natural", data, None, 0).label_counts(data)
    return Hospitals(
        names=data.group_names,
        classes=data.classes,
        counts=counts,
        missing=_missing(data),
        test_hospital=test_hospital,
        majority=data.y_test == counts.argmax(axis=1)[test_hospital],
        methods=_alone(alone, test_hospital) | {name: _shared(runs) for name, runs in together.items()},
        alone_everywhere={name: _accuracy(runs) for name, runs in zip(data.group_names, alone, strict=True)},
        seeds=seeds,
        rounds=rounds,
    )


def specs(method: str, seeds: tuple[int, ...], rounds: int) -> list[RunSpec]:
    """The runs of one method; those of ``alone`` are for the data of one hospital (``only``)."""
    fields: dict[str, Any] = {**SETTINGS, "rounds": rounds}
    if method in TOGETHER:
        fields |= {"partition": "natural", "algorithm": TOGETHER[method]}
    else:
        fields |= {"partition": "iid", "parties": 1}
    if method == POOLED:
        fields["batch_size"] *= len(HOSPITALS)
    if method == ALONE:
        fields["evaluate_every"] = rounds  # four models have no one curve to draw
    return [RunSpec.from_mapping({**fields, "seed": seed}) for seed in seeds]


def only(data: Dataset, hospital: int) -> Dataset:
    """The training patients of one hospital; the test patients stay those of all."""
    assert data.group is not None
    mine = data.group == hospital
    return replace(data, x=data.x[mine], y=data.y[mine], group=None, group_names=())


def _missing(data: Dataset) -> Array:
    """The share of the clinical features that each hospital has no value of."""
    assert data.group is not None
    gaps = [number for number, name in enumerate(data.features) if name.endswith("_missing")]
    per_patient = data.x[:, gaps].sum(axis=1) / len(FEATURES)
    return np.bincount(data.group, weights=per_patient) / np.bincount(data.group)


def _accuracy(runs: list[Trained]) -> OverSeeds:
    return OverSeeds.of(np.array([run.figures["accuracy"] for run in runs]))


def _shared(runs: list[Trained]) -> HospitalsMethod:
    return HospitalsMethod(np.stack([run.right for run in runs]), [curve_of(run.rows) for run in runs])


def _alone(by_hospital: list[list[Trained]], test_hospital: Array) -> dict[str, HospitalsMethod]:
    answers = np.stack([[run.right for run in runs] for runs in by_hospital])  # [hospitals, seeds, patients]
    own = answers[test_hospital, :, np.arange(len(test_hospital))].T
    others = (answers.sum(axis=0) - own) / (len(answers) - 1)
    return {NEIGHBOUR: HospitalsMethod(others, []), ALONE: HospitalsMethod(own, [])}
