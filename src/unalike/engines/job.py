"""What an engine is chosen for, and how it says that it cannot do it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch

from unalike.engines.compiled.chain import Chain, NotAChain, describe
from unalike.errors import UserError, unknown
from unalike.models.task import Task

Say = Callable[[str], None]

SECONDS_PER_STEP = 0.7e-3
FLOPS = 30e9
"""What PyTorch takes for a step and does in a second on these nets, about."""


class Unfit(Exception):
    """An engine cannot do a job: the reason, and how a line about it begins.

    ``loud``: a person should hear of it also where nobody has named this engine.
    """

    def __init__(self, reason: str, *, line: str = "", loud: bool = False) -> None:
        super().__init__(reason)
        self.line, self.loud = line or reason, loud


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
    """Whether the kernels can run a party's whole local training (``trains_whole``)."""
    sparse: bool = False
    """Whether rows are sparse, so that only their batches are ever filled up."""
    readable: bool = True
    """Whether kernels can read the rows as they are kept."""
    steps: int = 0
    """Local steps of all parties in all rounds, about."""
    batch_size: int = 64

    @property
    def chain(self) -> Chain | None:
        """The net as the kernels know it, if it is a chain."""
        try:
            return describe(self.task.net, self.shape, sparse=self.sparse)
        except NotAChain:
            return None

    def seconds(self) -> float:
        """How long training would take one party after the other, about: on one core of today's kind."""
        multiply_adds = self.task.size if self.chain is None else self.chain.multiply_adds
        return self.steps * (SECONDS_PER_STEP + 6 * self.batch_size * multiply_adds / FLOPS)


def choose_device(name: str, dtype: torch.dtype) -> torch.device:
    """The device of that name, if this machine has it; ``auto`` is the one that :func:`best_device` names."""
    name = best_device(dtype) if name == "auto" else name
    kind, _, number = name.partition(":")
    there = devices()
    if not re.fullmatch(r"[a-z]+(:\d+)?", name):
        raise UserError(f"The device must be auto, {', '.join(there)} or one such as cuda:1, got {name!r}.")
    if kind == "gpu":  # nearer to cpu than to what is meant
        raise UserError("There is no device 'gpu'. Use --device auto, or name it: cuda or mps.")
    if kind not in there:
        raise unknown("device", name, ("auto", *there))
    if kind == "cpu" and name != "cpu":
        raise UserError(f"There is one cpu, got {name!r}. Use --device cpu.")
    if not there[kind]:
        raise UserError(f"This machine has no {kind} device that PyTorch can use. Use --device cpu.")
    if number and int(number) >= there[kind]:
        raise UserError(f"This machine has {there[kind]} {kind} device(s), counted from 0, got {name!r}.")
    if kind == "mps" and dtype == torch.float64:
        raise UserError("mps has no float64. Use --dtype float32 or --device cpu.")
    return torch.device(name)


def devices() -> dict[str, int]:
    """The kinds of devices that a run may name, and how many of each PyTorch can use here."""
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    other = torch.accelerator.current_accelerator()
    if other is not None and other.type not in there:  # xpu, say, where PyTorch was built for it
        there[other.type] = torch.accelerator.device_count() if torch.accelerator.is_available() else 0
    return there


def best_device(dtype: torch.dtype) -> str:
    """The accelerator that PyTorch says is there, if it computes in this type; else the processor."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return "cpu" if found is None or (found.type == "mps" and dtype == torch.float64) else found.type
