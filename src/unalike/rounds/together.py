"""Many models at once, each judged on rows of its own: 100 personal models cost little more than one.

Parties are taken in blocks. The rows of a block are read at once, and its losses are computed at once. Between the
two, nets of linear layers go as one stack, others one after the other: a convolution is no faster in a stack.
Blocks depend on the parties' sizes and on the net alone, so the bits are the same on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from unalike.data.dataset import Array
from unalike.models.batch import Batch
from unalike.models.net import Net
from unalike.models.task import Task
from unalike.rounds import local
from unalike.rounds.judging import (
    Judged,
    fewest,
    joined,
    judge,
    lines_at_once,
    lines_of,
    needs_probabilities,
    outputs_of,
    true_of,
)
from unalike.rounds.rows import Rows
from unalike.rounds.threads import on_threads
from unalike.scores import Score

Model = Callable[[int], tuple[Tensor, Tensor]]
"""By party, the weights, and the running statistics that go with them."""

STACK_ROWS = 4096
"""Rows of one stack, padding included."""
MOST_WEIGHTS = 2**21
"""Numbers that the models of one stack may have together."""
_STACKED = (nn.Linear, nn.Flatten, nn.Identity, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Dropout)
"""Layers that a stack of nets computes in one operation each."""
_CHAINS = (Net, nn.Sequential)
"""What such layers may be in: a module of somebody's own may do anything with its layers."""


def judge_each(
    task_of: Callable[[int], Task],
    model: Model,
    data: Rows,
    rows: Sequence[Array],
    scores: Sequence[Score],
    threads: int = 1,
) -> Judged:
    """All parties' own rows, party after party, each judged under its own model."""
    numbers = [k for k, own in enumerate(rows) if len(own) >= fewest(task_of(k))]
    if not numbers:
        return judge(task_of(0), *model(0), data, torch.zeros(0, dtype=torch.int64), scores)
    blocks = [
        block for task in dict.fromkeys(map(task_of, numbers)) for block in _blocks(task, numbers, task_of, rows)
    ]

    def judged(block: list[int]) -> Judged:
        task, own = task_of(block[0]), [rows[k] for k in block]
        models: list[tuple[Tensor, Tensor]] = []
        weights = 0
        for k in block:
            models.append(model(k))
            weights += models[-1][0].numel()
            if len(block) > 1 and weights > MOST_WEIGHTS:  # of ensembles
                return joined([judged([one]) for one in block])
        if len(block) == 1:  # it may have more rows than a forward pass takes
            index = torch.from_numpy(own[0]).to(task.device)
            return judge(task, *models[0], data, index, scores)
        return _judge_block(task, models, data, own, scores)

    order = [k for block in blocks for k in block]
    found = joined(on_threads(threads, judged, blocks))
    starts = dict(zip(order, np.cumsum([0, *(len(rows[k]) for k in order)]).tolist(), strict=False))
    if order == numbers:
        return found
    places = np.concatenate([np.arange(starts[k], starts[k] + len(rows[k])) for k in numbers])
    return found.at(torch.from_numpy(places).to(found.table.device))


def _blocks(
    task: Task, numbers: Sequence[int], task_of: Callable[[int], Task], rows: Sequence[Array]
) -> Iterator[list[int]]:
    """The parties of a task in blocks, those with most rows first, so that those of a block have about as many."""
    own = sorted((k for k in numbers if task_of(k) is task), key=lambda k: (-len(rows[k]), k))
    most = STACK_ROWS if task.judge is not None or _can_be_stacked(task) else local.MEASURE_ROWS
    while own:
        width = max(1, min(most // len(rows[own[0]]), MOST_WEIGHTS // task.size))
        yield own[:width]
        own = own[width:]


@torch.no_grad()  # a thread has a grad mode of its own
def _judge_block(
    task: Task, models: Sequence[tuple[Tensor, Tensor]], data: Rows, rows: Sequence[Array], scores: Sequence[Score]
) -> Judged:
    """The rows of a few parties, one party after the other."""
    whole = needs_probabilities(scores)
    index, ends = torch.from_numpy(np.concatenate(rows)), torch.tensor([len(own) for own in rows]).cumsum(0)
    table = lines_at_once(task, [w for w, _ in models], data, index, ends, whole=whole)
    if table is not None:
        return Judged(task.objective.task, table, data.y[index])
    alike = len({w.shape for w, _ in models}) == 1  # an ensemble may be beside single nets
    outputs_and_labels = _stacked if alike and _can_be_stacked(task) else _in_turn
    outputs, y = outputs_and_labels(task, models, data, rows)
    table = lines_of(task.objective, outputs, y, data.unit, whole=whole)
    return Judged(task.objective.task, table, true_of(task, data, y))


def _can_be_stacked(task: Task) -> bool:
    known = (
        isinstance(module, _STACKED) or (type(module) in _CHAINS and list(module.children()))
        for module in task.net.modules()
    )
    return task.operation is None and all(known)


def _stacked(
    task: Task, models: Sequence[tuple[Tensor, Tensor]], data: Rows, rows: Sequence[Array]
) -> tuple[Tensor, Tensor]:
    """What the nets say of the rows, and the labels; shorter parties repeat their first row meanwhile."""
    sizes = np.array([len(own) for own in rows])
    real = np.arange(sizes.max()) < sizes[:, None]
    padded = np.repeat([own[:1] for own in rows], sizes.max(), axis=1)
    padded[real] = np.concatenate(rows)
    x, y = data.take(torch.from_numpy(padded).to(task.device))
    w, buffers = torch.stack([w for w, _ in models]), models[0][1]
    outputs = vmap(lambda own, x: outputs_of(task, own, Batch(x, x, buffers=buffers)))(w, x)
    if real.all():
        return outputs.flatten(0, 1), y.flatten()
    places = torch.from_numpy(np.flatnonzero(real)).to(task.device)
    return outputs.flatten(0, 1)[places], y.flatten()[places]


def _in_turn(
    task: Task, models: Sequence[tuple[Tensor, Tensor]], data: Rows, rows: Sequence[Array]
) -> tuple[Tensor, Tensor]:
    """What the nets say of the rows, one net after the other, and the labels."""
    x, y = data.take(torch.from_numpy(np.concatenate(rows)).to(task.device))
    sizes = [len(own) for own in rows]
    parts = zip(models, torch.split(x, sizes), torch.split(y, sizes), strict=True)
    outputs = [outputs_of(task, w, Batch(own, true, buffers=buffers)) for (w, buffers), own, true in parts]
    return torch.cat(outputs), y
