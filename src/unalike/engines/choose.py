"""Which engine runs a task: the one that is named, or the one that the measured rule says is fastest."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import nn

from unalike.engines.job import Job, Say, Unfit
from unalike.engines.table import LARGEST_STACKED, LONG, PREPARED, RULES, SHORT, engine_class
from unalike.engines.vectorised import cannot_vectorise
from unalike.models.channels_last import has_wide_convolutions
from unalike.rounds.gather import Engine

NAMED = "named by the spec or the checkpoint"


class Choice(NamedTuple):
    """An engine, and why it is this one."""

    engine: Engine
    why: str


def choose_engine(name: str, job: Job, say: Say) -> Choice:
    """The engine of that name; ``auto`` follows the measured rule. ``say`` gets one line where it falls back.

    The compiled engine gives the task its operation, so that evaluation is as fast; the others take it away.
    ``prepared`` is the same rule for one of many runs of a net: none is too short for what is made once for all.
    The rule looks at the job and at whether there is a compiler, never at what happens to be compiled already:
    the same spec has the same bits on the same machine.
    """
    job.task.operation = job.task.judge = None
    wanted, why = _rule(job, prepared=name == PREPARED) if name in RULES else (name, NAMED)
    try:
        return Choice(engine_class(wanted).of(job, say), why)
    except Unfit as error:
        instead, reason = _next_best(wanted, job)
        if error.loud or name not in RULES:
            say(f"{error.line}: this net runs on the {instead} engine instead.")
        return Choice(engine_class(instead).of(job, say), "; ".join(part for part in (str(error), reason) if part))


def _rule(job: Job, *, prepared: bool) -> tuple[str, str]:
    """The engine that should be fastest, and why; ``prepared``: as if it were ready to begin."""
    seconds = math.inf if prepared else job.seconds()
    on_cpu = job.task.device.type == "cpu"
    stacked, why = _stacked(job)
    if on_cpu and seconds < SHORT and (stacked or job.chain):
        return "sequential", "the run is too short for any preparation to pay"
    if on_cpu and job.chain and has_wide_convolutions(job.task.net):
        return "sequential", "PyTorch's own convolutions are faster where there are many channels"
    if on_cpu and seconds >= LONG and (job.whole or not (stacked or job.sparse)):
        how = "a party's whole training is one call" if job.whole else "the net is one call in each step"
        worth = "many runs" if prepared else "a run"
        return "compiled", f"a chain of layers and {worth} worth compiling for; {how}"
    return ("vectorised" if stacked else "sequential"), why


def _next_best(unfit: str, job: Job) -> tuple[str, str]:
    """What runs in place of an engine that cannot, and why it is the better of the others."""
    if unfit == "vectorised":
        return "sequential", ""
    stacked, why = _stacked(job)
    return ("vectorised" if stacked else "sequential"), why


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
    if any(isinstance(module, nn.MultiheadAttention) for module in task.net.modules()):
        return False, "attention gains nothing from stacking on a CPU"
    if task.size > LARGEST_STACKED:
        return False, f"more than {LARGEST_STACKED:,} weights gain nothing from stacking on a CPU"
    return True, "a small net without convolutions, parties stacked"
