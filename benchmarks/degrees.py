"""What a degree means: measured degrees of label-dirichlet(beta) beside the accuracy that FedAvg loses to them.

python -m benchmarks.degrees              # digits, 10 parties; prints a Markdown table

Accuracy lost is that of the random split less that of the skewed one, with the same seed, after the same rounds.
The weight divergence (Zhao et al. 2018) is that of FedAvg's weights to those trained on all rows in one place.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from torch import Tensor

from unalike.data import load_dataset
from unalike.measure import FederationDegrees, measure, party_labels
from unalike.partition import make_partition
from unalike.rounds.divergence import weight_divergence
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

BETAS = (0.05, 0.1, 0.3, 0.5, 1, 5, 100)
SETTING: dict[str, Any] = {
    "dataset": "digits",
    "model": "mlp(32)",
    "steps": 30,
    "batch_size": 32,
    "optimiser": "sgd(momentum=0.9)",
    "lr": 0.03,
    "held_out": 0.0,
    "evaluate_every": 10**6,
}  # 30 local steps, so that parties drift apart within a few rounds


def degrees(partition: str, parties: int, seeds: Sequence[int]) -> list[FederationDegrees]:
    """The federation's figures with each seed; none is the mode, as all give the same numbers."""
    data = load_dataset("digits")
    found = (party_labels(data, make_partition(partition, data, parties, seed)) for seed in seeds)
    return [measure(labels, protect="none").federation for labels in found]


def train(partition: str, parties: int, rounds: int, seed: int) -> tuple[float, Tensor]:
    """The final accuracy on the global test set, and the final weights."""
    fields = {**SETTING, "partition": partition, "parties": parties, "rounds": rounds, "seed": seed}
    simulation = Simulation(RunSpec.from_mapping(fields))
    row: dict[str, Any] = {}
    while simulation.state.round < rounds:
        simulation.state, row = simulation.play_round()
    return float(row["accuracy"]), simulation.state.server["w"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--parties", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3, help="of training")
    parser.add_argument("--measured", type=int, default=20, help="seeds of measuring")
    options = parser.parse_args()
    seeds = range(options.seeds)
    even = [train("iid", options.parties, options.rounds, seed) for seed in seeds]
    alone = [train("iid", 1, options.rounds, seed)[1] for seed in seeds]
    print(f"digits, {options.parties} parties, {options.rounds} rounds. Accuracy of the random split: "
          f"{fmean(accuracy for accuracy, _ in even):.1%}.\n")  # fmt: skip
    print("| partition | TV | worst TV | K-S | area | CvM | quantity | accuracy lost | weight divergence |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for text in (*(f"label-dirichlet({beta})" for beta in BETAS), "iid"):
        found = degrees(text, options.parties, range(options.measured))
        runs = even if text == "iid" else [train(text, options.parties, options.rounds, seed) for seed in seeds]
        lost = [100 * (best - accuracy) for (best, _), (accuracy, _) in zip(even, runs, strict=True)]
        apart = fmean(weight_divergence(w, one) for (_, w), one in zip(runs, alone, strict=True))
        variation = (
            [one.mean.total_variation for one in found],
            [one.worst.total_variation for one in found if one.worst],
        )
        names = ("kolmogorov_smirnov", "area", "cramer_von_mises")
        ordered = ([getattr(one.mean, name) for one in found] for name in names)
        cells = [f"{fmean(each):.3f}" for each in (*variation, *ordered, [one.quantity for one in found])]
        spread = f" ± {stdev(lost):.1f}" if len(lost) > 1 else ""
        print(f"| `{text}` | {' | '.join(cells)} | {fmean(lost):.1f}{spread} | {apart:.2f} |")


if __name__ == "__main__":
    main()
