"""Which engine runs a task: the measured rule, and the way back where a net cannot be vectorised."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from unalike.algorithms.contract import Phase
from unalike.engines.compiled.chain import Chain, NotAChain, describe
from unalike.engines.compiled.compiler import NoCompiler
from unalike.engines.compiled.engine import Compiled
from unalike.engines.compiled.operation import Operation
from unalike.engines.sequential import Sequential
from unalike.engines.told import LARGEST_STACKED, LONG, SHORT
from unalike.engines.vectorised import Vectorised
from unalike.errors import UserError, unknown
from unalike.models.task import Task
from unalike.rounds.gather import Engine
from unalike.rounds.order import Order, Reply
from unalike.rounds.worker import Workers

Say = Callable[[str], None]
T = TypeVar("T")

ENGINES: dict[str, type[Sequential] | type[Vectorised]] = {
    "sequential": Sequential,
    "vectorised": Vectorised,
    "compiled": Compiled,
}

SECONDS_PER_STEP = 0.7e-3
FLOPS = 30e9
"""What PyTorch takes for a step and does in a second on these nets, about."""


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


@dataclass(frozen=True, kw_only=True)
class Job:
    """What an engine is chosen for."""

    task: Task
    parties: int
    """Parties in a round."""
    shape: tuple[int, ...] = ()
    """That of a row."""
    threads: int = 1
    whole: bool = True
    """Whether the kernels can run a party's whole local training (``compiled.trains_whole``)."""
    steps: int = 0
    """Local steps of all parties in all rounds, about."""
    batch_size: int = 64

    @property
    def chain(self) -> Chain | None:
        """The net as the kernels know it, if it is a chain."""
        try:
            return describe(self.task.net, self.shape)
        except NotAChain:
            return None

    def seconds(self) -> float:
        """How long training would take one party after the other, about: on one core of today's kind."""
        multiply_adds = self.task.size if self.chain is None else self.chain.multiply_adds
        return self.steps * (SECONDS_PER_STEP + 6 * self.batch_size * multiply_adds / FLOPS)


NAMED = "named by the spec or the checkpoint"


class Choice(NamedTuple):
    """An engine, and why it is this one."""

    engine: Engine
    why: str


def choose_engine(name: str, job: Job, say: Say) -> Choice:
    """The engine of that name; ``auto`` follows the measured rule. ``say`` gets one line where it falls back.

    The compiled engine gives the task its operation, so that evaluation is as fast; the others take it away.
    The rule looks at the job and at whether there is a compiler, never at what happens to be compiled already:
    the same spec has the same bits on the same machine.
    """
    if name not in {"auto", *ENGINES}:
        raise unknown("engine", name, ["auto", *ENGINES])
    job.task.operation = None
    if name == "compiled":
        return _compiled(job, say, NAMED, say)
    if name == "sequential":
        return Choice(Sequential(job.threads), NAMED)
    if name == "vectorised":
        reason = cannot_vectorise(job.task)
        if reason:
            say(f"{reason}: this net runs on the sequential engine instead.")
            return Choice(Sequential(job.threads), reason)
        return Choice(WithFallback(say, job.threads), NAMED)
    seconds = job.seconds()
    stacked, why = _stacked(job)
    if job.task.device.type == "cpu" and seconds < SHORT and (stacked or job.chain):
        return Choice(Sequential(job.threads), "the run is too short for any preparation to pay")
    if job.task.device.type == "cpu" and seconds >= LONG and (job.whole or not stacked):
        how = "a party's whole training is one call" if job.whole else "the net is one call in each step"
        return _compiled(job, say, f"a chain of layers and a run worth compiling for; {how}", lambda line: None)
    return Choice(WithFallback(say, job.threads) if stacked else Sequential(job.threads), why)


def _compiled(job: Job, say: Say, why: str, say_unknown: Say) -> Choice:
    """The compiled engine, or the better of the others; ``say_unknown`` hears of nets that kernels do not know."""
    try:
        compiled = Compiled.of(job.task, job.shape, job.threads, say)
    except (NotAChain, NoCompiler) as error:
        stacked, reason = _stacked(job)
        engine: Engine = WithFallback(say, job.threads) if stacked else Sequential(job.threads)
        line = f"Cannot be compiled ({error}): this net runs on the {engine.name} engine instead."
        (say_unknown if isinstance(error, NotAChain) else say)(line)
        return Choice(engine, f"cannot be compiled ({error}); {reason}")
    job.task.operation = Operation(compiled.kernel)
    return Choice(compiled, why)


def _stacked(job: Job) -> tuple[bool, str]:
    """Whether a stack of the parties' nets is faster than one after the other, and why."""
    task = job.task
    reason = cannot_vectorise(task)
    if reason:
        return False, reason
    if job.parties < 2:
        return False, "one party in a round"
    if task.device.type != "cpu":
        return True, f"parties stacked on {task.device}"
    if any(isinstance(module, nn.modules.conv._ConvNd) for module in task.net.modules()):
        return False, "convolutions gain nothing from stacking on a CPU"
    if task.size > LARGEST_STACKED:
        return False, f"more than {LARGEST_STACKED:,} weights gain nothing from stacking on a CPU"
    return True, "a small net without convolutions, parties stacked"


class WithFallback:
    """The vectorised engine; where a layer or a loss turns out not to be vectorisable, the sequential one."""

    def __init__(self, say: Say, threads: int = 1) -> None:
        self._engine: Engine = Vectorised()
        self._threads = threads
        self.fell_back: str | None = None
        """Why the sequential engine took over, if it did."""
        self._say = say
        self._worked: set[tuple[str, tuple[Phase, ...]]] = set()

    @property
    def name(self) -> str:
        """The engine in use."""
        return self._engine.name

    def answer(self, workers: Workers, orders: Sequence[Order]) -> list[Reply]:
        """The parties' replies."""
        return self._tried(orders, lambda engine: engine.answer(workers, orders))

    def adapt(self, workers: Workers, orders: Sequence[Order]) -> list[tuple[Tensor, Tensor]]:
        """Each party's personal model after the phases of its order, and its running statistics then."""
        return self._tried(orders, lambda engine: engine.adapt(workers, orders))

    def _tried(self, orders: Sequence[Order], work: Callable[[Engine], T]) -> T:
        what = {(order.kind, order.phases) for order in orders}
        try:
            made = work(self._engine)
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            if what <= self._worked:  # it worked before: this is something else
                raise
            # Where the algorithm itself is wrong, the sequential engine raises the same, with a clearer trace.
            sequential = Sequential(self._threads)
            made = work(sequential)
            self._engine = sequential
            first = str(error).strip().split("\n")[0]
            self.fell_back = f"cannot be vectorised: {first}"
            self._say(f"Cannot be vectorised ({first}): the run goes on on the sequential engine.")
        self._worked |= what
        return made


class PerNet:
    """Parties whose nets differ: the orders of each net go to an engine of its own, and replies are joined."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines

    @property
    def name(self) -> str:
        """The first net's engine."""
        return self._engines[0].name

    @property
    def fell_back(self) -> str | None:
        """Why an engine fell back, if one did."""
        reasons = (getattr(engine, "fell_back", None) for engine in self._engines)
        return next((reason for reason in reasons if reason), None)

    def answer(self, workers: Workers, orders: Sequence[Order]) -> list[Reply]:
        """The parties' replies."""
        return [reply for engine, own in self._cut(orders) for reply in engine.answer(workers, own)]

    def adapt(self, workers: Workers, orders: Sequence[Order]) -> list[tuple[Tensor, Tensor]]:
        """Each party's personal model after the phases of its order, and its running statistics then."""
        found: dict[int, tuple[Tensor, Tensor]] = {}
        for engine, own in self._cut(orders):
            made = engine.adapt(workers, own)
            found |= {order.party: one for order, one in zip(own, made, strict=True)}
        return [found[order.party] for order in orders]

    def _cut(self, orders: Sequence[Order]) -> Iterator[tuple[Engine, list[Order]]]:
        for which, engine in enumerate(self._engines):
            own = [order for order in orders if order.party % len(self._engines) == which]
            if own:
                yield engine, own


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
