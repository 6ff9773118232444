"""What a compiled net is asked, and how the C code reads it: rows, steps, and what is minimised."""

from __future__ import annotations

from ctypes import Structure, c_float, c_int64, c_void_p
from dataclasses import dataclass

import torch
from torch import Tensor

from unalike.algorithms.terms import Ahead

KINDS = (torch.float32, torch.uint8, torch.int16)
"""Numbers that the kernels read."""
SHORTEST = 1e-8
"""Features that are shorter count as this long, as in ``terms.h``."""


@dataclass(frozen=True, eq=False)
class Data:
    """Rows [rows, ...] of one of ``KINDS``, labels, and (x - shift) / scale of a row where it is not made yet.

    Of sparse rows ``x`` has the numbers that are not zero (float32), row after row: row n begins at ``starts[n]``
    there and in ``columns`` (int32), and ends where the next begins.
    """

    x: Tensor
    y: Tensor
    shift: Tensor | None = None
    scale: Tensor | None = None
    starts: Tensor | None = None
    columns: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Steps:
    """Which rows each step sees, all [steps, width]; negative numbers fill up a short batch."""

    index: Tensor
    top: Tensor | None = None
    left: Tensor | None = None
    flip: Tensor | None = None
    place: Tensor | None = None
    """where a row's logits are, in a table of them that teaches"""


@dataclass(frozen=True, eq=False)
class Descent:
    """SGD on cross-entropy + strength / 2 ||w - centre||^2, with ``linear`` added to every gradient.

    ``strength`` is one number, or one for each weight. ``trains`` is where the weights that move begin and end in
    the flat vector (None: all move); the others keep their bits. ``own`` is a second model, which moves by
    ``part`` times the gradient at part own + (1 - part) w. Gradients are multiplied by ``pace`` in the end.
    """

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    strength: float | Tensor = 0.0
    centre: Tensor | None = None
    linear: Tensor | None = None
    pace: float = 1.0
    trains: tuple[int, int] | None = None
    own: Tensor | None = None
    part: float = 0.0
    near: tuple[float, Tensor] | None = None
    """(strength, target) of strength ||mean feature of a step's rows - target||^2"""
    teach: tuple[float, float, Tensor] | None = None
    """(strength, heat, each row's logits or weights that make them) of strength heat^2 KL(teacher || model)"""
    contrast: tuple[float, float, Tensor, Tensor] | None = None
    """(strength, heat, weights, weights): features are drawn to the first model's and away from the second's"""
    ahead: Ahead | None = None
    """where the gradient of a step is taken, if not at w"""
    scales: Tensor | None = None
    """what each class's logit is multiplied by before the cross-entropy"""


@dataclass(frozen=True, eq=False)
class Table:
    """A term on single rows, and the table that it looks at: ``at`` is where a row of a step is in it."""

    strength: float
    heat: float
    at: Tensor
    table: Tensor


class RowsInC(Structure):
    """The rows of a party as the C code reads them: ``struct data`` of data.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("x", "y", "shift", "scale")),
        ("kind", c_int64),
        *((name, c_void_p) for name in ("starts", "columns")),
    )


class KeptInC(Structure):
    """A term that looks at a table made before training: ``struct kept`` of terms.h."""

    _fields_ = (
        *((name, c_float) for name in ("strength", "heat")),
        *((name, c_void_p) for name in ("at", "table")),
    )


class TrainingInC(Structure):
    """A party's whole local training as the C code reads it: ``struct training`` of training.h."""

    _fields_ = (
        ("data", RowsInC),
        *((name, c_void_p) for name in ("index", "top", "left", "flip")),
        *((name, c_int64) for name in ("steps", "width", "begin")),
        *((name, c_float) for name in ("lr", "momentum", "weight_decay", "strength", "pace")),
        *((name, c_void_p) for name in ("strengths", "centre", "linear")),
        *((name, c_int64) for name in ("first", "last")),
        *(
            (name, c_void_p)
            for name in ("frozen", "w", "velocity", "d_w", "own", "own_velocity", "d_own", "mixed")
        ),
        ("part", c_float),
        *((name, c_int64) for name in ("inner", "apart")),
        *((name, c_float) for name in ("inner_lr", "inner_pull")),
        ("ahead", c_void_p),
        *((name, KeptInC) for name in ("taught", "contrast")),
        ("near", c_float),
        *((name, c_void_p) for name in ("target", "scales", "tape")),
    )
