"""A run whose parties work in other processes: what these are sent, who may join, and what is said of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from unalike.engines.many.cluster import connected
from unalike.engines.many.hosts import Hosts
from unalike.engines.many.machines import Machines
from unalike.engines.many.packing import common, pack_block, pack_common, unpacked
from unalike.errors import UserError
from unalike.models.own import why_unkept
from unalike.own_code import is_own
from unalike.own_files import code_files, loaded
from unalike.rounds.blocks import BlockSum, blocks_in, cut
from unalike.rounds.order import Order
from unalike.runs.host import BlockWorker, Failed, OwnCode, Proof, WorkerRecipe, prove
from unalike.runs.parts import PARTS, registry
from unalike.runs.playable import Playable
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec
from unalike.scores import Figures

Say = Callable[[str], None]


@contextmanager
def working_on(machines: Machines | None, played: Playable, say: Say) -> Iterator[None]:
    """In here the parties of a simulation work where the user said; nothing starts before it is needed."""
    if machines is None:
        yield
        return
    if not isinstance(played, Simulation):
        name = played.spec.algorithm.partition("(")[0]
        raise UserError(f"{machines.flag} is for nets; {name} trains in one process. Leave it out.")
    machines.check_here()
    _check_reachable(played.spec)
    with ExitStack() as stack:
        many = played.elsewhere = Many(machines, played, say, stack)
        try:
            yield
        finally:
            many.close()


class Many:
    """Workers of a run, started when the first block is to be answered."""

    def __init__(self, machines: Machines, simulation: Simulation, say: Say, stack: ExitStack) -> None:
        self.machines, self.simulation, self.say, self._stack = machines, simulation, say, stack
        self._hosts: Hosts | None = None
        self._proof: Proof | None = None

    def answer(self, orders: Sequence[Order]) -> Iterator[BlockSum]:
        """What comes of the blocks of these orders, in the order of the blocks."""
        hosts = self._hosts = self._hosts or self._begin()
        shared = common(self.simulation.engine_name, orders)
        blocks = [pack_block(list(block), shared) for block in cut(orders, blocks_in(orders))]
        fallen = None
        for answer in hosts.answer(pack_common(shared), blocks, lambda one: isinstance(one, Failed)):
            if isinstance(answer, Failed):
                raise answer.raised()
            fallen = answer if answer.engine != shared.engine else fallen
            part: BlockSum = unpacked(answer.block, self.simulation.task.device)
            yield part
        if fallen is not None:
            self.simulation.fall_back(fallen.engine, fallen.why, self.say)

    def told(self) -> Figures:
        """What the record says of the workers of this sitting."""
        return {} if self._hosts is None else {"workers": self._hosts.counts.told()}

    def close(self) -> None:
        """Let the workers go, if any were started."""
        if self._hosts is not None:
            self._hosts.close()

    def _begin(self) -> Hosts:
        data, split = self.simulation.federation.made_of
        data = replace(data)  # without the digests that it remembers: a worker computes its own
        cpus = self.machines.cpus or float(self.simulation.spec.threads)
        ray, wanted = self._stack.enter_context(connected(self.machines, cpus, _bytes(data)))
        self._proof = prove(self.simulation)
        recipe = recipe_of(self.simulation)
        kept = ray.put(data), ray.put(split)  # each host gets them once; held here, so that they are never lost
        actor = ray.remote(BlockWorker).options(
            num_cpus=cpus, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        self.say(f"{wanted} workers by Ray.{self._hint(wanted)}")
        return Hosts(ray, lambda: actor.remote(recipe, *kept), self._admit, wanted, self.say)

    def _hint(self, wanted: int) -> str:
        """What a user should know who expects more of workers than they can do."""
        simulation = self.simulation
        if wanted > 1 and simulation.stacks and simulation.cohort_size <= 64:
            return (
                " But up to 64 parties are one stack on the vectorised engine, so one worker has all the work. "
                "Use --engine sequential, or leave workers out."
            )
        return ""

    def _admit(self, proof: Proof | Failed) -> str:
        """Where a worker is, if it may join: it must have the same rows and the same arithmetic."""
        if isinstance(proof, Failed):
            raise proof.raised("A worker could not start: ")
        mine = self._proof
        assert mine is not None
        if proof.version != mine.version:
            raise UserError(
                f"The worker on {proof.host} has unalike {proof.version}, this is {mine.version}. Install one."
            )
        if proof.data_sha256 != mine.data_sha256:
            raise UserError(f"The worker on {proof.host} has other rows than this process. Start the hosts anew.")
        if unlike := proof.unlike(mine):
            self._mix(proof, unlike)
        return proof.host

    def _mix(self, proof: Proof, unlike: str) -> None:
        assert self._hosts is not None
        if not self.machines.mixed:
            raise UserError(
                f"The worker on {proof.host} computes other bits ({unlike}), so the outcome would depend on who "
                "computes what. Set ATEN_CPU_CAPABILITY to the lowest of all on every host (and here), or allow "
                "it with --mixed-workers."
            )
        if not self._hosts.counts.mixed:
            self.say(f"The worker on {proof.host} computes other bits ({unlike}): the record says so.")
        self._hosts.counts.mixed = True


def recipe_of(simulation: Simulation) -> WorkerRecipe:
    """All that a worker is made of but for the rows: texts, and the user's own code where the run uses some."""
    spec, code = simulation.spec, []
    for path in loaded():
        files = code_files(path)
        home = files[0].path.parent
        named = {file.path.relative_to(home).as_posix(): file.path.read_bytes() for file in files}
        code.append(OwnCode(path.name, named))
    return WorkerRecipe(spec.to_dict(), spec.key, simulation.engine_name, tuple(code), tuple(_modules(spec)))


def _modules(spec: RunSpec) -> list[str]:
    """The modules that the user's program has imported, and that register parts of this run."""
    found = []
    for name in PARTS:
        text = getattr(spec, name)
        parts = registry(name) if text is not None else None
        for part in parts.members(parts.build(text)) if parts is not None else ():
            module = type(part).__module__
            if not is_own(part) or module.startswith("plugin_"):
                continue
            if module == "__main__" or not getattr(sys.modules.get(module), "__file__", None):
                raise UserError(
                    f"{type(part).__name__} is written in the program itself, where workers cannot find it. Put "
                    "it into a file of its own and import that, or leave workers out."
                )
            found.append(module)
    return list(dict.fromkeys(found))


def _check_reachable(spec: RunSpec) -> None:
    """Refuse a net that is nowhere but in the memory of this program."""
    model = str(spec.model)
    if why_unkept(model) or model.startswith(("pretrained(", "typed(")):
        raise UserError(
            "The net was given by a Python program, and workers cannot find it there. Put it into a file: "
            "--model module:FILE.py:NAME."
        )


def _bytes(data: Any) -> int:
    """About how much memory the rows take."""
    arrays = (data.x, data.x_test, data.y, data.y_test)
    return sum(int(getattr(getattr(each, "data", each), "nbytes", 0)) for each in arrays)
