"""Workers that answer blocks: who gets which, what happens when one is lost, and in which order answers are used.

Workers are stateless: all that changes comes with a block and goes back with its answer. So any of them can answer
any block, and a worker that is lost costs the blocks that it had, which are sent to others.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from unalike.errors import UserError

IN_FLIGHT = 2
"""Blocks that a worker has at a time: it computes one while the next is on its way."""
MOST_LOSSES = 3
"""A block that so many workers died with is not sent again."""
JOIN_SECONDS = 180.0
"""How long nobody may be there to work."""


@dataclass
class Counts:
    """What the record of a run says of its workers."""

    workers: int = 0
    hosts: set[str] = field(default_factory=set)
    blocks: int = 0
    lost_blocks: int = 0
    lost_workers: int = 0
    mixed: bool = False

    def told(self) -> dict[str, Any]:
        """The same as figures of the run."""
        return {
            "workers": self.workers,
            "hosts": len(self.hosts),
            "blocks": self.blocks,
            "lost_blocks": self.lost_blocks,
            "lost_workers": self.lost_workers,
            **({"mixed": True} if self.mixed else {}),
        }


@dataclass(eq=False)
class _Worker:
    actor: Any
    proof: Any
    """what it has been asked first; None once it has joined"""


class Hosts:
    """A number of workers, each an actor with the methods ``prove`` and ``answer``.

    ``start`` makes one; ``admit`` looks at its proof and says where it is, or refuses it with an error.
    """

    def __init__(
        self,
        ray: Any,
        start: Callable[[], Any],
        admit: Callable[[Any], str],
        wanted: int,
        say: Callable[[str], None],
    ) -> None:
        self._ray, self._start, self._admit, self._say = ray, start, admit, say
        self.counts = Counts(workers=wanted)
        self._failed_joins = 0
        self._losses: Counter[int] = Counter()
        self._workers = [self._new() for _ in range(wanted)]
        self._flying: dict[Any, tuple[int, _Worker]] = {}
        self._waiting: deque[int] = deque()

    def answer(self, shared: Any, blocks: Sequence[Any], failed: Callable[[Any], bool]) -> Iterator[Any]:
        """What comes of each block, in their order; ``failed`` answers are the last, and later blocks not sent.

        So the failure is the one that a single process would have met first.
        """
        common = self._ray.put(shared)
        self._waiting, self._flying, self._losses = deque(range(len(blocks))), {}, Counter()
        done: dict[int, Any] = {}
        end, out = len(blocks), 0
        while out < end:
            self._send(common, blocks, end)
            for number, answer in self._arrived():
                done[number] = answer
                self.counts.blocks += 1
                if failed(answer):
                    end = min(end, number + 1)
            while out in done:
                yield done.pop(out)
                out += 1

    def close(self) -> None:
        """Let all workers go, whatever they are doing."""
        for worker in self._workers:
            with contextlib.suppress(Exception):
                self._ray.kill(worker.actor)
        self._workers = []

    def _new(self) -> _Worker:
        actor = self._start()
        return _Worker(actor, actor.prove.remote())

    def _send(self, common: Any, blocks: Sequence[Any], end: int) -> None:
        """Give blocks to all who have joined and have too few."""
        load = Counter(id(worker) for _, worker in self._flying.values())
        for depth in range(1, IN_FLIGHT + 1):  # everybody gets a first before anybody a second
            for worker in self._workers:
                if worker.proof is not None or load[id(worker)] >= depth:
                    continue
                while self._waiting and self._waiting[0] >= end:
                    self._waiting.popleft()
                if not self._waiting:
                    return
                number = self._waiting.popleft()
                self._flying[worker.actor.answer.remote(common, blocks[number])] = number, worker
                load[id(worker)] += 1

    def _arrived(self) -> Iterator[tuple[int, Any]]:
        """The answers that are there, at least one thing having happened."""
        joining = {worker.proof: worker for worker in self._workers if worker.proof is not None}
        asked = [*self._flying, *joining]
        if not asked:
            raise UserError("All workers are lost, and none could be started again. The same command goes on.")
        first, rest = self._ray.wait(asked, num_returns=1, timeout=JOIN_SECONDS)
        if not first and not self._flying:
            raise UserError(
                f"No worker was ready within {JOIN_SECONDS:g} seconds. Look whether the cluster has free CPUs "
                "(ray status), or lower --worker-cpus."
            )
        more, _ = self._ray.wait(rest, num_returns=len(rest), timeout=0) if rest else ([], [])
        for ref in (*first, *more):
            if ref in joining:
                self._joined(joining[ref])
            elif ref in self._flying:  # else its worker was found lost just now
                number, worker = self._flying[ref]
                answer = self._got(ref, worker)
                if answer is not _LOST:
                    del self._flying[ref]
                    yield number, answer

    def _joined(self, worker: _Worker) -> None:
        proof = self._got(worker.proof, worker, joining=True)
        if proof is not _LOST:
            self.counts.hosts.add(self._admit(proof))
            worker.proof, self._failed_joins = None, 0

    def _got(self, ref: Any, worker: _Worker, *, joining: bool = False) -> Any:
        """What a call has given; a worker that is lost with it is replaced, and its blocks wait again."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(ref)
        except errors.RayTaskError:  # not the algorithm's mistake, which is an answer: ours, or Ray's
            raise
        except errors.RayError as error:
            self._lose(worker, error, joining=joining)
            return _LOST

    def _lose(self, worker: _Worker, error: Exception, *, joining: bool) -> None:
        self._workers.remove(worker)
        self.counts.lost_workers += 1
        with contextlib.suppress(Exception):
            self._ray.kill(worker.actor)
        mine = [ref for ref, (_, other) in self._flying.items() if other is worker]
        for number in sorted((self._flying.pop(ref)[0] for ref in mine), reverse=True):
            self._waiting.appendleft(number)
            self._losses[number] += 1
            self.counts.lost_blocks += 1
            if self._losses[number] >= MOST_LOSSES:
                why = str(error).strip().split("\n")[0]
                raise UserError(
                    f"{MOST_LOSSES} workers were lost with the same block ({why}). As a rule that is memory: use "
                    "fewer --workers, or a smaller model."
                )
        self._failed_joins += joining
        if self._failed_joins < MOST_LOSSES:
            self._workers.append(self._new())
        if not joining:
            self._say(f"A worker was lost with {len(mine)} blocks, which others get. The bits stay the same.")


_LOST = object()
