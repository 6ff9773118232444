"""SCAFFOLD (option ii) as a plain PyTorch loop that shares nothing with ours but the reader of MNIST's files.

python -m benchmarks.plain_scaffold --lr 0.1 --seed 1

rFedAvg's cross-silo setting on evenly split rows (20 parties, 5 steps, batches of 100), NIID-Bench's CNN: does
SCAFFOLD diverge because of our code? It diverges here too.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unalike.data import load_dataset

PARTIES, STEPS, BATCH = 20, 5, 100


def make_net() -> nn.Sequential:
    """NIID-Bench's CNN for MNIST."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def main() -> None:
    """Play rounds until the end or until the loss is not finite."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    rng = np.random.default_rng(given.seed)
    data = load_dataset("mnist")
    images, test = (
        torch.from_numpy(np.asarray(x)).float().reshape(-1, 1, 28, 28) / 255 for x in (data.x, data.x_test)
    )
    labels, test_labels = (torch.from_numpy(np.asarray(y)).long() for y in (data.y, data.y_test))
    parts = np.array_split(rng.permutation(len(labels)), PARTIES)

    net = make_net()
    weights = list(net.parameters())
    server = [each.detach().clone() for each in weights]
    control = [torch.zeros_like(each) for each in server]
    controls = [[torch.zeros_like(each) for each in server] for _ in parts]

    def load(values: list[Tensor]) -> None:
        for weight, value in zip(weights, values, strict=True):
            weight.data.copy_(value)

    for number in range(1, given.rounds + 1):
        after, change = ([torch.zeros_like(each) for each in server] for _ in range(2))
        local = 0.0
        for own, part in zip(controls, parts, strict=True):
            load(server)
            rows = rng.permutation(part)[: STEPS * BATCH].reshape(STEPS, BATCH)
            for batch in rows:
                loss = cross_entropy(net(images[batch]), labels[batch])
                local += loss.item() / (STEPS * PARTIES)
                for weight, slope, c_i, c in zip(
                    weights, torch.autograd.grad(loss, weights), own, control, strict=True
                ):
                    weight.data -= given.lr * (slope - c_i + c)
            for place, weight in enumerate(weights):
                moved = (server[place] - weight.data) / (STEPS * given.lr)
                new = own[place] - control[place] + moved
                after[place] += weight.data / PARTIES
                change[place] += (new - own[place]) / PARTIES
                own[place] = new
        server, control = after, [c + more for c, more in zip(control, change, strict=True)]
        load(server)
        with torch.no_grad():
            scores = net(test)
        accuracy = float((scores.argmax(1) == test_labels).float().mean())
        print(f"round {number}: accuracy {accuracy:.3f}, training loss {local:.4g}", flush=True)
        if not math.isfinite(local):
            print("Diverged.")
            return


if __name__ == "__main__":
    main()
