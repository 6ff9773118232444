"""A run that attackers listen to, and what they make of updates, models and rows: for data_leaks.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unalike.algorithms.contract import Replies
from unalike.data import load_dataset
from unalike.models.batch import Batch
from unalike.models.byte_scale import ByteScale
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

ROWS, PARTIES = 2000, 10
USUAL: dict[str, Any] = {"partition": "label-count(2)", "parties": PARTIES, "model": "mlp(64)"}
USUAL |= {"rounds": 20, "epochs": 5, "lr": 0.05, "validation": 0.0, "held_out": 0.0}


@dataclass(frozen=True, eq=False)
class Played:
    """A run that was played, all that the server heard, and the attackers' own rows."""

    simulation: Simulation
    heard: list[Replies]
    x: Tensor
    y: Tensor

    @classmethod
    def of(cls, text: str, rounds: int, **fields: Any) -> Played:
        """Play so many rounds with single uploads, as the server has them where no sum is hidden."""
        data = load_dataset("mnist")
        held, y = torch.from_numpy(data.x[ROWS : 2 * ROWS]), torch.from_numpy(data.y[ROWS : 2 * ROWS])
        data = replace(data, x=data.x[:ROWS], y=data.y[:ROWS], x_test=data.x_test[-9:], y_test=data.y_test[-9:])
        spec = RunSpec.from_mapping(USUAL | {"algorithm": text} | fields)
        simulation, heard = Simulation(spec, data=data, say=lambda line: None), list[Replies]()
        object.__setattr__(simulation.algorithm, "needs_each", True)
        exchange = simulation._exchange

        def listening(*arguments: Any) -> Replies:
            heard.append(exchange(*arguments))
            return heard[-1]

        simulation._exchange = listening  # type: ignore[assignment, method-assign]
        played = cls(simulation, heard, simulation.task.byte_scale.numbers(held.long(), torch.float32), y)  # type: ignore[union-attr]
        with torch.enable_grad():
            for _ in range(rounds):
                simulation.state, _ = simulation.play_round()
        return played

    @property
    def scale(self) -> ByteScale:
        """How rows became numbers."""
        assert self.simulation.task.byte_scale is not None
        return self.simulation.task.byte_scale

    def own(self, party: int) -> tuple[Tensor, Tensor]:
        """A party's training rows."""
        return self.simulation.federation.train.take(
            torch.from_numpy(self.simulation.federation.parties[party].train)
        )

    def like(self, y: Tensor) -> Tensor:
        """The places of attackers' own rows, as many of each label as there are in ``y``, as far as there are."""
        return torch.cat([torch.nonzero(self.y == c)[: int((y == c).sum()), 0] for c in range(10)])

    def losses(self, w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """The loss of each row."""
        task = self.simulation.task
        return task.objective.losses(task.logits(w, Batch(x, y)), y)


def area(inside: Tensor, outside: Tensor) -> float:
    """The area under the curve: how often a number inside is above one outside."""
    gap = inside[:, None] - outside
    return float((gap > 0).double().mean() + (gap == 0).double().mean() / 2)


def psnr(one: Tensor, other: Tensor) -> Tensor:
    """The ratio for each pair of pictures of pixels from 0 to 255, in decibels."""
    error = ((one.double() - other.double()) / 255).flatten(1).square().mean(dim=1)
    return (-10 * error.clamp(min=10**-9.9).log10()).clamp(max=99)


def nearest(rows: Tensor, others: Tensor) -> Tensor:
    """How far each row is from the nearest of the others."""
    return torch.cdist(rows.flatten(1), others.flatten(1)).min(dim=1).values


def members_by_updates(played: Played) -> float:
    """Which rows a party trained on, by how far its own net's loss of them fell: the mean over parties."""
    before, found = played.simulation.initial, []
    for party, told in played.heard[-1].each.items():
        after = told["w"] if "w" in told and "delta" not in told else before + told["delta"]
        x, y = played.own(party)
        other = played.like(y)
        falls = [
            played.losses(before, *rows) - played.losses(after, *rows)
            for rows in ((x, y), (played.x[other], played.y[other]))
        ]
        found.append(area(*falls))
    return float(np.mean(found))


def labels_by_updates(played: Played) -> float:
    """Which labels a party has, by how the bias of each class moved."""
    has, hasnt = [], []
    for party, told in played.heard[-1].each.items():
        moved = told["delta"][-10:] if "delta" in told else (told["w"] - played.simulation.initial)[-10:]
        labels = torch.unique(played.own(party)[1])
        there = torch.zeros(10, dtype=torch.bool).index_fill(0, labels, True)
        has.append(moved[there])
        hasnt.append(moved[~there])
    return area(torch.cat(has), torch.cat(hasnt))


def members_by_model(played: Played, parties: Sequence[int] = range(PARTIES)) -> float:
    """Which rows the global model was trained on, by its loss of them."""
    w = played.simulation.state.server["w"]
    x, y = (torch.cat(each) for each in zip(*(played.own(k) for k in parties), strict=True))
    other = played.like(y)
    return area(-played.losses(w, x, y), -played.losses(w, played.x[other], played.y[other]))
