"""A run's moving parts: the server, the parties' states, and how one round changes them."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unalike.algorithms import ALGORITHMS
from unalike.algorithms.contract import Ask, Replies, Vectors
from unalike.data import Dataset
from unalike.engine.build import build_federation
from unalike.engine.choose import Job, choose_engine
from unalike.engine.compiled import trains_whole
from unalike.engine.evaluation import Figures, Models, evaluate, without_each
from unalike.engine.exchange import Exchange, combine, traffic
from unalike.engine.optimisers import OPTIMISERS
from unalike.engine.spec import RunSpec
from unalike.errors import UserError
from unalike.randomness import stream

Traffic = dict[str, dict[str, int]]
"""Bytes "up" and "down", by what they carry."""


class Diverged(UserError):
    """The weights are no longer finite."""


@dataclass(frozen=True, eq=False)
class State:
    """Everything that a later round depends on. Random streams derive from seed and round: none is kept."""

    round: int
    server: Vectors
    buffers: Tensor
    parties: Mapping[int, Vectors]
    """States of the parties that have taken part; the others' are still as ``init_party`` makes them."""
    own_buffers: Mapping[int, Tensor] = field(default_factory=dict)
    """Running statistics that parties keep to themselves, where the spec says so."""

    def tensors(self) -> Vectors:
        """All tensors under one flat set of names."""
        named = {f"server/{key}": value for key, value in self.server.items()}
        for number, state in sorted(self.parties.items()):
            named |= {f"party/{number}/{key}": value for key, value in state.items()}
        named |= {f"statistics/{number}": value for number, value in sorted(self.own_buffers.items())}
        return named | {"buffers": self.buffers}

    @classmethod
    def of(cls, round: int, tensors: Vectors) -> State:
        """The state that ``tensors`` gave."""
        server: Vectors = {}
        parties: dict[int, Vectors] = {}
        own_buffers: dict[int, Tensor] = {}
        for name, value in tensors.items():
            kind, _, rest = name.partition("/")
            if kind == "server":
                server[rest] = value
            elif kind == "party":
                number, _, key = rest.partition("/")
                parties.setdefault(int(number), {})[key] = value
            elif kind == "statistics":
                own_buffers[int(rest)] = value
        return cls(round, server, tensors["buffers"], parties, own_buffers)

    def digest(self) -> str:
        """SHA-256 over the names, shapes and values of the server's vectors, the parties' and the buffers."""
        sha = hashlib.sha256()
        for name, value in sorted(self.tensors().items()):
            sha.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            sha.update(value.detach().cpu().contiguous().numpy().tobytes())
        return sha.hexdigest()


@dataclass
class _Ledger:
    """What one round has changed and cost so far."""

    buffers: Tensor
    states: dict[int, Vectors] = field(default_factory=dict)
    own_buffers: dict[int, Tensor] = field(default_factory=dict)
    loss: float = math.nan
    traffic: Traffic = field(default_factory=lambda: {"up": {}, "down": {}})
    turn: int = 0

    def count(self, way: str, sizes: Mapping[str, int]) -> None:
        """Add bytes sent ``up`` or ``down``, by key."""
        for key, size in sizes.items():
            self.traffic[way][key] = self.traffic[way].get(key, 0) + size


class Simulation:
    """A federation trained in one process, round by round."""

    def __init__(self, spec: RunSpec, *, data: Dataset | None = None, say: Callable[[str], None] = print) -> None:
        assert spec.model is not None
        self.spec = spec
        self.algorithm = ALGORITHMS.build(spec.algorithm)
        self.optimiser = OPTIMISERS.build(spec.optimiser)
        self.federation = build_federation(spec, data)
        self.task = self.federation.task
        self._check_fit(say)
        self.use(spec.engine, say)
        self.initial = self.task.initial()
        server = self.algorithm.init_server(self.task, self.initial)
        self.state = State(0, server, self.task.initial_buffers(), {})
        self._check_server(server, 0)
        self.evaluated: tuple[int, Figures] | None = None
        """The last round that was evaluated, and its figures with each party's own."""

    def _check_fit(self, say: Callable[[str], None]) -> None:
        """Refuse an algorithm that the optimiser or the net makes meaningless, before any work is done."""
        spec, body = self.spec, self.task.slices["body"]
        if self.algorithm.needs_sgd:
            self.optimiser.step_sum(torch.ones(()))
        if self.algorithm.needs_features and body.start == body.stop:
            raise UserError(
                f"{spec.algorithm} acts on features, but those of {spec.model} have no weights: it would be "
                "FedAvg. Choose another --model."
            )
        if spec.batch_norm != "average" and not self.task.has_batch_norm:
            say(f"{spec.model} has no batch norm: --batch-norm {spec.batch_norm} changes nothing.")

    def use(self, engine: str, say: Callable[[str], None]) -> None:
        """Run on the engine of that name."""
        spec = self.spec
        rows = len(self.federation.train) * (1 - spec.validation - spec.held_out) / self.federation.size
        job = Job(
            task=self.task,
            parties=self.cohort_size,
            shape=self.federation.dataset.shape,
            threads=spec.threads,
            whole=trains_whole(self.algorithm, self.optimiser) and self.federation.train.stored() is not None,
            steps=spec.rounds * self.cohort_size * spec.work.count(round(rows)),
            batch_size=min(spec.batch_size, math.ceil(rows)),
        )
        self.engine, self._why = choose_engine(engine, job, say)

    @property
    def why_this_engine(self) -> str:
        """Why the run uses the engine that it uses."""
        return getattr(self.engine, "fell_back", None) or self._why

    @property
    def cohort_size(self) -> int:
        """How many parties take part in a round."""
        return max(1, round(self.spec.sample * self.federation.size))

    @property
    def _keeps_statistics(self) -> bool:
        """Whether every party keeps its own running statistics."""
        return self.spec.batch_norm == "local" and self.task.buffers.size > 0

    def cohort(self, round: int) -> list[int]:
        """The parties of a round, ascending: the same for every algorithm with the same seed."""
        if self.cohort_size == self.federation.size:
            return list(range(self.federation.size))
        rng = stream(self.spec.seed, "cohort", round)
        return sorted(rng.choice(self.federation.size, self.cohort_size, replace=False).tolist())

    def party_state(self, number: int) -> Vectors:
        """The state that a party keeps; parties that never took part are as at the start."""
        known = self.state.parties.get(number)
        return self.algorithm.init_party(self.task, self.initial) if known is None else known

    def play_round(self) -> tuple[State, Figures]:
        """Play the next round; the simulation itself does not change until its ``state`` is set."""
        began = time.perf_counter()
        number = self.state.round + 1
        cohort = self.cohort(number)
        ledger = _Ledger(self.state.buffers, own_buffers=dict(self.state.own_buffers))
        rounds = self.algorithm.round(self.task, self.state.server)
        try:
            ask = next(rounds)
            while True:
                ask = rounds.send(self._exchange(ask, number, cohort, ledger))
        except StopIteration as end:
            server: Vectors = end.value
        self._check_server(server, number)
        for k, state in ledger.states.items():
            self._check_finite(state, number, f"party {k}'s ")
        states = {k: _owned(state) for k, state in ledger.states.items() if state}
        parties = {**self.state.parties, **states}
        after = State(number, _owned(server), ledger.buffers, parties, ledger.own_buffers)
        row: Figures = {"round": number, "train_loss": ledger.loss}
        if number % self.spec.evaluate_every == 0 or number == self.spec.rounds:
            self.evaluated = number, evaluate(self.federation, self.models(after), self.spec.threads)
            row |= without_each(self.evaluated[1])
        totals = {f"bytes_{way}": sum(sizes.values()) for way, sizes in ledger.traffic.items()}
        row |= {"cohort": len(cohort), **totals, "traffic": ledger.traffic}
        return after, row | {"seconds": time.perf_counter() - began}

    def _exchange(self, ask: Ask, number: int, cohort: Sequence[int], ledger: _Ledger) -> Replies:
        exchange = self._asked(ask, number, cohort, ledger)
        combined = combine(exchange, self.engine.exchange(exchange))
        ledger.states |= combined.states
        ledger.turn += 1
        ledger.count("up", combined.traffic)
        ledger.count("down", traffic(ask.payload, None if self._keeps_statistics else ledger.buffers, len(cohort)))
        if exchange.trains:
            ledger.buffers, ledger.loss = combined.replies.buffers, combined.loss
        if self._keeps_statistics:
            ledger.own_buffers |= combined.own_buffers
        return combined.replies

    def _asked(self, ask: Ask, number: int, cohort: Sequence[int], ledger: _Ledger) -> Exchange:
        return Exchange(
            algorithm=self.algorithm,
            ask=ask,
            round=number,
            lr=self._lr(number),
            seed=self.spec.seed,
            cohort=cohort,
            state_of=lambda k: ledger.states[k] if k in ledger.states else self.party_state(k),
            buffers=ledger.buffers,
            federation=self.federation,
            optimiser=self.optimiser,
            work=self.spec.work,
            augment=self.spec.augment != "none",
            turn=ledger.turn,
            own_buffers=ledger.own_buffers if self._keeps_statistics else None,
        )

    def _lr(self, number: int) -> float:
        try:
            return self.spec.lr * self.spec.lr_decay ** (number - 1)
        except OverflowError:
            raise Diverged(f"The learning rate of round {number} is too large. Lower --lr-decay.") from None

    def models(self, state: State) -> Models:
        """What the state gives to evaluate."""
        ask = Ask("train", self.algorithm.send(self.task, state.server))
        ledger = _Ledger(state.buffers, dict(state.parties))
        exchange = self._asked(ask, max(1, state.round), (), ledger)

        def personal(number: int) -> Tensor:
            return self.algorithm.personal(exchange.party(exchange.own(number)))

        return Models(
            self.algorithm.global_model(self.task, state.server),
            personal if self.algorithm.overrides("personal") else None,
            state.buffers,
            state.own_buffers if self._keeps_statistics else None,
        )

    def _check_server(self, server: object, number: int) -> None:
        """Refuse a server state that breaks the contract, or that is not finite."""
        name = self.spec.algorithm
        if not isinstance(server, dict) or not all(isinstance(value, Tensor) for value in server.values()):
            raise UserError(
                f"{name} must return the server's state as a dict of tensors, got {type(server).__name__}."
            )
        shapes = {key: tuple(value.shape) for key, value in self.state.server.items()}
        after = {key: tuple(value.shape) for key, value in server.items()}
        if after != shapes:
            raise UserError(f"{name} changed the server's state from {shapes} to {after}. Keep keys and shapes.")
        self._check_finite(server, number, "")

    def _check_finite(self, vectors: Vectors, number: int, whose: str) -> None:
        for key, value in vectors.items():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise Diverged(
                    f"Training diverged in round {number}: {whose}{key} is not finite. "
                    f"Lower --lr (now {self.spec.lr}), or change {self.spec.algorithm} or {self.spec.optimiser}."
                )


def _owned(vectors: Vectors) -> Vectors:
    """The vectors with memory of their own: a view would keep the whole stack that it is a part of alive."""
    return {k: v if v.untyped_storage().nbytes() == v.nbytes else v.clone() for k, v in vectors.items()}
