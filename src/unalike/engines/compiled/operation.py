"""The compiled net as one differentiable operation on the flat vector: (w, x) -> logits, features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from unalike.engines.compiled.asked import KINDS, Data, Descent, Steps
from unalike.engines.compiled.library import Kernel
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.models.derivatives import Stored


class Reader:
    """What judges rows as they are kept in place of a task's net (``Task.judge``)."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __call__(self, models: Sequence[Tensor], ends: Tensor, stored: Stored, rows: Tensor) -> Tensor | None:
        """The losses and right answers of all rows, each under the model of its part, in one call."""
        if stored.x.dtype not in KINDS:
            return None
        return self.kernel.judge(models, ends, Data(*stored), rows)


class Operation:
    """What a task calls in place of its net (``Task.operation``)."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __call__(self, w: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and features; differentiable in w, once."""
        if not torch.is_grad_enabled() and not torch._C._are_functorch_transforms_active():
            logits, features, _ = self.kernel.forward(
                w, x
            )  # what autograd does around it takes as long as a batch
            return logits, features
        kept = _Kept(self.kernel, keep=torch.is_grad_enabled() and w.requires_grad)
        logits, features = _Forward.apply(w, x, kept)  # type: ignore[no-untyped-call]
        return logits, features

    def gradient(self, w: Tensor, batch: Batch) -> Tensor:
        """The gradient of the mean cross-entropy, in one call."""
        return self.kernel.gradient(w, Data(batch.x.contiguous(), batch.y))

    def descend(self, w: Tensor, batch: Batch, lr: float, steps: int, pull: float) -> Tensor:
        """All steps of gradient descent on one batch, in one call."""
        rows = torch.arange(len(batch.y)).expand(steps, -1).contiguous()
        descent = Descent(lr, strength=pull, centre=w if pull else None)
        return self.kernel.train(w, Data(batch.x.contiguous(), batch.y), Steps(rows), descent)[0]


class _Kept:
    """What a forward pass leaves for its backward pass. It is used up there."""

    def __init__(self, kernel: Kernel, *, keep: bool) -> None:
        self.kernel, self.keep = kernel, keep
        self.tape: Tensor | None = None
        self.several: list[_Kept] = []
        """those of the single passes, under vmap"""

    def take(self) -> Tensor:
        """What the forward pass kept for the backward pass; a second call is an error, as memory is reused."""
        if self.tape is None:
            raise RuntimeError("The compiled net has one backward pass for each forward pass.")
        tape, self.tape = self.tape, None
        return tape

    def __del__(self) -> None:
        if self.tape is not None:
            self.kernel.give_back(self.tape)


class _Forward(Function):
    """The net's forward pass as torch's autograd calls it."""

    @staticmethod
    def forward(w: Tensor, x: Tensor, kept: _Kept) -> tuple[Tensor, Tensor]:
        logits, features, kept.tape = kept.kernel.forward(w, x, keep=kept.keep)
        return logits, features

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, _Kept], output: tuple[Tensor, Tensor]) -> None:
        """Remember the weights and the tape."""
        w, _, ctx.kept = inputs
        ctx.save_for_backward(w)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, d_logits: Tensor | None, d_features: Tensor | None) -> tuple[Tensor | None, None, None]:
        """The gradient of w: an operation too, since a transform of torch.func passes tensors without memory."""
        if d_logits is None and d_features is None:
            return None, None, None
        (w,) = ctx.saved_tensors
        d_w = _Backward.apply(w, d_logits, d_features, ctx.kept)  # type: ignore[no-untyped-call]
        return d_w, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], w: Tensor, x: Tensor, kept: _Kept) -> Any:
        """One after the other: the kernels are fast because of their batch, not because of many parties."""
        keep = kept.keep or (torch.is_grad_enabled() and w.requires_grad)
        kept.several = [_Kept(kept.kernel, keep=keep) for _ in range(info.batch_size)]
        made = [
            _Forward.apply(_part(w, in_dims[0], k), _part(x, in_dims[1], k), one)  # type: ignore[no-untyped-call]
            for k, one in enumerate(kept.several)
        ]
        return tuple(torch.stack(parts) for parts in zip(*made, strict=True)), (0, 0)


class _Backward(Function):
    """The net's backward pass, which gives the gradient of the weights, as torch's autograd calls it."""

    @staticmethod
    def forward(w: Tensor, d_logits: Tensor | None, d_features: Tensor | None, kept: _Kept) -> Tensor:
        kernel, tape = kept.kernel, kept.take()
        if d_logits is None:
            assert d_features is not None
            d_logits = d_features.new_zeros(len(d_features), kernel.classes)
        d_w = kernel.backward(w, tape, d_logits, d_features)
        kernel.give_back(tape)
        return d_w

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Nothing needs to be remembered, as there is no second derivative."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise UserError("The compiled net has no second derivative. Use --engine sequential.")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        """One after the other, as they went forward."""
        *vectors, kept = inputs
        made = []
        for k, one in enumerate(kept.several):
            parts = [_part(v, axis, k) for v, axis in zip(vectors, in_dims, strict=False)]
            made.append(_Backward.apply(*parts, one))  # type: ignore[no-untyped-call]
        return torch.stack(made), 0


def _part(tensor: Tensor | None, axis: int | None, k: int) -> Tensor | None:
    return tensor if tensor is None or axis is None else tensor.select(axis, k)
