"""The cohorts of a run: who may choose them by what, who is in one, and what the record says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from unalike.algorithms.contract import Algorithm, Ask, Vectors
from unalike.channels import CHANNELS, Channel
from unalike.errors import UserError
from unalike.models.task import Task
from unalike.rounds.cohorts import CohortRule, KnownParties
from unalike.rounds.gather import traffic
from unalike.rounds.ledger import Ledger
from unalike.rounds.population import Population
from unalike.runs.rules import cohort_of, cohort_rule, cohort_size
from unalike.runs.spec import RunSpec
from unalike.scores import Figures

MEMBERS = "members"
"""Who was in a round's cohort: in its row, where some are likelier than others."""
NO_AMPLIFICATION = (
    "cohorts are not uniform, so nothing is claimed for sampling: epsilon is that of the party asked most often, "
    "for updates alone; what cohorts are chosen by is not covered"
)
Losses = Callable[[Tensor, Sequence[int], int, Ledger], list[float]]
"""The mean loss of a model on the training rows of each of some parties, in a round."""


@dataclass(frozen=True)
class Cohorts:
    """How a run's cohorts are drawn; ``known`` is what is known of those who can be asked, in their order."""

    spec: RunSpec
    population: Population
    known: KnownParties

    @cached_property
    def rule(self) -> CohortRule:
        """The registered part that chooses."""
        return cohort_rule(self.spec)

    @property
    def size(self) -> int:
        """How many parties take part in a round."""
        return cohort_size(self.spec, self.population.size)

    @property
    def chosen(self) -> bool:
        """Whether some cohorts are likelier than others."""
        return not self.rule.uniform and self.size < self.population.size

    def of(self, round: int) -> list[int]:
        """The parties of a round, ascending, newcomers never among them; or the candidates for one."""
        members = self.population.members
        return [members[place] for place in cohort_of(self.spec, len(members), round, self.known)]

    def check(self, algorithm: Algorithm, channel: Channel, tasks: Sequence[Task], w: Tensor) -> None:
        """Refuse a rule that does not go with what is known, with the algorithm or with the channel."""
        if not self.chosen:
            return
        self.rule.check(self.rule.informed(self.known), self.size)
        if not self.rule.by_loss:
            return
        if channel.hides_single or channel.noise is not None:
            raise UserError(
                f"--cohort {self.spec.cohort} looks at the loss of single parties, which --channel "
                f"{CHANNELS.brief(channel)} would neither hide nor count. Use another cohort, or no channel."
            )
        if len(tasks) > 1 or algorithm.global_model(tasks[0], algorithm.init_server(tasks[0], w)) is None:
            raise UserError(
                f"{self.spec.algorithm} has no one model whose losses could be compared. Use another --cohort."
            )

    def choose(self, drawn: list[int], number: int, w: Tensor | None, ledger: Ledger, losses: Losses) -> list[int]:
        """The cohort of a round; where it goes by losses, who was drawn is asked first, which is counted."""
        if not self.chosen or not self.rule.by_loss or w is None:
            return drawn
        found = losses(w, drawn, number, ledger)
        sent: Vectors = {"w": w}
        ledger.count("down", traffic(sent, ledger.buffers, len(drawn)))
        ledger.count("up", {"loss": len(drawn) * w.element_size()})
        return sorted(self.rule.choose(drawn, found, self.size))

    def row(self, cohort: Sequence[int]) -> Figures:
        """What a round's row says of its cohort."""
        return {"cohort": len(cohort)} | ({MEMBERS: list(cohort)} if self.chosen else {})

    def told(self, rows: Sequence[Figures]) -> dict[str, dict[str, Any]]:
        """For the run's result: the rule, what of single parties it looks at, how often parties took part."""
        if not self.chosen:
            return {}
        asked = Counter(dict.fromkeys(self.population.members, 0))
        asked.update(number for row in rows for number in row.get(MEMBERS, ()))
        shares = [count / len(rows) for count in asked.values()]
        taken = {"least": min(shares), "most": max(shares), "uniform": self.size / self.population.size}
        return {"cohorts": {"rule": self.spec.cohort, "revealed": self.rule.reveals, "participation": taken}}


def invited(name: str, channel: Channel, ask: Ask, cohort: Sequence[int]) -> Sequence[int]:
    """Those of the cohort whom an ask of the algorithm of that name is for."""
    if ask.to is None:
        return cohort
    if channel.hides_single or channel.noise is not None:
        raise UserError(
            f"{name} asks single parties, whom a sum over a cohort cannot hide. "
            f"Leave --channel {CHANNELS.brief(channel)} out."
        )
    found = [number for number in cohort if number in ask.to]
    if not found:
        raise UserError(
            f"{name} asks the parties {list(ask.to)}, none of whom takes part in this round. Use --sample 1."
        )
    return found


def check_at_sites(spec: RunSpec, parties: int) -> None:
    """Refuse cohorts that a real site could not work out by itself, from what the plan tells all of them."""
    rule, size = cohort_rule(spec), cohort_size(spec, parties)
    if rule.uniform or size == parties:
        return
    if rule.by_loss:
        raise UserError(
            f"cohort {spec.cohort} goes by losses that the server alone would know, but a site answers only if "
            "the plan says that it is asked. Use label-balanced with declared label counts."
        )
    rule.check(rule.informed(KnownParties(parties)), size)
