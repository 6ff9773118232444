"""Rounds of an algorithm: the server, the cohort, and how one round changes them, wherever the parties are."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from unalike.algorithms import ALGORITHMS
from unalike.algorithms.checked import checked
from unalike.algorithms.contract import Ask, Replies, Vectors
from unalike.channels import CHANNELS, Accountant, NotFinite, Participation, parse_channel, simulated_random
from unalike.channels.setting import Random
from unalike.errors import UserError
from unalike.own_code import explained
from unalike.randomness import stream
from unalike.rounds.evaluation import Figures
from unalike.rounds.exchange import Engine, Exchange, combine, traffic
from unalike.rounds.federation import Federation
from unalike.rounds.optimisers import OPTIMISERS
from unalike.rounds.state import State
from unalike.rounds.upload import Wire
from unalike.runs.spec import RunSpec

Traffic = dict[str, dict[str, int]]
"""Bytes "up" and "down", by what they carry."""


class Diverged(UserError):
    """The weights are no longer finite."""


@dataclass
class Ledger:
    """What one round has changed and cost so far."""

    buffers: Tensor
    states: dict[int, Vectors] = field(default_factory=dict)
    own_buffers: dict[int, Tensor] = field(default_factory=dict)
    memories: dict[int, Vectors] = field(default_factory=dict)
    loss: float = math.nan
    traffic: Traffic = field(default_factory=lambda: {"up": {}, "down": {}})
    turn: int = 0
    cohort: Sequence[int] = ()
    """who has answered so far in this round"""

    def count(self, way: str, sizes: Mapping[str, int]) -> None:
        """Add bytes sent ``up`` or ``down``, by key."""
        for key, size in sizes.items():
            self.traffic[way][key] = self.traffic[way].get(key, 0) + size


class Training:
    """An algorithm trained round by round. A subclass says where the parties are and how they are evaluated."""

    engine: Engine

    def __init__(self, spec: RunSpec, federation: Federation) -> None:
        self.spec = spec
        self.algorithm = checked(ALGORITHMS.build(spec.algorithm))
        self.optimiser = OPTIMISERS.build(spec.optimiser)
        self.channel = parse_channel(spec.channel)
        self.federation = federation
        self.task = federation.task
        self._check_fit()
        self.initial = self.task.initial()
        with explained(self.algorithm):
            server = self.algorithm.init_server(self.task, self.initial)
        self.state = State(0, server, self.task.initial_buffers(), {})
        self._check_server(server, 0)
        self.accountant = Accountant(self.channel, federation.size, self.cohort_size)
        self._taken: Counter[int] = Counter()
        self._taken_until = 0

    def _check_fit(self) -> None:
        """Refuse what the optimiser, the net or the number of parties makes meaningless, before any work."""
        self.channel.check_cohort(self.cohort_size)
        spec, body = self.spec, self.task.slices["body"]
        if self.algorithm.needs_sgd:
            self.optimiser.step_sum(torch.ones(()))
        if self.algorithm.needs_features and body.start == body.stop:
            raise UserError(
                f"{spec.algorithm} acts on features, but those of {spec.model} have no weights that are trained: "
                "it would be FedAvg. Choose another --model."
            )
        if self.algorithm.needs_each and (self.channel.hides_single or self.channel.noise is not None):
            name, channel = ALGORITHMS.brief(self.algorithm), CHANNELS.brief(self.channel)
            raise UserError(
                f"{name} needs to see single uploads, which --channel {channel} "
                "does not show. Choose another algorithm, or a channel without noise, masked and encrypted."
            )

    def evaluate(self, after: State) -> Figures:
        """The figures of a state for the record: none, unless there are rows to try it on."""
        return {}

    @property
    def cohort_size(self) -> int:
        """How many parties take part in a round."""
        return cohort_size(self.spec, self.federation.size)

    @property
    def _keeps_statistics(self) -> bool:
        """Whether every party keeps its own running statistics."""
        return self.spec.batch_norm == "local" and self.task.buffers.size > 0

    def cohort(self, round: int) -> list[int]:
        """The parties of a round, ascending."""
        return cohort_of(self.spec, self.federation.size, round)

    def party_state(self, number: int) -> Vectors:
        """The state that a party keeps; parties that never took part are as at the start."""
        known = self.state.parties.get(number)
        return self.algorithm.init_party(self.task, self.initial) if known is None else known

    def play_round(self) -> tuple[State, Figures]:
        """Play the next round; nothing changes until ``state`` is set to what is returned."""
        with explained(self.algorithm):
            return self._play_round()

    def _play_round(self) -> tuple[State, Figures]:
        began = time.perf_counter()
        number = self.state.round + 1
        cohort = self.cohort(number)
        ledger = Ledger(self.state.buffers, own_buffers=dict(self.state.own_buffers), cohort=cohort)
        # A copy: a key that the algorithm adds to what it was given must not pass for one that was there.
        rounds = self.algorithm.round(self.task, dict(self.state.server))
        try:
            ask = next(rounds)
            while True:
                ask = rounds.send(self._exchange(ask, number, ledger))
        except StopIteration as end:
            server: Vectors = end.value
        self._check_server(server, number)
        for k, state in ledger.states.items():
            self._check_finite(state, number, f"party {k}'s ")
        states = {k: _owned(state) for k, state in ledger.states.items() if state}
        parties = {**self.state.parties, **states}
        memories = {**self.state.memories, **{k: kept for k, kept in ledger.memories.items() if kept}}
        exchanges = self._exchanges_with(ledger.turn)
        after = State(number, _owned(server), ledger.buffers, parties, ledger.own_buffers, memories, exchanges)
        row: Figures = {"round": number, "train_loss": ledger.loss}
        if self.channel.noise is not None:
            row["epsilon"] = self.accountant.epsilon(self.participation(after))
        if number % self.spec.evaluate_every == 0 or number == self.spec.rounds:
            row |= self.evaluate(after)
        totals = {f"bytes_{way}": sum(sizes.values()) for way, sizes in ledger.traffic.items()}
        row |= {"cohort": len(cohort), **totals, "traffic": ledger.traffic}
        return after, row | {"seconds": time.perf_counter() - began}

    def asked(self, round: int, turn: int, cohort: Sequence[int]) -> Sequence[int]:
        """Who of the cohort is asked in an exchange."""
        return cohort

    def _exchange(self, ask: Ask, number: int, ledger: Ledger) -> Replies:
        asked = self.asked(number, ledger.turn, ledger.cohort)
        exchange = self.exchange(ask, number, asked, ledger)
        try:
            combined = combine(exchange, self.engine.exchange(exchange))
        except NotFinite as error:
            raise Diverged(f"Training diverged in round {number}: {error}") from None
        ledger.states |= combined.states
        ledger.memories |= combined.memories
        ledger.cohort = sorted(combined.states)  # who did not answer is absent for the rest of the round
        ledger.turn += 1
        ledger.count("up", combined.traffic)
        ledger.count("down", traffic(ask.payload, None if self._keeps_statistics else ledger.buffers, len(asked)))
        ledger.count("down", combined.extra_down)
        if exchange.trains:
            ledger.buffers, ledger.loss = combined.replies.buffers, combined.loss
        if self._keeps_statistics:
            ledger.own_buffers |= combined.own_buffers
        return combined.replies

    def exchange(self, ask: Ask, number: int, cohort: Sequence[int], ledger: Ledger) -> Exchange:
        """An ask to a cohort in a round, with all that an engine needs to know."""
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
            wire=self.wire(number, ledger) if self.channel.parts else None,
        )

    def wire(self, number: int, ledger: Ledger) -> Wire:
        """The private channel of an exchange."""
        turn = ledger.turn
        return Wire(
            self.channel,
            cohort=len(self.cohort(number)),
            scale=float(self.federation.most_rows) if self.channel.hides_single else 1.0,
            memory_of=lambda k: ledger.memories[k] if k in ledger.memories else self.state.memories.get(k, {}),
            random_of=lambda party: self.random(number, turn, party),
        )

    def random(self, number: int, turn: int, party: int | None) -> Random:
        """Where one side of the channel has its random numbers from: here from the seed, which repeats them."""
        return simulated_random(self.spec.seed, number, turn, party)

    def participation(self, state: State) -> Participation:
        """Who took part how often until then: what an accountant of privacy must know."""
        while self._taken_until < state.round:
            self._taken_until += 1
            self._taken.update(self.cohort(self._taken_until))
        rounds = max(self._taken.values(), default=0)
        return Participation(state.exchanges, rounds * max(state.exchanges, default=0))

    def privacy(self, last: Figures) -> dict[str, dict[str, Any]]:
        """For the run's result: what the noise hides until a row, if there is any."""
        noise = self.channel.noise
        if noise is None or last.get("epsilon") is None:
            return {}
        what = {"epsilon": last["epsilon"], "delta": noise.delta, "neighbours": self.accountant.neighbours}
        return {"privacy": {**what, "noise": noise.where}}

    def _exchanges_with(self, turns: int) -> Mapping[int, int]:
        """The rounds by their number of exchanges, with one more; counted under noise only."""
        known = self.state.exchanges
        return {} if self.channel.noise is None else {**known, turns: known.get(turns, 0) + 1}

    def _lr(self, number: int) -> float:
        return self.spec.lr * self.spec.lr_decay ** (number - 1)

    def _check_server(self, server: Vectors, number: int) -> None:
        """Refuse a server state that breaks the contract, or that is not finite."""
        name = self.spec.algorithm
        shapes = {key: tuple(value.shape) for key, value in self.state.server.items()}
        after = {key: tuple(value.shape) for key, value in server.items()}
        if after != shapes:
            raise UserError(f"{name} changed the server's state from {shapes} to {after}. Keep keys and shapes.")
        for key, old in self.state.server.items():
            if server[key].dtype != old.dtype:
                raise UserError(
                    f"{name} changed the server's {key} from {old.dtype} to {server[key].dtype}. Keep types: "
                    f"{key}.to(server[{key!r}].dtype)."
                )
        self._check_finite(server, number, "")

    def _check_finite(self, vectors: Vectors, number: int, whose: str) -> None:
        for key, value in vectors.items():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise Diverged(
                    f"Training diverged in round {number}: {whose}{key} is not finite. "
                    f"Lower --lr (now {self.spec.lr}), or change {self.spec.algorithm} or {self.spec.optimiser}."
                )


def cohort_size(spec: RunSpec, parties: int) -> int:
    """How many of so many parties take part in a round."""
    return max(1, round(spec.sample * parties))


def cohort_of(spec: RunSpec, parties: int, round: int) -> list[int]:
    """The parties of a round, ascending: the same for every algorithm with the same seed."""
    size = cohort_size(spec, parties)
    if size == parties:
        return list(range(parties))
    return sorted(stream(spec.seed, "cohort", round).choice(parties, size, replace=False).tolist())


def _owned(vectors: Vectors) -> Vectors:
    """The vectors with memory of their own: a view would keep the whole stack that it is a part of alive."""
    return {k: v if v.untyped_storage().nbytes() == v.nbytes else v.clone() for k, v in vectors.items()}
