"""A compiled net as Python calls it: flat float32 vectors in and out, the interpreter's lock released."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_double, c_int64, c_void_p

import torch
from torch import Tensor
from torch.nn import functional

from unalike.engines.compiled.asked import (
    KINDS,
    SHORTEST,
    Data,
    Descent,
    KeptInC,
    RowsInC,
    Steps,
    Tables,
    TrainingInC,
)
from unalike.engines.compiled.chain import Chain
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
        self._frozen = _joined(chain.frozen, frozen or {})
        self.classes, self.features = chain.layers[-1].made.size, chain.layers[-1].given.size
        library = load(source_of(chain, width or vector_width()), say)
        for name, result, arguments in (
            ("tape", c_int64, []),
            ("block", c_int64, []),
            ("forward", None, [*[c_void_p] * 3, c_int64, c_void_p, c_int64, c_void_p, c_void_p]),
            ("backward", None, [c_void_p, c_void_p, c_int64, *[c_void_p] * 4]),
            ("values", None, [*[c_void_p] * 2, POINTER(RowsInC), c_void_p, *[c_int64] * 2, *[c_void_p] * 2]),
            ("train", c_double, [POINTER(TrainingInC)]),
        ):
            function = getattr(library, f"unalike_{name}")
            function.restype, function.argtypes = result, arguments
        self._library = library
        self._tape, self._block = int(library.unalike_tape()), int(library.unalike_block())
        self._spare: dict[int, list[Tensor]] = {}

    def forward(self, w: Tensor, x: Tensor, *, keep: bool = False) -> tuple[Tensor, Tensor, Tensor | None]:
        """Logits and features; with ``keep`` also what :meth:`backward` needs."""
        w, x = _ready(w), _ready(x)
        if w.shape != (self.chain.size,) or x.shape[1:] != self.chain.shape:
            raise ValueError(f"the net has {self.chain.size} weights for rows of {self.chain.shape}")
        blocks = -(-len(x) // self._block) if keep else 1
        tape = self._take(max(1, blocks))
        logits, features = x.new_empty(len(x), self.classes), x.new_empty(len(x), self.features)
        self._library.unalike_forward(
            _at(w), _at(self._frozen), _at(x), len(x), _at(tape), int(keep), _at(logits), _at(features)
        )
        if keep:
            return logits, features, tape
        self.give_back(tape)
        return logits, features, None

    def backward(self, w: Tensor, tape: Tensor, d_logits: Tensor, d_features: Tensor | None) -> Tensor:
        """The gradient with respect to w; the tape is used up."""
        w, d_logits = _ready(w), _ready(d_logits)
        d_features = None if d_features is None else _ready(d_features)
        d_w = torch.empty_like(w)
        self._library.unalike_backward(
            _at(w), _at(self._frozen), len(d_logits), _at(tape), _at(d_logits), _at(d_features), _at(d_w)
        )
        return d_w

    def train(self, w: Tensor, data: Data, steps: Steps, descent: Descent) -> tuple[Tensor, float]:
        """The weights after all steps from ``w`` (and those of a second model after them), and the mean loss."""
        self._check_rows(data, steps)
        data = Data(data.x, data.y, *(None if v is None else _ready(v) for v in (data.shift, data.scale)))
        first, last = self._moving(descent.trains)
        taught, contrast = self._taught(data, steps, descent), self._contrast(data, steps, descent)
        begin, data, steps = self._from_still_layers(w, data, steps, first)
        strength, strengths = _strength(descent.strength)
        terms = {"centre": descent.centre, "linear": descent.linear, "strengths": strengths}
        # Named, so that none is freed before the call is over.
        vectors = {name: self._vector(name, v) for name, v in terms.items() if v is not None}
        vectors |= self._vectors(w, descent)
        plan = {
            name: _checked(name, getattr(steps, name), steps.index) for name in ("index", "top", "left", "flip")
        }
        near, target = descent.near or (0.0, None)
        target = None if target is None else _ready(target)
        if target is not None and target.shape != (self.features,):
            raise ValueError(f"the target must have a number for each of {self.features} features: {target.shape}")
        scales = None if descent.scales is None else _ready(descent.scales)
        if scales is not None and scales.shape != (self.classes,):
            raise ValueError(f"scales must have a number for each of {self.classes} classes: {scales.shape}")
        if descent.own is not None and (taught or contrast or target is not None or scales is not None):
            raise ValueError("beside a second model there can be no term on features, logits or on what is taught")
        tape = self._take(1 if target is None else -(-steps.index.shape[1] // self._block))
        training = TrainingInC(
            data=_read(data),
            **{name: _at(value) for name, value in (plan | vectors).items()},
            steps=steps.index.shape[0],
            width=steps.index.shape[1],
            begin=begin,
            lr=descent.lr,
            momentum=descent.momentum,
            weight_decay=descent.weight_decay,
            strength=strength,
            part=descent.part,
            first=first,
            last=last,
            taught=_table(taught),
            contrast=_table(contrast),
            near=near,
            target=_at(target),
            scales=_at(scales),
            frozen=_at(self._frozen),
            tape=_at(tape),
        )
        loss = self._library.unalike_train(ctypes.byref(training))
        self.give_back(tape)
        after = [vectors[name] for name in ("w", "own") if name in vectors]
        return torch.cat(after) if len(after) > 1 else after[0], float(loss)

    def _from_still_layers(self, w: Tensor, data: Data, steps: Steps, first: int) -> tuple[int, Data, Steps]:
        """The first layer that moves, and in place of rows what they are before it, computed once for each row.

        So where layers below it have their weights before ``first``, which stay, and see the same row again: the
        bits are those of running them in each step. Elsewhere it is layer 0, and the rows themselves.
        """
        begin = self.chain.still(first)
        if not begin or steps.top is not None:
            return 0, data, steps
        rows = _seen(steps)
        size = self.chain.layers[begin].given.size
        if len(rows) == int((steps.index >= 0).sum()) or len(rows) * size * 4 > LARGEST_KEPT:
            return 0, data, steps
        values = self._values(w, data, rows, begin)
        return begin, Data(values, data.y[rows]), Steps(_places(rows, steps.index))

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
        self._library.unalike_values(
            _at(w), _at(self._frozen), _read(data), _at(rows), len(rows), end, _at(tape), _at(values)
        )
        self.give_back(tape)
        return values

    def _taught(self, data: Data, steps: Steps, descent: Descent) -> Tables | None:
        """The teacher's probabilities for every row that the steps see."""
        if descent.teach is None:
            return None
        strength, heat, teacher = descent.teach
        if teacher.dim() == 2:
            logits, at = teacher, _checked("place", steps.place, steps.index)
            if at is None or logits.shape[1:] != (self.classes,) or len(logits) <= int(at.max()):
                raise ValueError("a table that teaches must have logits for every place of a row")
        else:
            rows = _seen(steps)
            logits = self._values(teacher, data, rows, len(self.chain.layers))
            at = _places(rows, steps.index)
        return Tables(strength, heat, at, _ready((logits / heat).softmax(dim=1)))

    def _contrast(self, data: Data, steps: Steps, descent: Descent) -> Tables | None:
        """Both models' features of every row that the steps see, made as long as 1."""
        if descent.contrast is None:
            return None
        strength, heat, *models = descent.contrast
        rows = _seen(steps)
        near, far = (self._values(w, data, rows, len(self.chain.layers) - 1) for w in models)
        at = _places(rows, steps.index)
        return Tables(
            strength, heat, at, *(functional.normalize(part, dim=1, eps=SHORTEST) for part in (near, far))
        )

    def _vectors(self, w: Tensor, descent: Descent) -> dict[str, Tensor]:
        """The vectors that steps change: of the one model, and of the second where there is one."""
        made = {"w": self._vector("w", w).clone(), "d_w": torch.empty_like(w)}
        if descent.momentum:
            made["velocity"] = torch.zeros_like(w)
        if descent.own is None:
            return made
        if descent.trains is not None:
            raise ValueError("beside a second model all weights must move")
        made |= {"own": self._vector("own", descent.own).clone(), "d_own": torch.empty_like(w)}
        made["mixed"] = torch.empty_like(w)
        return made | ({"own_velocity": torch.zeros_like(w)} if descent.momentum else {})

    def _check_rows(self, data: Data, steps: Steps) -> None:
        given = self.chain.input
        if len(data.x) != len(data.y) or data.x.numel() != len(data.x) * given.size or not data.x.is_contiguous():
            raise ValueError("rows and labels do not fit the net")
        if steps.top is not None and min(given.height, given.width) <= CROP:
            raise ValueError("the images are too small to be cropped")
        if len(data.y) <= int(steps.index.max()):
            raise ValueError("there are fewer rows than the steps ask for")

    def _vector(self, name: str, vector: Tensor) -> Tensor:
        """A vector with a number for each weight, as C reads it."""
        if vector.shape != (self.chain.size,):
            raise ValueError(f"{name} must have a number for each of {self.chain.size} weights: {vector.shape}")
        return _ready(vector)

    def _moving(self, trains: tuple[int, int] | None) -> tuple[int, int]:
        """Where the weights that move begin and end. Where none does, that is the end: nothing goes back there."""
        size = self.chain.size
        start, stop = (0, size) if trains is None else trains
        if not 0 <= start <= stop <= size:
            raise ValueError(f"the weights that move must lie within 0 and {size}, in order: {start} to {stop}")
        return (start, stop) if start < stop else (size, size)

    def _take(self, blocks: int) -> Tensor:
        """Memory for so many blocks: fresh pages cost more than a small net's whole step, so it is used again."""
        try:
            return self._spare.setdefault(blocks, []).pop()
        except IndexError:
            return torch.zeros(blocks * self._tape)

    def give_back(self, tape: Tensor) -> None:
        """A tape that nobody needs any more."""
        self._spare.setdefault(len(tape) // self._tape, []).append(tape)


def _seen(steps: Steps) -> Tensor:
    """The numbers of the rows that steps see, each once, ascending."""
    rows: Tensor = steps.index[steps.index >= 0].unique()  # type: ignore[no-untyped-call]
    return rows


def _places(rows: Tensor, index: Tensor) -> Tensor:
    """Where the rows of steps are among ``rows``; numbers that fill up stay as they are."""
    return torch.where(index < 0, index, torch.searchsorted(rows, index))


def _table(kept: Tables | None) -> KeptInC:
    if kept is None:
        return KeptInC()
    return KeptInC(kept.strength, kept.heat, *map(_at, (kept.at, kept.first, kept.second)))


def _joined(parts: tuple[tuple[str, int], ...], named: Mapping[str, Tensor]) -> Tensor | None:
    """The named parts as one vector, if there are any."""
    for name, size in parts:
        if name not in named or named[name].numel() != size:
            raise ValueError(f"{name} is frozen: its {size} weights must be given")
    return torch.cat([_ready(named[name]).reshape(-1) for name, _ in parts]) if parts else None


def _read(data: Data) -> RowsInC:
    """The rows as C reads them; what they are made of must be kept until then."""
    return RowsInC(*map(_at, (data.x, data.y, data.shift, data.scale)), KINDS.index(data.x.dtype))


def _strength(strength: float | Tensor) -> tuple[float, Tensor | None]:
    """One number for all weights; or 1, and a number for each of them."""
    if isinstance(strength, Tensor) and strength.dim():
        return 1.0, strength
    return float(strength), None


def _ready(vector: Tensor) -> Tensor:
    """The vector as C reads it."""
    if vector.dtype != torch.float32 or vector.device.type != "cpu":
        raise ValueError(f"the kernels take float32 on the CPU, got {vector.dtype} on {vector.device}")
    return vector.detach().contiguous()


def _checked(name: str, plan: Tensor | None, index: Tensor) -> Tensor | None:
    kind = torch.bool if name == "flip" else torch.int64
    if plan is not None and (plan.dtype != kind or plan.shape != index.shape or not plan.is_contiguous()):
        raise ValueError(f"{name} must be contiguous {kind} of shape {tuple(index.shape)}")
    return plan


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
