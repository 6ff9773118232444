"""CPU time of a round of histogram trees with ten parties in simulation, beside one party with all rows.

python -m benchmarks.tree_parties                  # adult and covtype, which are downloaded: a Markdown table
python -m benchmarks.tree_parties --only adult --rounds 40

All grow the same trees from the same cuts, one each in turn, on one thread (OMP_NUM_THREADS=1). Inside the clock:
of a simulation a whole round (what roles keep, traffic, checks) without evaluation; of the core alone, on the
pooled rows, derivatives, growth and new margins.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from statistics import median

import numpy as np

from unalike import RunSpec
from unalike.algorithms.protocol import SERVER
from unalike.algorithms.trees.own_rows import training_bins, training_labels
from unalike.runs.cast import arrays_of
from unalike.runs.conversing import Conversing
from unalike.runs.meaning import protocol_of
from unalike.trees.grow import grow
from unalike.trees.objective import objective_of

CASES = ("adult", "covtype")
UNTIMED = 3
"""Rounds at first that warm up."""
SPEC = RunSpec(
    partition="label-dirichlet(0.1)",
    parties=10,
    model="trees(depth=6)",
    algorithm="histogram",
    validation=0.0,
    held_out=0.0,
    evaluate_every=10**6,
)


def begun(spec: RunSpec) -> Conversing:
    """The simulation after its first round, which also agrees on cuts."""
    protocol = protocol_of(spec.algorithm, str(spec.model))
    assert protocol is not None
    played = Conversing(spec, protocol, say=lambda line: None)
    played.state, _ = played.play_round()
    return played


def measure(name: str, rounds: int) -> list[float]:
    """The median milliseconds of a round of ten parties, of one of one party, and of the trees of all rows."""
    spec = replace(SPEC, dataset=name, rounds=rounds + 2)
    played, alone = begun(spec), begun(replace(spec, partition="iid", parties=1))
    me, kept = played.roles[0], arrays_of(played.state)[0]
    binned, y, settings = training_bins(me, kept), training_labels(me), me.terms.model
    objective, margins = objective_of(settings, me.terms.classes), kept["margins"].copy()
    times: tuple[list[float], ...] = ([], [], [])
    values: list[np.ndarray] = []
    for _ in range(rounds):
        began = time.process_time()
        g, h = objective.gradients(margins, y)
        trees = [grow(binned, g[k], h[k], settings, margins=margins[:, k]) for k in range(len(g))]
        times[2].append(time.process_time() - began)
        values.extend(tree.value for tree in trees)
        for run, taken in zip((played, alone), times, strict=False):
            began = time.process_time()
            run.state, _ = run.play_round()
            taken.append(time.process_time() - began)
    for run in (played, alone):
        assert np.array_equal(arrays_of(run.state)[SERVER]["value"][: len(values)], values)
    return [1000 * median(taken[UNTIMED:]) for taken in times]


def main() -> None:
    """Print a row for each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--rounds", type=int, default=40)
    chosen = parser.parse_args()
    print("| CPU ms | a round of ten parties | of one | ratio | the core alone | ratio |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in [chosen.only] if chosen.only else CASES:
        ten, one, core = measure(name, chosen.rounds)
        print(f"| {name} | {ten:.2f} | {one:.2f} | {ten / one:.2f} | {core:.2f} | {ten / core:.2f} |", flush=True)


if __name__ == "__main__":
    main()
