"""What a net says of rows, judged row by row, and the scores that come of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unalike.data.dataset import Array
from unalike.models.batch import Batch
from unalike.models.loss import CrossEntropy, Loss
from unalike.models.task import Task
from unalike.rounds import local
from unalike.rounds.rows import Rows, batch_of
from unalike.rounds.threads import on_threads
from unalike.scores import Figures, Score, figures_of
from unalike.tallies import Kind, Tally, exact_auroc, tally_of

JUDGED_ROWS = 4 * local.MEASURE_ROWS
"""Rows of a call where a task's ``judge`` does it, which keeps nothing of them but their scores."""


@dataclass(frozen=True, eq=False)
class Judged:
    """How well a net does on each of some rows.

    ``table`` has a line for each row: its loss, then 1 or 0 for a right or a wrong answer, or the error in the
    target's own units; then, where they were asked for, the probabilities of the classes. ``true`` are the rows'
    labels, or their targets less the mean target.
    """

    task: Kind
    table: Tensor
    true: Tensor

    def __len__(self) -> int:
        return len(self.table)

    def at(self, places: Tensor) -> Judged:
        """The rows at these places, which may name a row more than once."""
        if not len(self):
            return self
        return Judged(self.task, self.table[places], self.true[places])

    def tally(self, parts: Iterable[str]) -> Tally:
        """The sums and histograms of that name, beside the number of rows and the sum of their losses."""
        table, wanted = self.table.cpu().double().numpy(), dict.fromkeys(parts)
        found = {"rows": np.array(float(len(table))), "loss": np.asarray(table[:, 0].sum())}
        if "right" in wanted:
            found["right"] = np.asarray(table[:, 1].sum())
        others = [name for name in wanted if name != "right"]
        if others:
            predicted = table[:, 2:] if self.task == "classification" else table[:, 1]
            found |= tally_of(others, predicted, self.true.cpu().numpy())
        return found

    def figures(self, scores: Sequence[Score]) -> Figures:
        """The mean loss and the scores by their names in records; None where there are no rows."""
        if not len(self):
            return dict.fromkeys(("loss", *(score.key for score in scores)))
        ranked = any(score.name == "auroc" for score in scores)
        by_tally = [score for score in scores if score.name != "auroc"]
        tally = self.tally(part for score in by_tally for part in score.needs)
        found: Figures = {"loss": float(tally["loss"] / tally["rows"]), **figures_of(by_tally, tally)}
        if ranked:  # all rows are at hand: no histograms
            found["auroc"] = exact_auroc(self.table[:, 2:].cpu().double().numpy(), self.true.cpu().numpy())
        return found

    def each(self, score: Score, sizes: Array) -> list[float | None]:
        """The score of each party, where the first ``sizes[0]`` rows are those of party 0, and so on."""
        if score.needs == ("right",):  # the usual case: all parties in one go
            owner = np.repeat(np.arange(len(sizes)), sizes)
            right = np.bincount(owner, weights=self.table[:, 1].cpu().double().numpy(), minlength=len(sizes))
            return [float(r / n) if n else None for r, n in zip(right, sizes, strict=True)]
        ends = np.cumsum(sizes).tolist()
        own = [slice(end - size, end) for end, size in zip(ends, sizes.tolist(), strict=True)]
        each = [Judged(self.task, self.table[part], self.true[part]).figures([score]) for part in own]
        return [one[score.key] for one in each]


def judge(
    task: Task,
    w: Tensor,
    buffers: Tensor,
    rows: Rows,
    index: Tensor,
    scores: Sequence[Score] = (),
    threads: int = 1,
) -> Judged:
    """The rows at ``index``, judged as these scores need it.

    Blocks of rows go through the net at once on that many threads; the bits are the same on any number.
    """
    objective = task.objective
    whole = needs_probabilities(scores)

    @torch.no_grad()  # a thread has a grad mode of its own
    def block(part: Tensor) -> Tensor:
        at_once = lines_at_once(task, [w], rows, part, torch.tensor([len(part)]), whole=whole)
        if at_once is not None:
            return at_once
        batch = batch_of(rows, part, buffers)
        return lines_of(objective, outputs_of(task, w, batch), batch.y, rows.unit, whole=whole)

    true = true_of(task, rows, rows.y[index])
    if len(index) < fewest(task):
        width, dtype = (2 + task.classes, torch.float64) if whole else (2, w.dtype)
        return Judged(objective.task, torch.zeros(0, width, dtype=dtype, device=w.device), true[:0])
    # In even parts: none has one row, if there are more.
    most = local.MEASURE_ROWS if task.judge is None or whole else JUDGED_ROWS
    parts = torch.tensor_split(index, math.ceil(len(index) / most))
    return Judged(objective.task, torch.cat(on_threads(threads, block, parts)), true)


def needs_probabilities(scores: Sequence[Score]) -> bool:
    """Whether these scores look at the probabilities of all classes."""
    return any(score.task == "classification" and score.needs != ("right",) for score in scores)


def true_of(task: Task, rows: Rows, y: Tensor) -> Tensor:
    """Labels as they are; targets in their own units."""
    return y.double() * rows.unit if task.objective.task == "regression" else y


def outputs_of(task: Task, w: Tensor, batch: Batch) -> Tensor:
    """What a net puts out; of an ensemble, w [k, d], logarithms of the mean of its nets' probabilities.

    Of numbers it is the mean of what its nets predict.
    """
    if w.dim() == 1:
        return task.logits(w, batch)
    each = torch.stack([task.logits(one, batch) for one in w.unbind()])
    if task.objective.task == "regression":
        return each.mean(dim=0)
    return each.log_softmax(dim=2).logsumexp(dim=0) - math.log(len(w))


def lines_of(objective: Loss, outputs: Tensor, y: Tensor, unit: float = 1.0, *, whole: bool) -> Tensor:
    """The lines of the table that a :class:`Judged` has; ``whole``: with the probabilities of the classes."""
    losses = objective.losses(outputs, y)
    if objective.task == "regression":
        return torch.stack([losses, (objective.predict(outputs) - y) * unit], dim=1)
    simple = torch.stack([losses, (outputs.argmax(dim=1) == y).to(losses)], dim=1)
    # Probabilities in double precision: of a sure net they would all be 1 in single.
    return torch.cat([simple.double(), objective.predict(outputs.double())], dim=1) if whole else simple


def lines_at_once(
    task: Task, models: Sequence[Tensor], rows: Rows, index: Tensor, ends: Tensor, *, whole: bool
) -> Tensor | None:
    """The lines of rows under several models, each up to its end, where something makes them at once."""
    if task.judge is None or whole or type(task.objective) is not CrossEntropy or rows.stored is None:
        return None
    if any(w.dim() != 1 for w in models):  # ensembles
        return None
    return task.judge(models, ends, rows.stored, index)


def joined(each: Sequence[Judged]) -> Judged:
    """The rows of all of them, one after the other."""
    table, true = (torch.cat(parts) for parts in ([one.table for one in each], [one.true for one in each]))
    return Judged(each[0].task, table, true)


def fewest(task: Task) -> int:
    """How many rows can be judged at least: one row alone has no statistics of its batch."""
    return 1 if task.rows_are_apart else 2
