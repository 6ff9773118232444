"""Which engine runs a task: the measured rule, and the way back where a net cannot be vectorised."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from torch import nn

from unalike.compiled.chain import NotAChain
from unalike.compiled.compiler import NoCompiler
from unalike.compiled.operation import Operation
from unalike.engine.compiled import Compiled
from unalike.engine.exchange import Engine, Exchange, Reply
from unalike.engine.sequential import Sequential
from unalike.engine.vectorised import Vectorised
from unalike.errors import UserError, unknown
from unalike.models.task import Task

Say = Callable[[str], None]

ENGINES: dict[str, type[Sequential] | type[Vectorised]] = {
    "sequential": Sequential,
    "vectorised": Vectorised,
    "compiled": Compiled,
}

LARGEST_STACKED = 100_000
"""Nets with more weights than this run one after the other on a CPU.

Measured (docs/performance.md, ``python -m benchmarks.engines --sizes``): with up to 13 thousand weights a stack of
ten parties is at least twice as fast as one party after the other, with 80 to 200 thousand the two are about even,
and with 400 thousand the stack loses because it no longer fits the cache.
Convolutions gain nothing from stacking on a CPU, whatever their size.
"""


def cannot_vectorise(task: Task) -> str | None:
    """Why a stack of this net would not compute what one net computes, or None."""
    for name, module in task.net.named_modules():
        what = f"{name} ({type(module).__name__})"
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.running_mean is not None:
            return f"{what} would count padding rows in its statistics"
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            return f"{what} would mix padding with real rows"
        if isinstance(module, nn.modules.dropout._DropoutNd):
            return f"{what} would draw other random numbers"
        if isinstance(module, nn.RNNBase):
            return f"{what} has no vmap rule"
    return None


def choose_engine(
    name: str, task: Task, parties: int, say: Say, *, shape: tuple[int, ...] = (), threads: int = 1
) -> Engine:
    """The engine of that name; ``auto`` follows the measured rule. ``say`` gets one line where it falls back.

    ``shape`` is that of a row, ``threads`` how many parties may train at once. The compiled engine gives the task
    its operation, so that evaluation is as fast; the others take it away.
    """
    if name not in {"auto", *ENGINES}:
        raise unknown("engine", name, ["auto", *ENGINES])
    task.operation = None
    if name == "compiled":
        try:
            compiled = Compiled.of(task, shape, threads, say)
        except (NotAChain, NoCompiler) as error:
            engine = choose_engine("auto", task, parties, say)
            say(f"Cannot be compiled ({error}): this net runs on the {engine.name} engine instead.")
            return engine
        task.operation = Operation(compiled.kernel)
        return compiled
    if name == "sequential":
        return Sequential()
    reason = cannot_vectorise(task)
    if name == "vectorised":
        if reason:
            say(f"{reason}: this net runs on the sequential engine instead.")
            return Sequential()
        return WithFallback(say)
    if reason or parties < 2:
        return Sequential()
    if task.device.type != "cpu":
        return WithFallback(say)
    convolves = any(isinstance(module, nn.modules.conv._ConvNd) for module in task.net.modules())
    return Sequential() if convolves or task.size > LARGEST_STACKED else WithFallback(say)


class WithFallback:
    """The vectorised engine; where a layer or a loss turns out not to be vectorisable, the sequential one."""

    def __init__(self, say: Say) -> None:
        self._engine: Engine = Vectorised()
        self._say = say
        self._worked: set[str] = set()

    @property
    def name(self) -> str:
        """The engine in use."""
        return self._engine.name

    def exchange(self, exchange: Exchange) -> list[Reply]:
        """The replies of the cohort, in party order."""
        try:
            replies = self._engine.exchange(exchange)
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            if exchange.ask.kind in self._worked:  # it worked before: this is something else
                raise
            # Where the algorithm itself is wrong, the sequential engine raises the same, with a clearer trace.
            replies = Sequential().exchange(exchange)
            self._engine = Sequential()
            first = str(error).strip().split("\n")[0]
            self._say(f"Cannot be vectorised ({first}): the run goes on on the sequential engine.")
        self._worked.add(exchange.ask.kind)
        return replies


def choose_device(name: str, dtype: torch.dtype) -> torch.device:
    """The device of that name, if this machine has it."""
    if not re.fullmatch(r"[a-z]+(:\d+)?", name):
        raise UserError(f"The device must be cpu, cuda, mps or one such as cuda:1, got {name!r}.")
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    kind = name.split(":")[0]
    if kind not in there:
        raise unknown("device", name, there)
    if kind == "cpu" and name != "cpu":
        raise UserError(f"There is one cpu, got {name!r}. Use --device cpu.")
    if not there[kind]:
        raise UserError(f"This machine has no {kind} device that PyTorch can use. Use --device cpu.")
    if kind == "mps" and dtype == torch.float64:
        raise UserError("mps has no float64. Use --dtype float32 or --device cpu.")
    return torch.device(name)
