"""What an objective may have beside the task's loss, as algorithms declare it: every engine's reference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from unalike.algorithms.contract import Algorithm, Party
    from unalike.models.batch import Batch
    from unalike.models.task import Task


def declared_fit(algorithm: Algorithm, party: Party, w: Tensor, batch: Batch) -> Tensor:
    """The task's loss on a batch, and the terms ``near``, ``teach`` and ``contrast`` and a model ``beside`` w."""
    labels = algorithm.labels(party)
    if labels is not None:
        batch = replace(batch, y=labels[batch.index])
    task, share, scales = party.task, algorithm.beside(party), algorithm.scales(party)
    near, teach, contrast = algorithm.near(party), algorithm.teach(party), algorithm.contrast(party)
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
        logits = task.logits(v, batch, track)
        return task.loss_of(logits if scales is None else logits * scales, batch)

    mixed = fit(share * own + (1 - share) * w.detach(), track=False)
    return fit(w, track=True) + (mixed - mixed.detach())
