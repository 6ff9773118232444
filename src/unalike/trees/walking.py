"""Walks of many rows down trained trees by the compiled core."""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np

from unalike.trees.library import Array, address, core, plain

_WORTH_LOADING: Final = 2**24
_WORTH_A_CALL: Final = 2**12
"""Walks of a row down a tree, if the core must be loaded first, or is there."""


def core_for(walks: int) -> ctypes.CDLL | None:
    """The core, where so many walks of a row down a tree are worth it: to compile it takes seconds."""
    loaded = core.cache_info().currsize > 0
    return core() if walks >= (_WORTH_LOADING if not loaded else _WORTH_A_CALL) else None


STEP: Final = np.dtype(
    [
        ("threshold", "f4"),
        ("column", "i4"),
        ("missing_left", "i4"),
        ("right", "i4"),
        ("left", "i4"),
        ("value", "f8"),
    ]
)
"""A node as the core walks on it; both ways from a leaf lead to itself."""


def walk(library: ctypes.CDLL, x: Array, steps: Array, depth: Array, first: int, found: Array) -> None:
    """Add what trees say of rows to ``found`` [rows, outputs] in place; the first of them is tree ``first``.

    ``steps`` are their nodes [trees, nodes]; ``depth`` is of how many steps the longest walk in each tree is.
    """
    x, depth, steps = plain(x, np.float32), plain(depth, np.int64), np.ascontiguousarray(steps, STEP)
    if not found.flags.c_contiguous or found.dtype != np.float64 or len(found) != len(x):
        raise ValueError(f"what trees say needs {len(x)} rows of float64 in one piece")
    rows, features, trees, nodes = (ctypes.c_int64(n) for n in (*x.shape, *steps.shape))
    more = ctypes.c_int64(first), ctypes.c_int64(found.shape[1])
    library.walk_rows(
        address(x), rows, features, address(steps), trees, nodes, address(depth), *more, address(found)
    )
