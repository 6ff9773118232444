"""A trained net as an ordinary PyTorch module that takes raw rows: shift and scale are inside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unalike.errors import UserError
from unalike.models import MODELS, Net
from unalike.models.loss import Loss, choose_loss
from unalike.part_text import split
from unalike.runs.build import net_maker
from unalike.runs.model_file import ModelFile, code_of

Named = Mapping[str, Tensor]
"""The tensors of a net by name, as ``state_dict`` gives them."""


class TrainedModel(nn.Module):
    """A trained net, or several whose predictions are averaged, ready for rows as they were before any scaling.

    ``forward`` gives the logits of each row, [rows, classes]; where a number is predicted, that number in its own
    units, [rows]. ``classes`` are the names of the classes, ``text`` is that of the net.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, about: ModelFile, text: str, nets: Sequence[Net], objective: Loss) -> None:
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
        each = [net(x)[0] for net in self.nets]
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


def rebuilt(about: ModelFile, tensors: Sequence[Named], where: object, number: int = 0) -> TrainedModel:
    """The model with these tensors; ``number`` is the party's, where the nets of parties differ.

    ``where`` is what a refusal names: the file that the tensors are from.
    """
    terms = MODELS.terms(_built(about, where))
    model = terms[number % len(terms)]
    text = MODELS.describe_part(model)
    model = model.without_files() if hasattr(model, "without_files") else model
    make = net_maker(about, model, about.stand_in())
    with torch.random.fork_rng(devices=[]):  # initial weights, which are replaced, draw random numbers
        nets = [make().to(getattr(torch, about.dtype)) for _ in tensors]
    for net, own in zip(nets, tensors, strict=True):
        _check_tensors(net.state_dict(), own, where)
        net.load_state_dict(own, strict=True)
    return TrainedModel(about, text, nets, choose_loss(about.loss, about.task))


def _built(about: ModelFile, where: object) -> Any:
    """The model that the file names; code of another's is never run, and code of one's own must be the same."""
    told = about.code.get("model") or about.code.get("loss")
    strange = [term for term in split(about.model, MODELS.sign) if term.strip().startswith("module:")]
    if told is not None or strange:
        known = told or {"file": strange[0], "sha256": "not told"}
        asked = f"{where} needs code from outside, {known['file']} (SHA-256 {known['sha256'][:16]})"
        try:
            found = {} if strange else code_of(about.model, about.loss)
        except UserError:
            found = {}
        if not found:
            raise UserError(
                f"{asked}, which is not run unasked. Look at that file, then name it: --plugin FILE.py"
            )
        if found != about.code:
            other = next(iter(found.values()))["sha256"][:16]
            raise UserError(f"{asked}, and the one here is another ({other}). Use the file of the training.")
    elif code_of(about.model, about.loss):
        raise UserError(
            f"{where} was trained with a net of unalike's own, not with yours of that name. Rename it."
        )
    return MODELS.build(about.model)


def _check_tensors(own: Named, tensors: Named, where: object) -> None:
    """Refuse tensors that are not of just that net, or not finite."""
    for name in sorted(own.keys() | tensors.keys()):
        here, there = own.get(name), tensors.get(name)
        if here is None or there is None or (here.shape, here.dtype) != (there.shape, there.dtype):
            raise UserError(
                f"{where} is of another net: its {name} does not fit. Use the --plugin of the training."
            )
        if there.is_floating_point() and not there.isfinite().all():
            raise UserError(f"{where} is damaged: its {name} is not finite. Copy it back from where it was kept.")
