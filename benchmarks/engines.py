"""Local training alone: our engines against a loop with DataLoaders, by the kind and the size of the net.

make bench                                   # with the other tables, written into docs/performance.md
python -m benchmarks.engines --sizes         # how large a net may be stacked: the rule of `--engine auto`
"""

from __future__ import annotations

import copy
import dataclasses
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.report import made, options, publish, table
from benchmarks.work import federation, interleave, plain_net, train
from benchmarks.workload import LR, MOMENTUM, Workload
from unalike.engines.compiled.engine import Compiled, kernel_of
from unalike.engines.sequential import Sequential
from unalike.engines.vectorised import Vectorised
from unalike.rounds.federation import Federation

OURS = ("sequential", "vectorised", "compiled")
WORK = [
    Workload("MLP, adult's shape", (123,), 2, "mlp(32,16,8)", 10, 3_256),
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


def data_loaders(net: nn.Module, parties: Federation, workload: Workload) -> None:
    """What everybody writes: a copy of the net for each party, a DataLoader, torch.optim."""
    x = torch.from_numpy(parties.dataset.x)
    y = torch.from_numpy(parties.dataset.y)
    total = [torch.zeros_like(p) for p in net.parameters()]
    for rows in parties.partition.rows:
        local: nn.Module = copy.deepcopy(net)
        optimiser = torch.optim.SGD(local.parameters(), lr=LR, momentum=MOMENTUM)
        own = slice(rows[0], rows[-1] + 1)
        for batch, labels in DataLoader(TensorDataset(x[own], y[own]), workload.batch, shuffle=True):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(local(batch), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        for sum_, parameter in zip(total, local.parameters(), strict=True):
            sum_ += len(rows) * parameter.detach()


def measure(workload: Workload, repeats: int) -> list[str]:
    """A line of the table: weights, rows per CPU-second of every contender, and ratios."""
    parties, net = federation(workload), plain_net(workload)
    compiled = Compiled(kernel_of(parties.task, workload.shape, lambda line: print(line, file=sys.stderr)))
    rate = interleave(
        {
            "loop": lambda: data_loaders(net, parties, workload),
            "sequential": lambda: train(parties, Sequential(), workload.batch),
            "vectorised": lambda: train(parties, Vectorised(), workload.batch),
            "compiled": lambda: train(parties, compiled, workload.batch),
        },
        workload.trained,
        repeats,
    )
    print(f"{workload.name}: done", file=sys.stderr, flush=True)
    ratios = [f"{rate[engine] / rate['loop']:.2f}" for engine in OURS]
    return [workload.name, f"{parties.task.size:,}", *(f"{value:,.0f}" for value in rate.values()), *ratios]


def main() -> None:
    """Measure, print, and write."""
    parser = options(__doc__, repeats=7)
    parser.add_argument("--sizes", action="store_true", help="sweep the size of the net instead")
    given = parser.parse_args()
    torch.set_num_threads(1)
    chosen = SIZES if given.sizes else WORK
    if given.quick:
        chosen = [dataclasses.replace(w, parties=min(w.parties, 10), rows=64) for w in chosen]
    head = ["work", "weights", "loop", *OURS, *(f"{name} / loop" for name in OURS)]
    text = f"Rows trained per CPU-second, one thread, medians of {given.repeats} interleaved turns.\n{made()}"
    rows = [measure(workload, given.repeats) for workload in chosen]
    publish("sizes" if given.sizes else "engines", f"{text}\n\n{table(head, rows)}", given)


if __name__ == "__main__":
    main()
