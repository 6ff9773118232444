"""The engines, what each can do here, and the measured rule by which ``auto`` chooses one of them."""

from __future__ import annotations

from unalike.engines.compiled.compiler import NoCompiler, find_compiler

LARGEST_STACKED = 100_000
"""Nets with more weights than this run one after the other on a CPU.

Measured (docs/performance.md, ``python -m benchmarks.engines --sizes``): with up to 13 thousand weights a stack of
ten parties is at least twice as fast as one party after the other, with 80 thousand hardly faster, and beyond the
stack loses because it no longer fits the cache.
Convolutions gain nothing from stacking on a CPU, whatever their size.
"""
SHORT = 2.0
"""Seconds of training below which nothing pays: the first stacked step takes 1.5 s of imports inside PyTorch."""
LONG = 10.0
"""Seconds of training from which compiling pays: it takes 0.4 to 3 s once for a net and saves a fifth or more."""


def engines() -> dict[str, str]:
    """Every name that ``--engine`` takes, with what it means on this machine."""
    try:
        compiler = f"The C compiler here is {find_compiler()}."
    except NoCompiler as error:
        compiler = f"Not on this machine: {error}; another engine runs instead."
    return {
        "auto": (
            "The one that should be fastest. On a CPU: sequential where training takes less than about "
            f"{SHORT:g} s; compiled from about {LONG:g} s on, if net and algorithm allow it and there is "
            f"a compiler; else vectorised for nets without convolutions of at most {LARGEST_STACKED:,} weights; "
            "else sequential. On a GPU: vectorised where the net allows it. A run's record says which, and why."
        ),
        "sequential": "One party after the other. Runs every net and every algorithm: the others' reference.",
        "vectorised": (
            "All parties of a round as one stack of nets. Nets with batch norm, dropout or an LSTM, and what else "
            "PyTorch cannot stack, run on the sequential engine instead, and a line says so."
        ),
        "compiled": (
            "The net as C, compiled for this machine: float32 on a CPU, for nets that are chains of convolutions, "
            "2x2 max pooling, ReLU and linear layers. Others run on another engine, and a line says so. "
            f"{compiler}"
        ),
    }
