"""Evaluation by an explicit protocol.

Three disjoint sets of rows, none of which is trained on: the global test set; each party's validation rows,
which may select a round; and each party's held-out rows, which tell how the parties fare one by one. The
final round and the round selected on validation rows are reported; the best test round never is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from unalike.data.dataset import Array
from unalike.models.task import Task
from unalike.rounds import local
from unalike.rounds.federation import Federation
from unalike.rounds.rows import Rows, batch_of
from unalike.rounds.threads import on_threads

Figures = dict[str, Any]
"""Numbers by name, ready for JSON."""


@dataclass(frozen=True)
class Models:
    """What there is to evaluate: the one global model, and each party's personal one where it differs.

    ``buffers`` are the shared running statistics; where every party keeps its own, they are in ``own_buffers``.
    """

    global_model: Tensor | None
    personal: Callable[[int], tuple[Tensor, Tensor]] | None
    """by party, the weights and the running statistics that go with them"""
    buffers: Tensor
    own_buffers: Mapping[int, Tensor] | None = None

    @property
    def shared(self) -> Callable[[int], tuple[Tensor, Tensor]] | None:
        """The global model as each party's, where there is one."""
        w = self.global_model
        return None if w is None else lambda number: (w, self.statistics(number))

    def statistics(self, number: int) -> Tensor:
        """The running statistics that a party evaluates with."""
        return self.buffers if self.own_buffers is None else self.own_buffers.get(number, self.buffers)


def row_scores(task: Task, w: Tensor, buffers: Tensor, rows: Rows, index: Tensor, threads: int = 1) -> Tensor:
    """Cross-entropy and correctness (1 or 0) of each row at ``index``, as a [rows, 2] tensor.

    Blocks of rows go through the net at once on that many threads; the bits are the same on any number.
    """
    if len(index) < _fewest(task):
        return torch.zeros(0, 2, dtype=w.dtype, device=w.device)

    @torch.no_grad()  # a thread has a grad mode of its own
    def block(part: Tensor) -> Tensor:
        batch = batch_of(rows, part, buffers)
        logits = task.logits(w, batch)
        losses = functional.cross_entropy(logits, batch.y, reduction="none")
        return torch.stack([losses, (logits.argmax(dim=1) == batch.y).to(losses)], dim=1)

    # In even parts: none has one row, if there are more.
    parts = torch.tensor_split(index, math.ceil(len(index) / local.MEASURE_ROWS))
    return torch.cat(on_threads(threads, block, parts))


def evaluate(federation: Federation, models: Models, threads: int = 1) -> Figures:
    """All figures of one round. A figure that does not exist (no such rows, no such model) is None.

    No row goes through the same weights twice.
    """
    figures: Figures = dict.fromkeys(("loss", "accuracy"))
    w = models.global_model
    if w is not None:
        figures["loss"], figures["accuracy"] = _means(test_scores(federation, models, w, threads))
    validation = [party.validation for party in federation.parties]
    held_out = [party.held_out for party in federation.parties]
    # A personal model, where the algorithm has one, is what the parties would deploy: it selects the round.
    scores = _by_party(federation, models, validation, personal=models.personal is not None, threads=threads)
    loss, accuracy = (None, None) if scores is None else _means(scores)
    figures |= {"validation_loss": loss, "validation_accuracy": accuracy}
    for key, personal in (("parties", False), ("personal", True)):
        scores = _by_party(federation, models, held_out, personal=personal, threads=threads)
        if scores is not None:
            figures[key] = summary(_accuracies(federation, scores, held_out))
    return figures


def test_scores(federation: Federation, models: Models, w: Tensor, threads: int) -> Tensor:
    """Row scores on the global test set.

    Where every party keeps its own running statistics, there are as many global models as parties that have any:
    their mean.
    """
    everything = torch.arange(len(federation.test), device=w.device)
    if models.own_buffers is None:
        return row_scores(federation.task, w, models.buffers, federation.test, everything, threads)
    # By number, not as they came: a run that goes on has them in another order, and a sum's bits depend on it.
    each = [models.own_buffers[number] for number in sorted(models.own_buffers)] or [models.buffers]
    scores = [row_scores(federation.task, w, buffers, federation.test, everything, threads) for buffers in each]
    return torch.stack(scores).mean(dim=0)


def summary(accuracies: Sequence[float | None]) -> Figures:
    """How the parties fare one by one; parties without held-out rows are left out.

    ``worst_10_percent`` is the mean over the lowest tenth of the parties (at least one), as in q-FedAvg
    (Li et al. 2020, arXiv:1905.10497, section 4).
    """
    known = np.sort([a for a in accuracies if a is not None])
    if not len(known):
        return {"count": 0, "each": list(accuracies)}
    return {
        "count": len(known),
        "mean": float(known.mean()),
        "std": float(known.std()),
        "worst": float(known[0]),
        "worst_10_percent": float(known[: math.ceil(len(known) / 10)].mean()),
        "best": float(known[-1]),
        "each": list(accuracies),
    }


def without_each(figures: Figures) -> Figures:
    """The figures without the list of single parties, which would make the record of a large run huge."""
    return {
        key: {k: v for k, v in value.items() if k != "each"} if isinstance(value, dict) else value
        for key, value in figures.items()
    }


def _by_party(
    federation: Federation, models: Models, rows: Sequence[Array], *, personal: bool, threads: int
) -> Tensor | None:
    """Scores of all parties' own rows, party after party, under its personal model or the global one."""
    device = federation.task.device
    model = models.personal if personal else models.shared
    if model is None:
        return None
    if personal or models.own_buffers is not None or not federation.task.rows_are_apart:

        def own(k: int) -> Tensor:
            index = torch.from_numpy(rows[k]).to(device)
            return row_scores(federation.task_of(k), *model(k), federation.train, index)

        return torch.cat(on_threads(threads, own, range(len(rows))))
    together = torch.from_numpy(np.concatenate(rows)).to(device)  # one model: all parties' rows in one go
    return row_scores(federation.task, model(0)[0], models.buffers, federation.train, together, threads)


def _accuracies(federation: Federation, scores: Tensor, rows: Sequence[Array]) -> list[float | None]:
    """Each party's share of right answers, or None where it has no rows that can be tried."""
    fewest = _fewest(federation.task)
    sizes = np.array([len(own) if len(own) >= fewest else 0 for own in rows])
    owner = np.repeat(np.arange(len(rows)), sizes)
    right = np.bincount(owner, weights=scores[:, 1].cpu().double().numpy(), minlength=len(rows))
    return [float(r / n) if n else None for r, n in zip(right, sizes, strict=True)]


def _fewest(task: Task) -> int:
    return 1 if task.rows_are_apart else 2  # one row alone has no statistics


def _means(scores: Tensor) -> tuple[float | None, float | None]:
    if not len(scores):
        return None, None
    loss, accuracy = scores.cpu().double().mean(dim=0).tolist()
    return loss, accuracy
