"""What an algorithm asks and what is answered, learnt once a run from a party that does not exist.

A server must know the layout of an answer before it trusts one, the length of a hidden sum before anybody has
trained, and a site what its algorithm asks at which turn. So each plays one round on made-up rows first.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

from unalike.algorithms.contract import Ask, ByParty, Kind, MeasuredRows, Replies, Vectors, sent_to
from unalike.channels import Summand
from unalike.errors import UserError
from unalike.models.streams import own_torch_stream
from unalike.models.task import Task
from unalike.randomness import stream
from unalike.rounds.gather import Receiver, replies_of
from unalike.rounds.local import answer, descend
from unalike.rounds.order import Order, phases_of
from unalike.rounds.population import Population
from unalike.rounds.upload import outline
from unalike.rounds.work import LocalWork
from unalike.rounds.worker import Worker

MOST_TURNS = 1000
"""Exchanges of a round that a rehearsal plays: an algorithm that never ends is refused."""


@dataclass(frozen=True, eq=False)
class Line:
    """One exchange of a rehearsed round: what is asked, what a party is sent, and what it answers (outlines)."""

    kind: Kind
    phase: str
    rows: MeasuredRows
    payload: Vectors
    upload: Vectors
    message: Summand
    by_party: tuple[str, ...] = ()
    """the names in the payload of which every party gets a row of its own"""


@dataclass(frozen=True, eq=False)
class Script:
    """The exchanges of an algorithm: those before round 1, and those of every round.

    ``sent`` outlines what ``send`` gives the party: what it evaluates and deploys its model from. ``has_model``
    says whether there is a global model too.
    """

    prepare: tuple[Line, ...]
    round: tuple[Line, ...]
    sent: Vectors
    has_model: bool

    def of(self, round: int) -> tuple[Line, ...]:
        """The exchanges of a round; 0 is what prepares."""
        return self.round if round else self.prepare


def rehearse(worker: Worker, task: Task, parties: int) -> Script:
    """The script of an algorithm, played with ``worker`` on its (made-up) rows; ``task`` is the server's."""
    recipe = replace(worker.recipe, work=LocalWork(2, steps=1), wire=None, augment=False)
    actor = _Actor(replace(worker, recipe=recipe), task, Population([4] * parties))
    algorithm = recipe.algorithm
    task.rehearsing = True  # a server that trains need not train long
    try:
        server, prepared = actor.play(algorithm.prepare(task, algorithm.init_server(task, task.initial())), 0)
        server, played = actor.play(algorithm.round(task, server), 1)
    finally:
        task.rehearsing = False
    sent, w = outline(sent_to(algorithm.send(task, server), worker.number)), algorithm.global_model(task, server)
    if w is not None and w.dim() > 1:
        raise UserError("Real sites keep one net, not an ensemble of several. Use ensemble(distil=true).")
    return Script(prepared, played, sent, w is not None)


class _Actor:
    """The party that does not exist, and what it keeps."""

    def __init__(self, worker: Worker, task: Task, population: Population) -> None:
        self.worker, self.task, self.population = worker, task, population
        self.state = worker.recipe.algorithm.init_party(worker.task, worker.task.initial())

    def play(self, script: Generator[Ask, Replies, Vectors], round: int) -> tuple[Vectors, tuple[Line, ...]]:
        """The server's state after all exchanges, and these."""
        lines: list[Line] = []
        try:
            ask = next(script)
            while True:
                line, replies = self._line(ask, round, len(lines))
                lines.append(line)
                if len(lines) > MOST_TURNS:
                    raise UserError(f"The algorithm has more than {MOST_TURNS} exchanges in a round.")
                ask = script.send(replies)
        except StopIteration as end:
            return end.value, tuple(lines)

    def _line(self, ask: Ask, round: int, turn: int) -> tuple[Line, Replies]:
        worker = self.worker if ask.to is None else replace(self.worker, number=ask.to[0])
        recipe, buffers = worker.recipe, self.task.initial_buffers()
        phases = phases_of(recipe.algorithm, worker.task, ask.kind, ask.phase, round)
        order = Order(
            worker.number,
            round,
            turn,
            ask.kind,
            sent_to(ask.payload, worker.number),
            self.state,
            worker.task.initial_buffers(),
            lr=1e-3,
            phases=tuple(replace(phase, epochs=None, steps=1) for phase in phases),
            phase=ask.phase,
            rows=ask.rows,
        )
        with own_torch_stream(stream(recipe.seed, "layers", 0), worker.task.device):
            reply = answer(worker, order, descend)
        assert isinstance(reply.message, Summand)
        self.state = reply.state
        shape = replace(reply.message, vectors=outline(reply.message.vectors))
        by_party = tuple(sorted(key for key, value in ask.payload.items() if isinstance(value, ByParty)))
        line = Line(ask.kind, ask.phase, ask.rows, outline(order.payload), reply.outline, shape, by_party)
        gathered = Receiver(recipe).add([order], [reply])
        return line, replies_of(gathered, recipe, self.population, buffers)
