"""Rounds of an algorithm: the server, the cohort, and how one round changes them, wherever the parties are."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from unalike.algorithms import ALGORITHMS
from unalike.algorithms.checked import checked
from unalike.algorithms.contract import Ask, Replies, Vectors, sent_to
from unalike.channels import Accountant, NotFinite, Participation, parse_channel, simulated_random
from unalike.channels.setting import Random
from unalike.errors import UserError
from unalike.models.task import Task
from unalike.own_code import explained
from unalike.rounds.cohorts import KnownParties
from unalike.rounds.gather import Gathered, Receiver, replies_of, traffic
from unalike.rounds.ledger import Ledger
from unalike.rounds.order import Order, phases_of
from unalike.rounds.population import Population
from unalike.rounds.state import State
from unalike.runs.cohorts import NO_AMPLIFICATION, Cohorts, invited
from unalike.runs.rules import (
    Diverged,
    asked_in,
    check_channel,
    check_finite,
    check_states,
    cohort_size,
    learning_rate,
    least_opened,
    recipe_of,
    wire_of,
)
from unalike.runs.spec import RunSpec
from unalike.scores import Figures, choose


class Training(ABC):
    """The server's side of a run. A subclass says where the parties are and how they are evaluated.

    ``tasks``: the nets, of which party k has the k-th, counted round and round; the server's methods get one.
    """

    def __init__(self, spec: RunSpec, tasks: Sequence[Task], population: Population) -> None:
        self.spec = spec
        self.tasks, self.task = tasks, tasks[0]
        self.algorithm = checked(ALGORITHMS.build(spec.algorithm))
        self.population = self.trained_by(population)
        apart = self.algorithm.pools or self.algorithm.sends == "nothing"
        self.channel = parse_channel(None if apart else spec.channel)  # else there is nothing to carry
        wire = wire_of(spec, self.channel, tasks, self.asked_in, self.random, self.fewest)
        self.recipe = recipe_of(spec, self.algorithm, tasks, wire)
        self.receiver = Receiver(self.recipe)
        for task in tasks:
            task.least_opened = least_opened(self.channel, self.cohort_size, self.fewest(self.cohort_size))
        self._check_fit()
        self.cohorts = Cohorts(spec, self.population, self.known_parties())
        self.score = choose(spec.score, self.task.objective.task)
        self.initials = [task.initial() for task in tasks]
        self.initial = self.initials[0]
        with explained(self.algorithm):
            servers = [self.algorithm.init_server(*each) for each in zip(tasks, self.initials, strict=True)]
        server, shapes = servers[0], [{key: value.shape for key, value in each.items()} for each in servers]
        self.state = State(0, server, self.task.initial_buffers(), {})
        with explained(self.algorithm):
            self.cohorts.check(self.algorithm, self.channel, tasks, self.initial)
        self._check_server(server, 0)
        one = len(tasks) > 1 and self.algorithm.global_model(self.task, server) is not None
        if one or any(each != shapes[0] for each in shapes):
            raise UserError(
                f"{spec.algorithm} has models to share, which nets that differ ({spec.model}) cannot share. "
                "Name one --model, or choose an algorithm that exchanges something else than weights."
            )
        if spec.fine_tune:
            self._check_fine_tuning()
        # What sampling adds to privacy holds for uniform cohorts alone.
        self.accountant = Accountant(self.channel, population.size, self.cohort_size, self.cohorts.chosen)
        self._taken: Counter[int] = Counter()
        self._taken_until = 0

    @abstractmethod
    def gather(self, orders: Sequence[Order]) -> Gathered:
        """The sums over those parties that answer these orders."""

    def trained_by(self, population: Population) -> Population:
        """Who trains, and on how many rows each: here all whom the server knows."""
        return population

    stacks = False
    """Whether the parties of a block are computed as one stack."""

    def evaluate(self, after: State) -> Figures:
        """The figures of a state for the record: none, unless there are rows to try it on."""
        return {}

    def known_parties(self) -> KnownParties:
        """What is known of those who can be asked, for a rule that chooses cohorts by it."""
        return KnownParties(self.population.size, self.population.member_rows)

    def losses(self, w: Tensor, candidates: Sequence[int], number: int, ledger: Ledger) -> list[float]:
        """The mean loss of a model on the training rows of each candidate for a round's cohort."""
        raise UserError(f"--cohort {self.spec.cohort} asks parties for losses, which is for simulations alone.")

    def fewest(self, cohort: int) -> int:
        """How many of a cohort must answer."""
        return cohort

    def random(self, number: int, turn: int, party: int | None) -> Random:
        """Where one side of the channel has its random numbers from: here from the seed, which repeats them."""
        return simulated_random(self.spec.seed, number, turn, party)

    def _check_fit(self) -> None:
        """Refuse what the optimiser, the net or the number of parties makes meaningless, before any work."""
        self.channel.check_cohort(self.cohort_size)
        spec = self.spec
        if self.algorithm.needs_sgd:
            self.recipe.optimiser.step_sum(torch.ones(()))
        if self.algorithm.needs_features and not self.task.parts.spans("body"):
            raise UserError(
                f"{spec.algorithm} acts on features, but those of {spec.model} have no weights that are trained: "
                "it would be FedAvg. Choose another --model."
            )
        check_channel(self.algorithm, self.channel, everybody=self.cohort_size == self.population.size)
        norm = any(task.buffers.size for task in self.tasks)
        if len(self.tasks) > 1 and norm and not self.recipe.keeps_statistics:
            raise UserError("Nets that differ have no common statistics of batch norm. Use --batch-norm local.")

    def _check_fine_tuning(self) -> None:
        """Refuse to train models further that there are none of, or that the algorithm itself trains further."""
        name, leave = self.spec.algorithm, f"Leave --fine-tune {self.spec.fine_tune} out."
        if self.algorithm.adapts(True) and any(map(self.algorithm.adapt, self.tasks)):
            raise UserError(f"{name} adapts its models itself. {leave}")
        shared = self.algorithm.global_model(self.task, self.state.server)
        if shared is None and not self.algorithm.overrides("personal"):
            raise UserError(f"{name} has no model that parties could train further. {leave}")

    @property
    def _prepares(self) -> bool:
        return self.algorithm.overrides("prepare")

    @property
    def cohort_size(self) -> int:
        """How many parties take part in a round."""
        return cohort_size(self.spec, self.population.size)

    def asked_in(self, round: int) -> int:
        """The public number of parties that are asked in a round."""
        return asked_in(self.spec, self.population.size, round)

    def cohort(self, round: int) -> list[int]:
        """The parties of a round, ascending, or the candidates for one; newcomers are never among them."""
        return self.cohorts.of(round)

    def task_of(self, number: int) -> Task:
        """The task of a party."""
        return self.tasks[number % len(self.tasks)]

    def party_state(self, number: int, state: State | None = None) -> Vectors:
        """The state that a party keeps; parties that never took part are as at the start."""
        known = (state or self.state).parties.get(number)
        if known is not None:
            return known
        return self.algorithm.init_party(self.task_of(number), self.initials[number % len(self.tasks)])

    def play_round(self) -> tuple[State, Figures]:
        """Play the next round; nothing changes until ``state`` is set to what is returned."""
        with explained(self.algorithm, self.recipe.optimiser):
            return self._play_round()

    def _play_round(self) -> tuple[State, Figures]:
        began = time.perf_counter()
        number = self.state.round + 1
        ledger = Ledger(self.state.buffers)
        # A copy: a key that the algorithm adds to what it was given must not pass for one that was there.
        server, exchanges = dict(self.state.server), self.state.exchanges
        if number == 1 and self._prepares:
            ledger.begin(self.cohort(0), stacked=self.stacks)
            server = self._converse(self.algorithm.prepare(self.task, server), 0, ledger)
            self._check_server(server, 0)
            exchanges = self._counted(exchanges, ledger.turn)
        shared = self.algorithm.global_model(self.task, server) if self.cohorts.rule.by_loss else None
        cohort = self.cohorts.choose(self.cohort(number), number, shared, ledger, self.losses)
        ledger.begin(cohort, stacked=self.stacks)
        server = self._converse(self.algorithm.round(self.task, server), number, ledger)
        self._check_server(server, number)
        check_states(self.spec, ledger.states, number)
        after = self.state.after(number, server, ledger, self._counted(exchanges, ledger.turn))
        row: Figures = {"round": number, "train_loss": ledger.loss}
        if self.channel.noise is not None:
            row["epsilon"] = self.accountant.epsilon(self.participation(after))
        if number % self.spec.evaluate_every == 0 or number == self.spec.rounds:
            row |= self.evaluate(after)
        totals = {f"bytes_{way}": sum(sizes.values()) for way, sizes in ledger.traffic.items()}
        row |= self.cohorts.row(cohort) | {**totals, "traffic": ledger.traffic}
        return after, row | {"seconds": time.perf_counter() - began}

    def _converse(self, script: Generator[Ask, Replies, Vectors], number: int, ledger: Ledger) -> Vectors:
        """Play a generator of exchanges to its end: the server's new state."""
        ledger.turn = 0
        try:
            ask = next(script)
            while True:
                ask = script.send(self._exchange(ask, number, ledger))
        except StopIteration as end:
            server: Vectors = end.value
            return server

    def asked(self, round: int, turn: int, cohort: Sequence[int]) -> Sequence[int]:
        """Who of the cohort is asked in an exchange."""
        return cohort

    def _exchange(self, ask: Ask, number: int, ledger: Ledger) -> Replies:
        there = self.asked(number, ledger.turn, ledger.cohort)
        asked = invited(self.spec.algorithm, self.channel, ask, there)
        if not asked:
            raise UserError(
                f"Nobody is there in exchange {ledger.turn} of round {number}: there is nothing to sum."
            )
        orders = [self.order(ask, k, number, ledger) for k in asked]
        try:
            gathered = self.gather(orders)
        except NotFinite as error:
            raise Diverged(f"Training diverged in round {number}: {error}") from None
        ledger.states |= gathered.states
        ledger.memories |= gathered.memories
        missing = set(asked) - set(gathered.answered)
        ledger.cohort = [k for k in ledger.cohort if k not in missing]  # absent for the rest of the round
        ledger.turn += 1
        if not self.algorithm.pools:  # a model that never leaves the place where all rows are
            ledger.count("up", gathered.up)
            shared = None if self.recipe.keeps_statistics else ledger.buffers
            ledger.count("down", traffic(ask.payload, shared, len(asked)))
            ledger.count("down", gathered.down)
        if ask.kind not in ("measure", "offer"):
            loss = gathered.total.loss
            ledger.loss = math.nan if loss is None else loss / gathered.total.weight
        if gathered.statistics is not None:
            ledger.buffers = gathered.statistics
        if self.recipe.keeps_statistics:
            ledger.own_buffers |= gathered.own_buffers
        return replies_of(gathered, self.recipe, self.population, ledger.buffers)

    def order(self, ask: Ask, party: int, number: int, ledger: Ledger, state: State | None = None) -> Order:
        """An ask as one party gets it; ``state`` is what the round began with, where it is another than ours."""
        before = state or self.state
        states, memories, buffers = ledger.states, ledger.memories, ledger.buffers
        if self.recipe.keeps_statistics:
            fresh = buffers if len(self.tasks) == 1 else self.task_of(party).initial_buffers()
            now = ledger.own_buffers.get(party)
            buffers = before.own_buffers.get(party, fresh) if now is None else now
        return Order(
            party,
            number,
            ledger.turn,
            ask.kind,
            payload=sent_to(ask.payload, party),
            state=states[party] if party in states else self.party_state(party, before),
            buffers=buffers,
            lr=learning_rate(self.spec, number),
            phases=phases_of(self.algorithm, self.task_of(party), ask.kind, ask.phase, number),
            phase=ask.phase,
            rows=ask.rows,
            memory=memories[party] if party in memories else before.memories.get(party, {}),
            most_rows=self.population.most_rows,
            block=ledger.blocks.get(party),
        )

    def participation(self, state: State) -> Participation:
        """Who took part how often until then: what an accountant of privacy must know."""
        while self._taken_until < state.round:
            self._taken_until += 1
            self._taken.update(self.cohort(self._taken_until))
            if self._taken_until == 1 and self._prepares:
                self._taken.update(self.cohort(0))
        rounds = max(self._taken.values(), default=0)
        return Participation(state.exchanges, rounds * max(state.exchanges, default=0))

    def privacy(self, last: Figures) -> dict[str, dict[str, Any]]:
        """For the run's result: what the noise hides until a row, if there is any."""
        noise = self.channel.noise
        if noise is None or last.get("epsilon") is None:
            return {}
        what = {"epsilon": last["epsilon"], "delta": noise.delta, "neighbours": self.accountant.neighbours}
        if self.cohorts.chosen:
            what["sampling"] = NO_AMPLIFICATION
        return {"privacy": {**what, "noise": noise.where}}

    def _counted(self, known: Mapping[int, int], turns: int) -> Mapping[int, int]:
        """The rounds by their number of exchanges, with one more; only of noise, and where anybody was asked."""
        return {**known, turns: known.get(turns, 0) + 1} if self.channel.noise is not None and turns else known

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
        check_finite(self.spec, server, number, "")
