"""SCAFFOLD as NIID-Bench's public code writes it, on our splits: does that explain its numbers on adult?

python -m benchmarks.niid_scaffold --partition "label-count(1)" --seed 0

It differs from the paper's Algorithm 2 and from ours in where the correction enters: lr (c - c_i) is subtracted
after the optimiser's step, so momentum never sees it, while c_i comes from what momentum did. (That code also
starts c and all c_i at the same random weights, which cancel when all parties take part.) Takes 5 to 10 minutes.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from unalike.models import MODELS
from unalike.runs.build import build_federation, net_maker
from unalike.runs.spec import RunSpec

WEIGHT_DECAY = 1e-5  # that code's default
SETTING: dict[str, Any] = {
    "model": "mlp(32,16,8)",
    "rounds": 50,
    "epochs": 10,
    "batch_size": 64,
    "lr": 0.01,
    "validation": 0.0,
    "held_out": 0.0,
}  # the paper's


def play(spec: RunSpec) -> None:
    """Print accuracy, and how often the second class is answered, every ten rounds."""
    federation = build_federation(spec)
    net = net_maker(spec, MODELS.build(str(spec.model)), federation.dataset)()
    parameters = list(net.parameters())
    x, y = federation.train.take(torch.arange(len(federation.train)))
    x_test, y_test = federation.test.take(torch.arange(len(federation.test)))
    shapes = [p.shape for p in parameters]

    def put(w: torch.Tensor) -> None:
        torch.nn.utils.vector_to_parameters(w, parameters)

    def pieces(w: torch.Tensor) -> list[torch.Tensor]:
        parts = torch.split(w, [shape.numel() for shape in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    torch.manual_seed(spec.seed)
    w = federation.task.initial().clone()
    rows = [torch.from_numpy(np.asarray(own)) for own in federation.partition.rows]
    c, own_c = torch.zeros_like(w), [torch.zeros_like(w) for _ in rows]
    total = sum(len(own) for own in rows)
    for number in range(1, spec.rounds + 1):
        mean, change = torch.zeros_like(w), torch.zeros_like(w)
        for k, own in enumerate(rows):
            put(w)
            optimiser = torch.optim.SGD(parameters, lr=spec.lr, momentum=0.9, weight_decay=WEIGHT_DECAY)
            correction, steps = pieces(c - own_c[k]), 0
            for _ in range(spec.epochs or 1):
                for batch in torch.split(own[torch.randperm(len(own))], spec.batch_size):
                    optimiser.zero_grad()
                    functional.cross_entropy(net(x[batch])[0], y[batch]).backward()  # type: ignore[no-untyped-call]
                    optimiser.step()
                    steps += 1
                    with torch.no_grad():
                        for parameter, part in zip(parameters, correction, strict=True):
                            parameter.sub_(part, alpha=spec.lr)
            local = torch.nn.utils.parameters_to_vector(parameters).detach()
            new_c = own_c[k] - c + (w - local) / (steps * spec.lr)
            change += (new_c - own_c[k]) / len(rows)
            own_c[k] = new_c
            mean += local * (len(own) / total)
        w, c = mean, c + change
        put(w)
        with torch.no_grad():
            answers = net(x_test)[0].argmax(dim=1)
        if number % 10 == 0 or number <= 3:
            accuracy, second = (answers == y_test).float().mean(), (answers == 1).float().mean()
            print(f"round {number}: accuracy {accuracy:.1%}, second class answered {second:.1%}", flush=True)


def main() -> None:
    """Read the options and play."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--partition", default="label-dirichlet(0.5)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    play(RunSpec(dataset="adult", partition=given.partition, seed=given.seed, **SETTING))


if __name__ == "__main__":
    main()
