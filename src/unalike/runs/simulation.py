"""A federation that is trained in one process: its data, its engine, its evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from torch import Tensor

from unalike.algorithms.contract import Ask, Kind, Phase, Vectors
from unalike.data import Dataset
from unalike.engines.choose import choose_engine
from unalike.engines.compiled.engine import trains_whole
from unalike.engines.job import Job
from unalike.engines.several import PerNet
from unalike.engines.vectorised import Vectorised
from unalike.partition import Partition
from unalike.rounds.blocks import BlockSum, blocks_in, cut
from unalike.rounds.cohorts import KnownParties
from unalike.rounds.cohorts.loss_of_model import LossOfModel
from unalike.rounds.evaluation import Models, chosen_scores, evaluate, without_each
from unalike.rounds.federation import Crew, Pool
from unalike.rounds.gather import Engine, Gathered, Receiver
from unalike.rounds.ledger import Ledger
from unalike.rounds.order import Order, Reply
from unalike.rounds.personal import PersonalModels
from unalike.rounds.population import Population
from unalike.rounds.state import State
from unalike.rounds.worker import Workers
from unalike.runs.build import build_federation
from unalike.runs.kept import RoundModels, net_models
from unalike.runs.rules import cohort_rule, deploying, pooled_work
from unalike.runs.selection import Selection
from unalike.runs.spec import RunSpec
from unalike.runs.training import Training
from unalike.scores import Figures

MANY = 100_000
"""Parties from which on one waits for their rows to be split, and is told so."""


class Elsewhere(Protocol):
    """Other processes that let parties work."""

    def answer(self, orders: Sequence[Order]) -> Iterator[BlockSum]:
        """What comes of the blocks of these orders, in the order of the blocks."""
        ...

    def told(self) -> Figures:
        """What the record says of them."""
        ...


class Simulation(Training):
    """A federation trained in one process, round by round.

    ``participation`` says who answered in the exchange (round, turn), where it was not the whole cohort: so a
    federation of real sites, some of which were absent at times, can be played again to the same bits. ``split``
    is the partition, where somebody has made it already. ``elsewhere`` answers blocks of parties in other
    processes, if there are any.
    """

    engine: Engine
    elsewhere: Elsewhere | None = None

    def __init__(
        self,
        spec: RunSpec,
        *,
        data: Dataset | None = None,
        say: Callable[[str], None] = print,
        participation: Mapping[tuple[int, int], Sequence[int]] | None = None,
        split: Partition | None = None,
    ) -> None:
        if (spec.parties or 0) >= MANY:
            say(f"Splitting the rows between {spec.parties:,} parties.")
        self.federation = build_federation(spec, data, split)
        super().__init__(spec, self.federation.tasks, self.federation.population)
        self.crew: Workers = Crew(self.federation, self.recipe)
        if not self.federation.dataset.is_tested:
            say(f"{self.federation.dataset.name} has no test rows: there is no score on a global test set.")
        if self.algorithm.pools:
            work = pooled_work(spec, self.population.most_rows, self.federation.population.size)
            self.crew = Pool(self.federation, replace(self.recipe, work=work))
        self._deploying, self._adapting = deploying(spec, self.recipe, self.tasks)
        self._deployed = Crew(self.federation, self._deploying)
        if spec.batch_norm != "average" and not any(task.has_batch_norm for task in self.tasks):
            say(f"{spec.model} has no batch norm: --batch-norm {spec.batch_norm} changes nothing.")
        if self.channel.hidden is not None and (warning := self.channel.hidden.warning(self.task.size)):
            say(warning)
        self.use(spec.engine, say)
        self._participation = participation or {}
        self.evaluated: tuple[int, Figures] | None = None
        """The last round that was evaluated, and its figures with each party's own."""
        self._last: tuple[State, Models] | None = None
        self.selection = Selection(self.score, whole=self.algorithm.overrides("personal") or self.adapts)

    def trained_by(self, population: Population) -> Population:
        """All but newcomers; everybody where nothing is shared; or one party that has all rows."""
        if self.algorithm.pools:
            return Population([int(population.member_rows.sum())])
        return Population(population.rows) if self.algorithm.sends == "nothing" else population

    def known_parties(self) -> KnownParties:
        """All that rules may choose by: here it is at hand, and the run's record says what was looked at."""
        known, data = super().known_parties(), self.federation.dataset
        if not cohort_rule(self.spec).needs_labels or data.task != "classification" or self.algorithm.pools:
            return known
        counts = self.federation.label_counts[list(self.population.members)]
        return replace(known, labels=counts)

    def losses(self, w: Tensor, candidates: Sequence[int], number: int, ledger: Ledger) -> list[float]:
        """The candidates' own answers, each by one pass over its training rows."""
        recipe = replace(self.recipe, algorithm=LossOfModel(), wire=None)
        orders = [self.order(Ask("measure", {"w": w}), k, number, ledger) for k in candidates]
        replies = self.engine.answer(Crew(self.federation, recipe), orders)
        found = Receiver(recipe).add(orders, replies).singles or {}
        return [float(found[k]["loss"]) for k in candidates]

    def gather(self, orders: Sequence[Order]) -> Gathered:
        """The sums over all who are asked: here everybody answers."""
        if self.elsewhere is not None:
            return self.receiver.whole(orders, self.elsewhere.answer(orders))
        return self.receiver.add(orders, self._replies(orders))

    def _replies(self, orders: Sequence[Order]) -> Iterator[Reply]:
        """The parties' replies; of stacks block by block, as workers would make them."""
        blocks = blocks_in(orders) if self.stacks else {}
        for block in cut(orders, blocks) if blocks else (orders,):
            yield from self.engine.answer(self.crew, list(block))

    def asked(self, round: int, turn: int, cohort: Sequence[int]) -> Sequence[int]:
        """The cohort, less those of whom it is known that they did not answer."""
        there = self._participation.get((round, turn))
        return cohort if there is None else [number for number in cohort if number in there]

    def evaluate(self, after: State) -> Figures:
        """The figures on the global test set and on the parties' own rows."""
        self.evaluated = after.round, self.figures(after, everything=after.round == self.spec.rounds)
        return without_each(self.evaluated[1])

    def figures(self, state: State, *, everything: bool = True) -> Figures:
        """The same, with each party's own; all scores of the task, or the cheap ones and the run's own."""
        scores = chosen_scores(self.score, everything=everything)
        models = self.models_at(state)
        return evaluate(self.federation, models, self.spec.threads, scores, test_by=self.spec.test_by)

    def use(self, engine: str, say: Callable[[str], None]) -> None:
        """Run on the engine of that name; where nets differ, it may name one for each, as in ``a|b``."""
        spec = self.spec
        places = 1 if self.algorithm.pools else self.federation.size
        rows = len(self.federation.train) * (1 - spec.validation - spec.held_out) / places
        whole = trains_whole(self.task, self.algorithm, self.recipe.optimiser)
        job = Job(
            task=self.task,
            parties=self.cohort_size,
            shape=self.federation.dataset.shape,
            threads=spec.threads,
            whole=whole and self.federation.train.stored is not None,
            sparse=self.federation.dataset.is_sparse,
            readable=self.federation.train.stored is not None,
            steps=spec.rounds * self.cohort_size * spec.work.count(round(rows)),
            batch_size=min(spec.batch_size, math.ceil(rows)),
        )
        first, *others = engine.split("|")
        self.engine, self._why = choose_engine(first, job, say)
        if len(self.tasks) > 1:
            others = others or [self.engine.name] * (len(self.tasks) - 1)
            jobs = [replace(job, task=task) for task in self.tasks[1:]]
            chosen = [choose_engine(name, own, say).engine for name, own in zip(others, jobs, strict=True)]
            self.engine = PerNet([self.engine, *chosen])

    def fall_back(self, engine: str, why: str, say: Callable[[str], None]) -> None:
        """Go on with the engine that the parties' work has turned out to need elsewhere."""
        say(f"{why[:1].upper()}{why[1:]}: the run goes on on the {engine} engine.")
        self.use(engine, say)
        self._why = why

    @property
    def why_this_engine(self) -> str:
        """Why the run uses the engine that it uses."""
        return getattr(self.engine, "fell_back", None) or self._why

    @property
    def engine_name(self) -> str:
        """The engine that trains the parties."""
        return self.engine.name

    @property
    def threads(self) -> int:
        """A stack is one large operation, which uses the threads; elsewhere so many parties run at once."""
        return self.spec.threads if self.stacks else 1

    @property
    def stacks(self) -> bool:  # type: ignore[override]  # a fact of the engine, which may change
        """Whether the engine computes the parties of a block as one stack; of several nets, of any."""
        return Vectorised.name in self.engine.name.split("|")

    @property
    def stopped(self) -> str | None:
        """Nets are trained for all rounds."""
        return None

    @property
    def adapts(self) -> bool:
        """Whether parties train their models further before these are tried or deployed."""
        return any(self._adapting)

    def models_at(self, state: State) -> Models:
        """The same; those of the last round are kept, since what parties train further takes its time."""
        if self._last is not None and self._last[0] is state:
            return self._last[1]
        found = self.models(state)
        if state.round == self.spec.rounds:
            self._last = state, found
        return found

    def models(self, state: State) -> Models:
        """What the state gives to evaluate."""
        own = self.algorithm.overrides("personal") or self.adapts
        kind: Kind = "measure+train" if self.algorithm.measures_personal else "train"
        ask = Ask(kind, self.algorithm.send(self.task, state.server) if own else {})
        ledger = Ledger(state.buffers)
        adapts = [self._deploying.algorithm.adapts(known) for known in (False, True)]

        def order(number: int) -> Order:
            return self.order(ask, number, max(1, state.round), ledger, state)

        def phases(number: int) -> tuple[Phase, ...]:
            return self._adapting[number % len(self._adapting)] if adapts[number in state.parties] else ()

        personal = PersonalModels(self.engine, self._deployed, self.federation.tried, order, phases)
        return Models(
            self.algorithm.global_model(self.task, state.server),
            personal if own else None,
            state.buffers,
            state.own_buffers if self.recipe.keeps_statistics else None,
        )

    def placed(self, tensors: Vectors) -> Vectors:
        """Tensors that were read from a file, on the device of the nets; a channel's memory is the processor's."""
        device = self.task.device
        return {name: v if name.startswith("channel/") else v.to(device) for name, v in tensors.items()}

    def fixed(self) -> dict[str, str]:
        """The digest of frozen layers, if there are any."""
        constants = " ".join(task.constants_digest for task in self.tasks).strip()
        return {"constants_sha256": constants} if constants else {}

    def about_model(self) -> dict[str, Any]:
        """The number of a net's weights."""
        return {"weights": self.task.size}

    def final_weights(self) -> Vectors:
        """The final global model by layer name, or the server's vectors where there is no one net."""
        w = self.algorithm.global_model(self.task, self.state.server)
        return dict(self.state.server) if w is None or w.dim() > 1 else self.task.named(w, self.state.buffers)

    def round_models(self, state: State) -> RoundModels:
        """The models that a state gives, by layer name."""
        return net_models(self, state)
