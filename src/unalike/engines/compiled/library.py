"""A compiled net as Python calls it: flat float32 vectors in and out, the interpreter's lock released."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import POINTER, c_double, c_int64, c_void_p
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from unalike.engines.compiled.asked import (
    SHORTEST,
    Data,
    Descent,
    RowsInC,
    Steps,
    Table,
    TrainingInC,
)
from unalike.engines.compiled.chain import Chain
from unalike.engines.compiled.memory import (
    address,
    ahead_in_c,
    checked,
    dealt_steps,
    joined,
    places,
    ready,
    ready_or_none,
    room,
    rows_in_c,
    seen,
    strength_of,
    table_in_c,
    turned,
)
from unalike.engines.compiled.source import CROP, source_of
from unalike.native.compiler import Say, load, vector_width

LARGEST_KEPT = 2**27
"""Bytes that what models make of a party's rows may take while a training goes on."""


class Kernel:
    """The compiled functions of one chain; ``frozen`` are the weights that the chain says are never trained."""

    def __init__(
        self, chain: Chain, say: Say, width: int | None = None, frozen: Mapping[str, Tensor] | None = None
    ) -> None:
        self.chain = chain
        self._frozen = joined(chain.frozen, frozen or {})
        self.classes, self.features = chain.layers[-1].made.size, chain.layers[-1].given.size
        library = load(source_of(chain, width or vector_width()), say)
        dense: tuple[tuple[str, Any, list[Any]], ...] = (
            ("forward", None, [*[c_void_p] * 3, c_int64, c_void_p, c_int64, c_void_p, c_void_p]),
            ("backward", None, [c_void_p, c_void_p, c_int64, *[c_void_p] * 4]),
        )
        for name, result, arguments in (
            *(() if chain.sparse else dense),
            ("tape", c_int64, []),
            ("block", c_int64, []),
            ("values", None, [*[c_void_p] * 2, POINTER(RowsInC), c_void_p, *[c_int64] * 2, *[c_void_p] * 2]),
            ("evaluate", None, [c_void_p, c_void_p, c_int64, c_void_p, POINTER(RowsInC), *[c_void_p] * 3]),
            ("train", c_double, [POINTER(TrainingInC)]),
            ("gradient", c_double, [POINTER(TrainingInC)]),
        ):
            function = getattr(library, f"unalike_{name}")
            function.restype, function.argtypes = result, arguments
        self._library = library
        self._tape, self._block = int(library.unalike_tape()), int(library.unalike_block())
        self._spare: dict[int, list[Tensor]] = {}

    def forward(self, w: Tensor, x: Tensor, *, keep: bool = False) -> tuple[Tensor, Tensor, Tensor | None]:
        """Logits and features; with ``keep`` also what :meth:`backward` needs."""
        w, x = ready(w), ready(x)
        if w.shape != (self.chain.size,) or x.shape[1:] != self.chain.shape:
            raise ValueError(f"the net has {self.chain.size} weights for rows of {self.chain.shape}")
        blocks = -(-len(x) // self._block) if keep else 1
        tape = self._take(max(1, blocks))
        logits, features = x.new_empty(len(x), self.classes), x.new_empty(len(x), self.features)
        self._call("forward", w, self._frozen, x, len(x), tape, int(keep), logits, features)
        if keep:
            return logits, features, tape
        self.give_back(tape)
        return logits, features, None

    def backward(self, w: Tensor, tape: Tensor, d_logits: Tensor, d_features: Tensor | None) -> Tensor:
        """The gradient with respect to w; the tape is used up."""
        w, d_logits = ready(w), ready(d_logits)
        d_features = None if d_features is None else ready(d_features)
        d_w = room(w)
        self._call("backward", w, self._frozen, len(d_logits), tape, d_logits, d_features, d_w)
        return d_w[: len(w)]

    def train(self, w: Tensor, data: Data, steps: Steps, descent: Descent) -> tuple[Tensor, float]:
        """The weights after all steps from ``w`` (and those of a second model after them), and the mean loss."""
        self._check_rows(data, steps)
        data = replace(data, shift=ready_or_none(data.shift), scale=ready_or_none(data.scale))
        first, last = self._moving(descent.trains)
        taught, contrast = self._taught(data, steps, descent), self._contrast(data, steps, descent)
        steps = dealt_steps(steps) if descent.ahead is not None and descent.ahead.apart else steps
        begin, data, steps = self._from_still_layers(w, data, steps, first)
        strength, strengths = strength_of(descent.strength)
        terms = {"centre": descent.centre, "linear": descent.linear, "strengths": strengths}
        # Named, so that none is freed before the call is over.
        vectors = {name: self._vector(name, v) for name, v in terms.items() if v is not None}
        vectors |= self._vectors(w, descent)
        plan = {
            name: checked(name, getattr(steps, name), steps.index) for name in ("index", "top", "left", "flip")
        }
        near, target = descent.near or (0.0, None)
        target = None if target is None else ready(target)
        if target is not None and target.shape != (self.features,):
            raise ValueError(f"the target must have a number for each of {self.features} features: {target.shape}")
        scales = ready_or_none(descent.scales)
        if scales is not None and scales.shape != (self.classes,):
            raise ValueError(f"scales must have a number for each of {self.classes} classes: {scales.shape}")
        if descent.own is not None and (taught or contrast or target is not None or scales is not None):
            raise ValueError("beside a second model there can be no term on features, logits or on what is taught")
        tape = self._take(1 if target is None else -(-steps.index.shape[1] // self._block))
        training = TrainingInC(
            data=rows_in_c(data),
            **{name: address(value) for name, value in (plan | vectors).items()},
            steps=steps.index.shape[0],
            width=steps.index.shape[1],
            begin=begin,
            lr=descent.lr,
            momentum=descent.momentum,
            weight_decay=descent.weight_decay,
            strength=strength,
            part=descent.part,
            pace=descent.pace,
            **ahead_in_c(descent.ahead),
            first=first,
            last=last,
            taught=table_in_c(taught),
            contrast=table_in_c(contrast),
            near=near,
            target=address(target),
            scales=address(scales),
            frozen=address(self._frozen),
            tape=address(tape),
        )
        loss = self._library.unalike_train(ctypes.byref(training))
        self.give_back(tape)
        after = [self._as_torch_has_it(vectors[name]) for name in ("w", "own") if name in vectors]
        return torch.cat(after) if len(after) > 1 else after[0], float(loss)

    def gradient(self, w: Tensor, data: Data) -> Tensor:
        """The gradient of the mean cross-entropy of all rows."""
        rows = torch.arange(len(data.y))
        self._check_rows(data, Steps(rows[None]))
        w, d_w, tape = self._vector("w", w), room(w), self._take(1)
        training = TrainingInC(
            data=rows_in_c(data),
            index=address(rows),
            steps=1,
            width=len(rows),
            last=len(w),
            frozen=address(self._frozen),
            w=address(w),
            d_w=address(d_w),
            tape=address(tape),
        )
        self._library.unalike_gradient(ctypes.byref(training))
        self.give_back(tape)
        return self._as_torch_has_it(d_w[: len(w)])

    def judge(self, models: Sequence[Tensor], ends: Tensor, data: Data, rows: Tensor) -> Tensor:
        """[rows, 2]: the loss of each row, and 1 where the answer is right, else 0.

        The rows up to ``ends[m]`` are tried under model m, from where those of the model before end.
        """
        vectors = [self._vector("a model", w) for w in models]
        if ends.shape != (len(vectors),) or (len(ends) and int(ends[-1]) != len(rows)):
            raise ValueError("there must be an end for each model, and the last must be that of the rows")
        self._check_rows(data, Steps(rows[None]))
        scores, tape = torch.empty(len(rows), 2), self._take(1)
        at = torch.tensor([w.data_ptr() for w in vectors], dtype=torch.int64)
        self._call("evaluate", at, ends, len(at), self._frozen, rows_in_c(data), rows, tape, scores)
        self.give_back(tape)
        return scores

    def _from_still_layers(self, w: Tensor, data: Data, steps: Steps, first: int) -> tuple[int, Data, Steps]:
        """The first layer that moves, and in place of rows what they are before it, computed once for each row.

        So where layers below it have their weights before ``first``, which stay, and see the same row again: the
        bits are those of running them in each step. Elsewhere it is layer 0, and the rows themselves.
        """
        begin = self.chain.still(first)
        if not begin or steps.top is not None:
            return 0, data, steps
        rows = seen(steps)
        size = self.chain.layers[begin].given.size
        if len(rows) == int((steps.index >= 0).sum()) or len(rows) * size * 4 > LARGEST_KEPT:
            return 0, data, steps
        values = self._values(w, data, rows, begin)
        return begin, Data(values, data.y[rows]), Steps(places(rows, steps.index))

    def keeps(self, steps: Steps, descent: Descent) -> bool:
        """Whether the tables that the terms of a descent look at can be made before it, and have room."""
        table = descent.teach is not None and descent.teach[2].dim() == 2
        width = (descent.teach is not None and not table) * self.classes + 2 * self.features * bool(
            descent.contrast
        )
        return not width or (steps.top is None and steps.index.numel() * width * 4 <= LARGEST_KEPT)

    def _values(self, w: Tensor, data: Data, rows: Tensor, end: int) -> Tensor:
        """What rows are before a layer, under some weights; after the last layer they are logits."""
        size = self.classes if end == len(self.chain.layers) else self.chain.layers[end].given.size
        w, values, tape = self._vector("w", w), torch.empty(len(rows), size), self._take(1)
        self._call("values", w, self._frozen, rows_in_c(data), rows, len(rows), end, tape, values)
        self.give_back(tape)
        return values

    def _taught(self, data: Data, steps: Steps, descent: Descent) -> Table | None:
        """The teacher's probabilities for every row that the steps see."""
        if descent.teach is None:
            return None
        strength, heat, teacher = descent.teach
        if teacher.dim() == 2:
            logits, at = teacher, checked("place", steps.place, steps.index)
            if at is None or logits.shape[1:] != (self.classes,) or len(logits) <= int(at.max()):
                raise ValueError("a table that teaches must have logits for every place of a row")
        else:
            rows = seen(steps)
            logits = self._values(teacher, data, rows, len(self.chain.layers))
            at = places(rows, steps.index)
        told = (logits / heat).softmax(dim=1)
        known = torch.xlogy(told, told).sum(dim=1, keepdim=True)
        return Table(strength, heat, at, ready(torch.cat([told, known], dim=1)))

    def _contrast(self, data: Data, steps: Steps, descent: Descent) -> Table | None:
        """Both models' features of every row that the steps see, made as long as 1."""
        if descent.contrast is None:
            return None
        strength, heat, *models = descent.contrast
        rows = seen(steps)
        values = (self._values(w, data, rows, len(self.chain.layers) - 1) for w in models)
        near, far = (functional.normalize(part, dim=1, eps=SHORTEST) for part in values)
        return Table(strength, heat, places(rows, steps.index), far - near)

    def _vectors(self, w: Tensor, descent: Descent) -> dict[str, Tensor]:
        """The vectors that steps change: of the one model, and of the second where there is one."""
        made = {"w": self._own("w", w), "d_w": room(w)}
        if descent.ahead is not None:
            others = (descent.own, descent.trains, descent.near, descent.teach, descent.contrast, descent.scales)
            if any(term is not None for term in others):
                raise ValueError("where a step looks ahead, all weights must move by no other term on rows")
            made["ahead"] = room(w)
        if descent.momentum:
            made["velocity"] = torch.zeros_like(w)
        if descent.own is None:
            return made
        if descent.trains is not None:
            raise ValueError("beside a second model all weights must move")
        made |= {"own": self._own("own", descent.own), "d_own": room(w)}
        made["mixed"] = room(w)
        return made | ({"own_velocity": torch.zeros_like(w)} if descent.momentum else {})

    def _check_rows(self, data: Data, steps: Steps) -> None:
        given, sparse = self.chain.input, data.starts is not None and data.columns is not None
        rows = len(data.x) if data.starts is None else len(data.starts) - 1
        numbers = data.x.numel() == (len(data.x) if sparse else rows * given.size)
        if sparse != self.chain.sparse or rows != len(data.y) or not numbers or not data.x.is_contiguous():
            raise ValueError("rows and labels do not fit the net")
        if steps.top is not None and min(given.height, given.width) <= CROP:
            raise ValueError("the images are too small to be cropped")
        if steps.index.numel() and len(data.y) <= int(steps.index.max()):
            raise ValueError("there are fewer rows than the steps ask for")

    def _vector(self, name: str, vector: Tensor) -> Tensor:
        """A vector with a number for each weight, as C reads it."""
        if vector.shape != (self.chain.size,):
            raise ValueError(f"{name} must have a number for each of {self.chain.size} weights: {vector.shape}")
        return turned(ready(vector), self.chain.layers[0]) if self.chain.sparse else ready(vector)

    def _own(self, name: str, vector: Tensor) -> Tensor:
        """The same, for the call to change."""
        return self._vector(name, vector) if self.chain.sparse else self._vector(name, vector).clone()

    def _as_torch_has_it(self, vector: Tensor) -> Tensor:
        return turned(vector, self.chain.layers[0], back=True) if self.chain.sparse else vector

    def _moving(self, trains: tuple[int, int] | None) -> tuple[int, int]:
        """Where the weights that move begin and end. Where none does, that is the end: nothing goes back there."""
        size = self.chain.size
        start, stop = (0, size) if trains is None else trains
        if not 0 <= start <= stop <= size:
            raise ValueError(f"the weights that move must lie within 0 and {size}, in order: {start} to {stop}")
        first = self.chain.layers[0]
        if self.chain.sparse and any(first.weight < at < first.weight + first.weights for at in (start, stop)):
            raise ValueError("a first layer on sparse rows moves as a whole, or not at all")
        return (start, stop) if start < stop else (size, size)

    def _call(self, name: str, *arguments: object) -> None:
        """A function of the library, which is given the addresses of tensors."""
        function = getattr(self._library, f"unalike_{name}")
        function(*(address(one) if isinstance(one, Tensor) else one for one in arguments))

    def _take(self, blocks: int) -> Tensor:
        """Memory for so many blocks: fresh pages cost more than a small net's whole step, so it is used again."""
        try:
            return self._spare.setdefault(blocks, []).pop()
        except IndexError:
            return torch.zeros(blocks * self._tape)

    def give_back(self, tape: Tensor) -> None:
        """A tape that nobody needs any more."""
        self._spare.setdefault(len(tape) // self._tape, []).append(tape)
