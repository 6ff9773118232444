"""What an objective may have beside the task's loss, as algorithms declare it: every engine's reference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.algorithms.contract import Algorithm, Party
    from unalike.models.batch import Batch
    from unalike.models.task import Task


class Ahead(NamedTuple):
    """Where the gradient of a step is taken, if not at w: where plain descent from w on the step's rows leads."""

    rate: float
    steps: int = 1
    pull: float = 0.0
    """With f the task's loss, the steps descend on f(v) + pull/2 ||v - w||^2; the step's gradient is then
    pull (w - v), which without a pull is that of f at v."""
    apart: bool = False
    """Every other row is for the steps, the rest for the gradient; one row alone is for both."""


def declared_fit(algorithm: Algorithm, party: Party, w: Tensor, batch: Batch) -> Tensor:
    """The task's loss on a batch, and the terms ``near``, ``teach`` and ``contrast`` and a model ``beside`` w."""
    labels = algorithm.labels(party)
    if labels is not None:
        batch = replace(batch, y=labels[batch.index])
    task, share, scales = party.task, algorithm.beside(party), algorithm.scales(party)
    near, teach, contrast = algorithm.near(party), algorithm.teach(party), algorithm.contrast(party)
    if (ahead := algorithm.ahead(party)) is not None:
        return _fit_ahead(task, w, ahead, party, batch)
    if near is None and teach is None and contrast is None and (scales is None or share is not None):
        return task.loss(w, batch) if share is None else _fit_of_two(task, w, share, batch, scales)
    own = w if share is None else w[: task.size]
    logits, features = task.forward(own, batch, track=share is None)
    scored = logits if scales is None else logits * scales
    fit = task.loss_of(scored, batch) if share is None else _fit_of_two(task, w, share, batch, scales)
    if near is not None:
        lam, target = near
        gap = batch.mean(features) - target
        fit = fit + lam * gap.dot(gap)
    if teach is not None:
        lam, heat, teacher = teach
        fit = fit + lam * heat**2 * batch.mean(_divergence(task, teacher, heat, logits, batch))
    if contrast is not None:
        mu, heat, *models = contrast
        fit = fit + mu * batch.mean(_contrast(task, models, heat, features, batch))
    return fit


def steer(w: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """A loss of this value whose gradient in ``w`` is the given vector, however it was made."""
    return value.detach() + (w - w.detach()).dot(gradient.detach())


def dealt(party: Party, batch: Batch, parts: int) -> list[Batch]:
    """The rows of a batch dealt out in turn to ``parts`` batches; one that would be empty gets them all."""
    import torch

    place = torch.arange(len(batch.y), device=batch.y.device) % parts
    if batch.mask is None and len(batch.y) >= 2 * parts:  # all rows are real: each part alone is computed
        return [replace(batch, x=batch.x[place == k], y=batch.y[place == k], index=None) for k in range(parts)]
    real = party.size.new_ones(len(batch.y)) if batch.mask is None else batch.mask
    masks = [real * (place == k) for k in range(parts)]
    return [replace(batch, mask=torch.where(mask.sum() > 0, mask, real)) for mask in masks]


def _fit_ahead(task: Task, w: Tensor, ahead: Ahead, party: Party, batch: Batch) -> Tensor:
    """The loss where steps on some rows lead, with the gradient of the step in w."""
    here = w.detach()
    first, second = dealt(party, batch, 2) if ahead.apart else (batch, batch)
    there = task.descend(here, first, ahead.rate, ahead.steps, ahead.pull)
    if ahead.pull:
        return steer(w, task.loss(there, second), ahead.pull * (here - there))
    return task.loss(w + (there - here), second)


def _divergence(task: Task, teacher: Tensor, heat: float, logits: Tensor, batch: Batch) -> Tensor:
    """KL of each row's scores from the teacher's."""
    fixed = teacher[batch.index] if teacher.dim() == 2 else task.logits(teacher, batch, track=False)
    told = (fixed.detach() / heat).log_softmax(dim=-1)
    return (told.exp() * (told - (logits / heat).log_softmax(dim=-1))).sum(dim=-1)


def _contrast(task: Task, models: list[Tensor], heat: float, features: Tensor, batch: Batch) -> Tensor:
    """Of each row, how much less its features are like those of the first model than like the second's."""
    import torch
    from torch.nn import functional

    # Features of models that are not trained: batch norm leaves no trace of them in the running statistics.
    likeness = [
        functional.cosine_similarity(features, task.features(w, batch, track=False).detach(), dim=-1)
        for w in models
    ]
    return -functional.log_softmax(torch.stack(likeness, dim=-1) / heat, dim=-1)[..., 0]


def _fit_of_two(task: Task, both: Tensor, share: float | Tensor, batch: Batch, scales: Tensor | None) -> Tensor:
    """The loss of the first of two models, with a gradient for the second, at their mixture, as well."""
    w, own = both.chunk(2)

    def fit(v: Tensor, track: bool) -> Tensor:
        if scales is None:
            return task.loss(v, batch, track)
        return task.loss_of(task.logits(v, batch, track) * scales, batch)

    mixed = fit(share * own + (1 - share) * w.detach(), track=False)
    return fit(w, track=True) + (mixed - mixed.detach())
