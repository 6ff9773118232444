"""Derivatives of losses by the compiled core, with the bits of those in numpy."""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unalike.trees import library
from unalike.trees.library import Array, address, plain

GRADIENTS: Final = {
    "binary": "gradients_binary",
    "softmax": "gradients_softmax",
    "squared-error": "gradients_squares",
    "poisson": "gradients_poisson",
}
BLOCK: Final = 512
"""Rows whose exponentials the core keeps at a time (BLOCK in objective.h)."""
_WORTH: Final = 5
"""A derivative takes as long as so many numbers in a histogram."""
_BUFFERS: list[NDArray[np.int32]] = []
_BUFFERS_LOCK = threading.Lock()
_MOST_BUFFERS: Final = 4


def _holders(buffers: list[NDArray[np.int32]]) -> list[int]:
    """How many references there are to each buffer; Pythons differ in which of their own they count."""
    return [sys.getrefcount(buffer) for buffer in buffers]


_NOBODY_ELSE: Final = _holders([np.empty(0, np.int32)])[0]
"""References to a buffer in a list that nobody else holds."""


def _used_again(shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Room for int32 numbers, in memory of earlier ones that nobody holds any more: fresh pages are dear."""
    need = int(np.prod(shape))
    with _BUFFERS_LOCK:
        for buffer, holders in zip(_BUFFERS, _holders(_BUFFERS), strict=True):
            if holders == _NOBODY_ELSE and need <= buffer.size <= 2 * need:
                return buffer[:need].reshape(shape)
        buffer = np.empty(need, np.int32)
        _BUFFERS.append(buffer)
        del _BUFFERS[:-_MOST_BUFFERS]
        return buffer.reshape(shape)


def gradients(
    name: str,
    margins: Array,
    y: Array,
    weights: Array | None,
    numbers: tuple[float, ...] = (),
    threads: int | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int32]] | None:
    """First and second derivatives on the grid; None without a core, or where a row pulls too much."""
    if (core := library.core()) is None:
        return None
    rows, outputs = margins.shape
    margins = plain(margins, np.float64)
    y = plain(y, np.int64 if name in ("binary", "softmax") else np.float64)
    weights = None if weights is None else plain(weights, np.float64)
    if len(y) != rows or (weights is not None and len(weights) != rows):
        return None
    g, h = _used_again((2, outputs, rows))
    threads = min(threads or library.threads_for(margins.size * _WORTH), library.MOST_THREADS)
    more: list[Any] = [ctypes.c_double(number) for number in numbers]
    if name == "softmax":
        raised = np.empty((threads, outputs, BLOCK))
        more = [ctypes.c_int64(outputs), address(raised)]
    call = getattr(core, GRADIENTS[name])
    given = address(margins), address(y), address(weights), ctypes.c_int64(rows)
    wrong = call(*given, *more, address(g), address(h), ctypes.c_int64(threads))
    return None if wrong else (g, h)
