"""A trained net as an ordinary PyTorch module that takes raw rows: shift and scale are inside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unalike.errors import UserError
from unalike.models import MODELS, Net, Trees, loaded_module, without_running_statistics
from unalike.models.loss import Loss, choose_loss
from unalike.models.own import OwnNet
from unalike.own_code import is_own
from unalike.rounds.local import MEASURE_ROWS
from unalike.runs.build import RowKind, fresh_net_maker
from unalike.runs.model_file import ModelFile, code_of

Named = Mapping[str, Tensor]
"""The tensors of a net by name, as ``state_dict`` gives them."""


class TrainedModel(nn.Module):
    """A trained net, or several whose predictions are averaged, ready for rows as they were before any scaling.

    ``forward`` gives the logits of each row, [rows, classes]; where a number is predicted, that number in its own
    units, [rows]. ``classes`` are the names of the classes, ``text`` is that of the net. A net of the user's own
    is in ``nets`` as the user wrote it, with its own names.
    """

    shift: Tensor
    scale: Tensor
    rows_at_once = MEASURE_ROWS
    """how many rows to give it at once, where there are many"""

    def __init__(self, about: ModelFile, text: str, nets: Sequence[nn.Module], objective: Loss) -> None:
        super().__init__()
        self.text = text
        self.dtype: torch.dtype = getattr(torch, about.dtype)
        self.nets = nn.ModuleList(net.to(self.dtype) for net in nets)
        self.objective = objective
        self.classes = about.classes
        self.reads = torch.int64 if about.kind == "tokens" else self.dtype
        self.plain = about.kind == "tokens" or (not about.shift.any() and bool((about.scale == 1).all()))
        self.target = about.target
        for name in ("shift", "scale"):
            self.register_buffer(name, torch.as_tensor(getattr(about, name), dtype=self.dtype), persistent=False)
        self.eval().requires_grad_(False)

    def outputs(self, x: Tensor) -> Tensor:
        """What the net puts out; of several, logarithms of the mean of their probabilities, or the mean number."""
        x = x.to(self.reads)
        if not self.plain:
            x = (x - self.shift) / self.scale
        each = [_logits(net(x)) for net in self.nets]
        if len(each) == 1:
            return each[0]
        together = torch.stack(each)
        if self.objective.task == "regression":
            return together.mean(dim=0)
        return together.log_softmax(dim=2).logsumexp(dim=0) - math.log(len(each))

    def forward(self, x: Tensor) -> Tensor:
        """Logits, or numbers in their own units, of raw rows."""
        found = self.outputs(x)
        if self.objective.task == "classification":
            return found
        shift, scale = self.target
        return self.objective.predict(found) * scale + shift

    @property
    def rows_are_apart(self) -> bool:
        """Whether a row is predicted by itself; not so by batch norm without running statistics."""
        norms = (layer for layer in self.modules() if isinstance(layer, nn.modules.batchnorm._NormBase))
        return all(layer.running_mean is not None for layer in norms)


def _logits(made: Any) -> Tensor:
    """What a net gives for rows, without the features where it gives these, too."""
    logits: Tensor = made[0] if isinstance(made, tuple) else made
    return logits


def rebuilt(about: ModelFile, tensors: Sequence[Named], where: object, number: int = 0) -> TrainedModel:
    """The model with these tensors; ``number`` is the party's, where the nets of parties differ.

    ``where`` is what a refusal names: the file that the tensors are from.
    """
    terms = MODELS.terms(_built(about, where))
    model, objective = terms[number % len(terms)], choose_loss(about.loss, about.task)
    text = MODELS.describe_part(model)
    if isinstance(model, Trees):
        from unalike.runs.trained_trees import rebuilt_trees

        return rebuilt_trees(about, model, text, tensors[0], where)
    if reader := joined_reader(about.algorithm):
        from unalike.runs.trained_grown import rebuilt_grown

        return rebuilt_grown(about, reader, model, text, tensors[0], where)
    model = model.without_files() if hasattr(model, "without_files") else model
    rows = RowKind(about.shape, about.kind, about.features, about.dataset)
    make = fresh_net_maker(model, rows, objective.outputs(len(about.classes)))

    def fresh() -> Net:
        net = make().to(getattr(torch, about.dtype))
        return without_running_statistics(net) if about.batch_norm == "drop" else net

    theirs = is_own(model) or isinstance(model, OwnNet)
    nets = []
    for own in tensors:
        with torch.random.fork_rng(devices=[]):  # initial weights, which are replaced, draw random numbers
            if not theirs:  # tried without memory first: the file may name a net of any size
                with torch.device("meta"):
                    _check_tensors(fresh(), own, where)
            net = fresh()
        _check_tensors(net, own, where)
        nets.append(loaded_module(net, own))
    return TrainedModel(about, text, nets, objective)


def joined_reader(algorithm: str) -> Any:
    """What reads a model whose parts parties with other columns trained; None for all other algorithms."""
    from unalike.algorithms import ALGORITHMS
    from unalike.algorithms.protocol import Protocol
    from unalike.runs.cast import reader_class

    try:
        part: Any = ALGORITHMS.build(algorithm)
    except UserError:  # a plug-in's, which is not here: its net can be used without it
        return None
    return reader_class(part.predictor) if isinstance(part, Protocol) and part.predictor else None


def _built(about: ModelFile, where: object) -> Any:
    """The model that the file names; code of another's is never run, and code of one's own must be the same."""
    told = next(iter(about.code.values()), None)
    asked = told and f"{where} needs code from outside: {told['file']} (SHA-256 {told['sha256'][:16]})"
    try:
        found, made = code_of(about.model, about.loss), MODELS.build(about.model)
    except UserError as error:
        if asked is None:
            raise
        raise UserError(
            f"{asked}, which is not run unasked ({error}) Look at it, and name it: --plugin."
        ) from None
    if asked is not None and found != about.code:
        other = next(iter(found.values()), {"sha256": "none"})["sha256"][:16]
        raise UserError(f"{asked}; what is here is another ({other}). Use the file of the training: --plugin.")
    if asked is None and found:
        raise UserError(
            f"{where} was trained with a net of unalike's own, not with yours of that name. Rename it."
        )
    return made


def _check_tensors(net: nn.Module, tensors: Named, where: object) -> None:
    """Refuse tensors that are not of just that net, or not finite."""
    own = net.state_dict(keep_vars=True)
    tied = {id(own[name]) for name in tensors if name in own}  # such a weight is there under one of its names
    for name in sorted(own.keys() | tensors.keys()):
        here, there = own.get(name), tensors.get(name)
        if there is None and here is not None and id(here) in tied:
            continue
        if here is None or there is None or (here.shape, here.dtype) != (there.shape, there.dtype):
            raise UserError(
                f"{where} is of another net: its {name} does not fit. Use the --plugin of the training."
            )
        if there.is_floating_point() and not there.isfinite().all():
            raise UserError(f"{where} is damaged: its {name} is not finite. Copy it back from where it was kept.")
