"""The engines by name: where each is, and what it can do here. Nothing heavy is imported to read this."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from unalike.errors import unknown
from unalike.native.compiler import NoCompiler, find_compiler

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


PREPARED = "prepared"
RULES = ("auto", PREPARED)
"""What ``--engine`` takes beside engines: a rule that chooses one."""


class Known(NamedTuple):
    """An engine: the class that is it, and what ``list engines`` says of it on this machine.

    The class has ``of(job, say)``, which makes the engine for a job or raises ``Unfit``.
    """

    home: str
    told: Callable[[], str]


def _auto() -> str:
    return (
        "The one that should be fastest. On a CPU: sequential where training takes less than about "
        f"{SHORT:g} s; compiled from about {LONG:g} s on, if net and algorithm allow it, there is a compiler, "
        "and no convolution has more than 64 channels; else vectorised for nets without convolutions of at "
        f"most {LARGEST_STACKED:,} weights; else sequential. On a GPU: vectorised where the net allows it. A "
        "run's record says which, and why."
    )


def _prepared() -> str:
    return (
        "As auto, for a study of many short runs of the same nets: what is made once for a net, such as its "
        "compiled code, is made however short a run is by itself."
    )


def _sequential() -> str:
    return "One party after the other. Runs every model and every algorithm: the others' reference."


def _vectorised() -> str:
    return (
        "All parties of a round as one stack of nets. Nets with batch norm, dropout or an LSTM, and what else "
        "PyTorch cannot stack, run on the sequential engine instead, and a line says so."
    )


def _compiled() -> str:
    try:
        compiler = f"The C compiler here is {find_compiler()}."
    except NoCompiler as error:
        compiler = f"Not on this machine: {error}; another engine runs instead."
    return (
        "The net as C, compiled for this machine: float32 on a CPU, for nets that are chains of convolutions, "
        "2x2 max pooling, ReLU and linear layers. Others run on another engine, and a line says so. Trees whose "
        f"server hears sums alone: all rows as one party's, with the same bits. {compiler}"
    )


ENGINES = {
    "sequential": Known("unalike.engines.sequential:Sequential", _sequential),
    "vectorised": Known("unalike.engines.vectorised:Vectorised", _vectorised),
    "compiled": Known("unalike.engines.compiled.engine:Compiled", _compiled),
}
"""All engines by name. A new one is a file, and a line here."""


def engine_names() -> tuple[str, ...]:
    """Every name that ``--engine`` takes."""
    return (*RULES, *ENGINES)


def engines() -> dict[str, str]:
    """Every name that ``--engine`` takes, with what it means on this machine."""
    return {"auto": _auto(), PREPARED: _prepared(), **{name: known.told() for name, known in ENGINES.items()}}


def engine_class(name: str) -> Any:
    """The class of an engine, imported when it is asked for."""
    if name not in ENGINES:
        raise unknown("engine", name, engine_names())
    module, _, cls = ENGINES[name].home.partition(":")
    return getattr(import_module(module), cls)
