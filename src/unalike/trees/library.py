"""The compiled core of trees as Python calls it; without a compiler there is none, and numpy does the work."""

from __future__ import annotations

import ctypes
import os
import sys
from collections import deque
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unalike.models.trees import Trees
from unalike.native.compiler import NoCompiler, load
from unalike.trees import arithmetic
from unalike.trees.bins import Binned
from unalike.trees.split import channels_of, directions, first_bounds, is_bounded, least_sum
from unalike.trees.tree import Tree, most_leaves, most_nodes

PARTS: Final = (
    "rows.h",
    "team.h",
    "histogram.h",
    "partition.h",
    "split.h",
    "growth.h",
    "moving.h",
    "margins.h",
    "grow.h",
    "steps.h",
    "objective.h",
    "walk.h",
)
MOST_THREADS: Final = 64
"""As many as the core has, whoever asks for more (MOST_THREADS in rows.h)."""
FLAGS: Final = ("-ffp-contract=off", "-pthread")
"""Products and sums are rounded one by one, as in numpy."""
_WORTH_A_THREAD: Final = 200_000
"""Numbers in binned rows below which a second thread costs more than it brings."""

Array = NDArray[Any]


class _RowsC(ctypes.Structure):
    _numbers = ("rows", "places", "slots", "features", "wide")
    _arrays = (
        "codes",
        "columns",
        "place",
        "first",
        "used",
        "default",
        "before",
        "base",
        "slot_bin",
        "slot_full",
        "offsets",
    )
    _fields_ = [*((n, ctypes.c_int64) for n in _numbers), *((n, ctypes.c_void_p) for n in _arrays)]


class _SettingsC(ctypes.Structure):
    _numbers = ("depth", "most_leaves", "by_leaf", "channels", "least_sum", "least_rows", "bounded")
    _fields_ = [
        *((n, ctypes.c_int64) for n in _numbers),
        *((n, ctypes.c_double) for n in ("l2", "gain", "eta", "lower", "upper")),
    ]


class _TreeC(ctypes.Structure):
    _arrays = ("feature", "bin", "left", "right", "missing_left", "value", "gain", "cover", "rows")
    _fields_ = [(n, ctypes.c_void_p) for n in _arrays]


def source() -> str:
    """The C source of the core: the constants of the arithmetic, then the kernels."""
    folder = files("unalike.trees") / "kernels"
    constants = {"LOG2_E": arithmetic.LOG2_E, "LN2_HIGH": arithmetic.LN2_HIGH, "LN2_LOW": arithmetic.LN2_LOW}
    lines = [f"#define {name} {value.hex()}" for name, value in constants.items()]
    lines.append(f"#define EXP_TERMS {', '.join(term.hex() for term in arithmetic.EXP_TERMS)}")
    return "\n".join([*lines, *((folder / part).read_text(encoding="utf-8") for part in PARTS)])


def _tell(line: str) -> None:
    print(line, file=sys.stderr)


@cache
def core() -> ctypes.CDLL | None:
    """The compiled core, or None where this machine has no compiler; one line says so, once."""
    try:
        library = load(source(), _tell, "trees", FLAGS)
    except NoCompiler as problem:
        _tell(f"Trees are grown by numpy: {problem}. The trees are the same, it takes about ten times as long.")
        return None
    library.arena_new.restype = ctypes.c_void_p
    library.walk_rows.restype = None
    for name in ("grow_tree", "histogram_of", "divide_rows", "find_leaves"):
        getattr(library, name).restype = ctypes.c_int64
    for name in ("binary", "softmax", "squares", "poisson"):
        getattr(library, f"gradients_{name}").restype = ctypes.c_int64
    return library


def threads_for(numbers: int) -> int:
    """How many threads so many numbers are worth: those of OMP_NUM_THREADS, else of the machine; few have one."""
    if numbers < _WORTH_A_THREAD:
        return 1
    named = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if named.isdecimal() and int(named):
        return int(named)
    cores = os.cpu_count() or 1
    busy = (
        int(os.getloadavg()[0]) if hasattr(os, "getloadavg") else 0
    )  # a thread that waits for a core holds up all
    return max(1, min(cores, cores + 1 - busy))


class _Arena:
    """The C core's memory for growing, given back when nobody needs it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.pointer = ctypes.c_void_p(library.arena_new())

    def __del__(self) -> None:
        self.library.arena_free(self.pointer)


class Handle:
    """Binned rows as the core sees them, and memory that is used again; made once for each :class:`Binned`."""

    def __init__(self, library: ctypes.CDLL, binned: Binned) -> None:
        self.library = library
        cuts = binned.cuts
        before = [
            int(np.searchsorted(binned.slot_bin[first : first + used], default))
            for first, used, default in zip(binned.first, binned.used, binned.default, strict=True)
        ]
        self.arrays = {
            **{
                name: np.ascontiguousarray(getattr(binned, name))
                for name in _RowsC._arrays
                if hasattr(binned, name)
            },
            "before": np.array(before, np.int32),
            "offsets": cuts.offsets,
        }
        wide = int(binned.codes.dtype == np.uint16)
        numbers = (binned.rows, binned.places, binned.slots, cuts.features, wide)
        self.rows = _RowsC(*numbers, *(self.arrays[name].ctypes.data for name in _RowsC._arrays))
        self.idle: deque[_Arena] = deque()

    def arena(self) -> _Arena:
        """Memory that no other thread uses now; put it back into ``idle`` afterwards."""
        try:
            return self.idle.pop()
        except IndexError:
            return _Arena(self.library)


def handle_of(binned: Binned) -> Handle | None:
    """The core's view of these rows; None without a core."""
    if (library := core()) is None:
        return None
    if "handle" not in binned.kept:
        binned.kept["handle"] = Handle(library, binned)
    found: Handle = binned.kept["handle"]
    return found


def address(array: Array | None) -> ctypes.c_void_p:
    """Where an array lies, for a call of the core."""
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


def plain(array: Array, dtype: type) -> Array:
    """The array in one piece and of that type, as the core reads it."""
    return np.ascontiguousarray(array, dtype)


def _checked(
    handle: Handle, g: Array, h: Array, rows: Array | None, margins: Array | None = None
) -> tuple[Array, Array, Array | None]:
    """Derivatives and row numbers as the core reads them: it must not read beyond the end of what it gets."""
    count = int(handle.rows.rows)
    rows = None if rows is None else plain(rows, np.int32)
    if rows is not None and len(rows) and not 0 <= rows.min() <= rows.max() < count:
        raise ValueError(f"There are {count} rows, and not those from {rows.min()} to {rows.max()}.")
    if len(g) != count or len(h) != count or (margins is not None and margins.shape != (count,)):
        raise ValueError(f"{count} rows are binned; derivatives or margins are of another number.")
    return plain(g, np.int32), plain(h, np.int32), rows


def grow_tree(
    handle: Handle,
    g: Array,
    h: Array,
    settings: Trees,
    allowed: Array | None,
    rows: Array | None,
    before: Array | None,
    margins: Array | None,
    threads: int,
) -> Tree:
    """A whole tree; ``margins``, float64 with any stride, become those ``before`` and what the tree says."""
    features, nodes = int(handle.rows.features), most_nodes(settings)
    told = _SettingsC(
        settings.depth,
        most_leaves(settings),
        settings.grow == "leaves",
        channels_of(settings),
        least_sum(settings),
        settings.least_rows,
        is_bounded(settings),
        settings.l2,
        settings.gain,
        settings.eta,
        *first_bounds(settings),
    )
    tree, signs = Tree.empty(settings), directions(settings, features)
    parts = _TreeC(*(getattr(tree, name).ctypes.data for name in _TreeC._arrays))
    may = np.ones(features, np.uint8) if allowed is None else plain(allowed, np.uint8)
    g, h, rows = _checked(handle, g, h, rows, margins)
    count = int(handle.rows.rows) if rows is None else len(rows)
    stride = 0 if margins is None else margins.strides[0] // 8
    laid = [None if one is None else (one.shape, one.strides, one.dtype) for one in (before, margins)]
    if laid[0] != laid[1]:
        raise ValueError("The margins before a tree must lie as those after it do.")
    arena = handle.arena()
    made = handle.library.grow_tree(
        ctypes.byref(handle.rows),
        ctypes.byref(told),
        address(g),
        address(h),
        address(may),
        address(signs),
        address(rows),
        ctypes.c_int64(count),
        ctypes.c_int64(nodes),
        ctypes.byref(parts),
        address(before),
        address(margins),
        ctypes.c_int64(stride),
        ctypes.c_int64(threads),
        arena.pointer,
    )
    handle.idle.append(arena)
    if made < 0:
        raise MemoryError("There is not enough memory to grow a tree of this depth.")
    return tree


def histogram(handle: Handle, g: Array, h: Array, rows: Array, channels: int, threads: int) -> NDArray[np.int64]:
    """The full histogram of some rows, int64 [slots, channels]."""
    full = np.zeros((int(handle.arrays["offsets"][-1]), channels), np.int64)
    g, h, chosen = _checked(handle, g, h, rows)
    arena = handle.arena()
    numbers = [ctypes.c_int64(n) for n in (len(rows), channels)]
    fine = handle.library.histogram_of(
        ctypes.byref(handle.rows),
        address(g),
        address(h),
        address(chosen),
        *numbers,
        address(full),
        ctypes.c_int64(threads),
        arena.pointer,
    )
    handle.idle.append(arena)
    if not fine:
        raise MemoryError("There is not enough memory for a histogram of these rows.")
    return full


def divide_rows(
    handle: Handle,
    feature: int,
    bin: int,
    missing_left: bool,
    order: NDArray[np.int32],
    scratch: NDArray[np.int32],
) -> int:
    """Put the rows that go left first, in place, both sides in their order; how many go left."""
    numbers = [ctypes.c_int64(n) for n in (feature, bin, missing_left)]
    return int(
        handle.library.divide_rows(
            ctypes.byref(handle.rows), *numbers, address(order), ctypes.c_int64(len(order)), address(scratch)
        )
    )


def leaves(handle: Handle, tree: Tree) -> NDArray[np.int32]:
    """The leaf that each row ends in."""
    found = np.empty(int(handle.rows.rows), np.int32)
    _find_leaves(handle, tree, found, None)
    return found


def add_values(handle: Handle, tree: Tree, margins: Array) -> None:
    """Add what the tree says to each row's margin, float64, in place."""
    _find_leaves(handle, tree, None, margins)


def _find_leaves(handle: Handle, tree: Tree, found: Array | None, margins: Array | None) -> None:
    held = {name: np.ascontiguousarray(getattr(tree, name)) for name in _TreeC._arrays}
    parts = _TreeC(*(held[name].ctypes.data for name in _TreeC._arrays))
    stride = 0 if margins is None else margins.strides[0] // 8
    numbers = ctypes.c_int64(len(tree.left)), address(found), address(margins), ctypes.c_int64(stride)
    arena = handle.arena()
    fine = handle.library.find_leaves(ctypes.byref(handle.rows), ctypes.byref(parts), *numbers, arena.pointer)
    handle.idle.append(arena)
    if not fine:
        raise MemoryError("There is not enough memory to look for the leaves of these rows.")
