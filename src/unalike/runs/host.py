"""A worker process of a run: it has the rows, the task and the algorithm, and answers blocks of orders."""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import unalike
from unalike.algorithms import ALGORITHMS
from unalike.algorithms.contract import sent_to
from unalike.channels import Summand
from unalike.channels.errors import NotFinite
from unalike.data.dataset import Dataset
from unalike.engines.many.packing import Common, Packed, lean, packed, unpack_block, unpack_common
from unalike.engines.sequential import Sequential
from unalike.engines.vectorised import Vectorised
from unalike.errors import UserError
from unalike.own_code import explained
from unalike.own_files import allow_code, load
from unalike.partition import Partition
from unalike.rounds.federation import Crew
from unalike.rounds.order import Order, Reply
from unalike.rounds.work import LocalWork
from unalike.runs.rules import Diverged
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

PROVEN = 2
"""Parties of the block by which a worker proves its arithmetic, and the steps that each of them takes."""
_KINDS: dict[str, type[UserError]] = {cls.__name__: cls for cls in (UserError, NotFinite, Diverged)}


@dataclass(frozen=True)
class OwnCode:
    """A file of the user's own and those beside it that it imports: what a worker runs before all else."""

    home: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class WorkerRecipe:
    """How a worker is made: texts, no arrays. ``modules`` are imported for the parts that they register."""

    spec: Mapping[str, Any]
    key: str
    engine: str
    code: tuple[OwnCode, ...] = ()
    modules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proof:
    """What a worker is, and the digest of a block that it has answered: it depends on processor and PyTorch."""

    digest: str
    capability: str
    torch: str
    version: str
    data_sha256: str
    host: str = ""

    def unlike(self, other: Proof) -> str:
        """In words, what tells it from another, if anything does that bits depend on."""
        mine, others = (f"CPU capability {each.capability}, torch {each.torch}" for each in (self, other))
        return "" if self.digest == other.digest else f"{mine}; here {others}"


@dataclass(frozen=True)
class Answered:
    """A block's sum on its way, and the engine that made it: it may have fallen back."""

    block: Packed
    engine: str
    why: str


@dataclass(frozen=True)
class Failed:
    """A mistake in a worker: the kind of error, its line, and where it happened."""

    kind: str
    line: str
    trace: str

    @classmethod
    def of(cls, error: Exception) -> Failed:
        """The error as it travels."""
        kind = next((each.__name__ for each in type(error).__mro__ if each.__name__ in _KINDS), "")
        line = str(error) if kind else f"{type(error).__name__}: {error}"
        return cls(kind, line, "".join(traceback.format_exception(error)))

    def raised(self, where: str = "") -> Exception:
        """The error as the run's own process raises it."""
        if self.kind:
            return _KINDS[self.kind](f"{where}{self.line}")
        return RuntimeError(f"{where}{self.line}\n\nIn a worker:\n{self.trace}")


class BlockWorker:
    """Answers blocks. It keeps nothing between them: whoever asks has all that changes."""

    def __init__(self, recipe: WorkerRecipe, data: Dataset, split: Partition) -> None:
        self._given = recipe, data, split
        self._simulation: Simulation | None = None
        self._common: tuple[Any, Common] | None = None

    def prove(self) -> Proof | Failed:
        """Make the worker, and answer a small block."""
        try:
            return replace(prove(self._made()), host=_where())
        except Exception as error:
            return Failed.of(error)

    def answer(self, common: Common, orders: Sequence[Packed]) -> Answered | Failed:
        """The sum of a block, and what its parties keep."""
        try:
            return self._answer(common, orders)
        except Exception as error:
            return Failed.of(error)

    def _answer(self, common: Common, orders: Sequence[Packed]) -> Answered:
        simulation = self._made()
        if common.engine != simulation.engine_name:
            simulation.use(common.engine, lambda line: None)
            if simulation.engine_name != common.engine:
                raise UserError(f"The {common.engine} engine does not work here: {simulation.why_this_engine}.")
        device = simulation.task.device
        block = unpack_block(orders, unpack_common(common, device), device)
        torch.set_num_threads(simulation.threads)
        with explained(simulation.algorithm, simulation.recipe.optimiser):
            replies = sorted(simulation.engine.answer(simulation.crew, block), key=lambda reply: reply.party)
            part = simulation.receiver.part({order.party: order for order in block}, replies)
        sent = packed(lean(part, keeps_statistics=simulation.recipe.keeps_statistics))
        return Answered(sent, simulation.engine_name, getattr(simulation.engine, "fell_back", None) or "")

    def _made(self) -> Simulation:
        if self._simulation is None:
            recipe, data, split = self._given
            for code in recipe.code:
                _run_code(code)
            for module in recipe.modules:
                _imported(module)
            spec = RunSpec.as_recorded({**recipe.spec, "engine": recipe.engine}, recipe.key)
            self._simulation = Simulation(spec, data=data, split=split, say=lambda line: None)
            torch.set_num_threads(self._simulation.threads)
        return self._simulation


def prove(simulation: Simulation) -> Proof:
    """What a process computes for a few steps of FedAvg on the run's own rows, net, optimiser and engine.

    Where stacks are made, on an engine of its own: one that falls back must not learn from this that it works.
    """
    engine = _stacks_or_not if simulation.stacks else simulation.engine.answer
    digest = hashlib.sha256()
    for party in range(min(PROVEN, simulation.federation.size)):
        for reply in engine(*_small(simulation, party)):
            assert isinstance(reply.message, Summand)
            for _, value in sorted(reply.message.vectors.items()):
                digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return Proof(
        digest.hexdigest(),
        torch.backends.cpu.get_cpu_capability(),
        torch.__version__,
        unalike.__version__,
        simulation.federation.dataset.digest,
    )


def _small(simulation: Simulation, party: int) -> tuple[Crew, list[Order]]:
    """A few steps of FedAvg for a party, and who answers them."""
    fedavg, task, spec = ALGORITHMS.build("fedavg"), simulation.task_of(party), simulation.spec
    work = LocalWork(spec.batch_size, steps=PROVEN)
    recipe = replace(simulation.recipe, algorithm=fedavg, work=work, wire=None, keeps_statistics=False)
    ask = next(fedavg.round(task, fedavg.init_server(task, task.initial())))
    sent, buffers = sent_to(ask.payload, party), task.initial_buffers()
    return Crew(simulation.federation, recipe), [Order(party, 1, 0, ask.kind, sent, {}, buffers, spec.lr)]


def _stacks_or_not(crew: Crew, orders: list[Order]) -> Iterable[Reply]:
    try:
        return Vectorised().answer(crew, orders)
    except (RuntimeError, ValueError, TypeError, NotImplementedError):  # what cannot be stacked is not stacked
        return Sequential().answer(crew, orders)


def _run_code(code: OwnCode) -> None:
    """Run files that came with the run: the user named them where it was started."""
    folder = Path(tempfile.mkdtemp(prefix="un-code-"))
    for name, content in code.files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    allow_code(folder / code.home)
    load(folder / code.home, "The plugin ")


def _imported(module: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"The module {module}, in which a part of this run is written, cannot be imported here: {error}. "
            "Install it on every host, or name its file with --plugin."
        ) from None


def _where() -> str:
    """The address of this machine in the cluster, by which workers of one host are known as such."""
    import ray

    return str(ray.util.get_node_ip_address()) or os.uname().nodename
