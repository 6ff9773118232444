"""Rows trained per CPU-second: our engines against a plain PyTorch loop on the same work, in the same run.

make bench                                   # prints the table
python -m benchmarks.engines --sizes         # how large a net may be stacked: the rule of `--engine auto`
"""

from __future__ import annotations

import argparse
import copy
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.work import BATCH, LR, MOMENTUM, Workload, interleave, machine, train
from unalike.engine.compiled import Compiled
from unalike.engine.federation import Federation
from unalike.engine.sequential import Sequential
from unalike.engine.vectorised import Vectorised
from unalike.models import MODELS

OURS = ("sequential", "vectorised", "compiled")
TABLE = Workload("MLP, adult's shape", (123,), 2, "mlp(32,16,8)", 10, 3_256)
WORK = [
    TABLE,
    Workload("MLP, 100 parties", (123,), 2, "mlp(32,16,8)", 100, 512),
    Workload("simple-cnn, CIFAR's shape", (3, 32, 32), 10, "simple-cnn", 10, 256),
    Workload("simple-cnn, MNIST's shape", (1, 28, 28), 10, "simple-cnn", 10, 256),
    Workload("MLP, covtype's shape", (54,), 7, "mlp(32,16,8)", 10, 3_256),
    Workload("fedavg-cnn, MNIST's shape", (1, 28, 28), 10, "fedavg-cnn", 4, 64),
]
NETS = [(20, "16"), (123, "32,16,8"), (123, "100"), (200, "100,50"), (400, "100"), (784, "100"), (784, "200")]
NETS += [(784, "200,200"), (784, "500")]
SIZES = [
    Workload(f"mlp({hidden}) on {features} features", (features,), 10, f"mlp({hidden})", 10, 512)
    for features, hidden in NETS
]


def plain_loop(federation: Federation, workload: Workload) -> None:
    """What everybody writes: a copy of the net for each party, a DataLoader, torch.optim."""
    torch.manual_seed(0)
    net = MODELS.build(workload.model).build(workload.shape, workload.classes)
    x = torch.from_numpy(federation.dataset.x)
    y = torch.from_numpy(federation.dataset.y)
    total = [torch.zeros_like(p) for p in net.parameters()]
    for rows in federation.partition.rows:
        local: nn.Module = copy.deepcopy(net)
        optimiser = torch.optim.SGD(local.parameters(), lr=LR, momentum=MOMENTUM)
        loader = DataLoader(
            TensorDataset(x[rows[0] : rows[-1] + 1], y[rows[0] : rows[-1] + 1]), BATCH, shuffle=True
        )
        for batch, labels in loader:
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(local(batch)[0], labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        for sum_, parameter in zip(total, local.parameters(), strict=True):
            sum_ += len(rows) * parameter.detach()


def measure(workload: Workload, repeats: int) -> dict[str, float]:
    """Rows per CPU-second of every contender."""
    federation = workload.federation()
    compiled = Compiled.of(federation.task, workload.shape, 1, lambda line: print(line, file=sys.stderr))
    return interleave(
        {
            "plain loop": lambda: plain_loop(federation, workload),
            "sequential": lambda: train(federation, Sequential()),
            "vectorised": lambda: train(federation, Vectorised()),
            "compiled": lambda: train(federation, compiled),
        },
        len(federation.train),
        repeats,
    )


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--sizes", action="store_true", help="sweep the size of the net instead")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"Rows trained per CPU-second, one thread, median of {options.repeats} interleaved turns; {machine()}.\n"
    )
    ratios = " | ".join(f"{name} / plain" for name in OURS)
    print(f"| work | weights | plain loop | {' | '.join(OURS)} | {ratios} |")
    print("|---" * (3 + 2 * len(OURS)) + "|")
    for workload in SIZES if options.sizes else WORK:
        rate = measure(workload, options.repeats)
        plain = rate["plain loop"]
        cells = [
            workload.name,
            f"{workload.federation().task.size:,}",
            *(f"{value:,.0f}" for value in rate.values()),
        ]
        cells += [f"{rate[engine] / plain:.2f}" for engine in OURS]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
