"""Evaluation by an explicit protocol.

Three disjoint sets of rows, none of which is trained on: the global test set; each party's validation rows,
which may select a round; and each party's held-out rows, which tell how the parties fare one by one. The
final round and the round selected on validation rows are reported; the best test round never is.

Papers on personal models try each party on rows of the *test* set that have its labels, or each party's own model
on all of it: ``test_by`` adds that.
Newcomers, which never train, select no round and are reported apart. Of very many parties a fixed sample is tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from unalike.data.dataset import Array
from unalike.models.task import Task
from unalike.rounds.federation import Federation, SplitRows
from unalike.rounds.judging import Judged, fewest, judge
from unalike.rounds.rows import Rows
from unalike.rounds.together import Model, judge_each
from unalike.scores import Figures, Score, choose, goodness, scores_of

Use = Literal["shared", "personal"]
"""The one model for all parties, or each party's own."""
TestBy = Literal["held-out", "labels", "all"]
"""Which rows parties are tried on: their own held-out ones, and test rows with their labels or all test rows."""
Source = Literal["train", "test"]
"""Where rows are: among those of the parties, or in the global test set."""


@dataclass(frozen=True)
class Models:
    """What there is to evaluate: the one global model, and each party's personal one where it differs.

    ``buffers`` are the shared running statistics; where every party keeps its own, they are in ``own_buffers``.
    """

    global_model: Tensor | None
    personal: Model | None
    buffers: Tensor
    own_buffers: Mapping[int, Tensor] | None = None

    @property
    def shared(self) -> Model | None:
        """The global model as each party's, where there is one."""
        w = self.global_model
        return None if w is None else lambda number: (w, self.statistics(number))

    def statistics(self, number: int) -> Tensor:
        """The running statistics that a party evaluates with."""
        return self.buffers if self.own_buffers is None else self.own_buffers.get(number, self.buffers)


def chosen_scores(chosen: Score, *, everything: bool) -> list[Score]:
    """The score that the run goes by, and all others of its task, or accuracy alone, which is cheap."""
    others = [score for score in scores_of(chosen.task) if score is not chosen]
    return [chosen, *(score for score in others if everything or score.name == "accuracy")]


class RoundLook(Protocol):
    """How rows are judged under the models of a round: of nets, or of whatever else was trained."""

    @property
    def uses(self) -> Sequence[Use]:
        """Which models there are: the one that all share, the parties' own, both, or none."""
        ...

    def test(self, scores: Sequence[Score]) -> Figures:
        """The figures of the global test set under the model that all share."""
        ...

    def each(self, use: Use, of: Source, sets: Sequence[Sequence[Array]], scores: Sequence[Score]) -> list[Judged]:
        """Each of several sets of rows, by party that is tried, judged party after party."""
        ...

    def fewest(self, number: int) -> int:
        """How many rows of a party can be judged at least."""
        ...


def evaluate(
    federation: Federation,
    models: Models,
    threads: int = 1,
    scores: Sequence[Score] | None = None,
    *,
    test_by: TestBy = "held-out",
) -> Figures:
    """All figures of one round of nets, as :func:`figures_of_round` has them."""
    scores = scores or [choose(None, federation.task.objective.task)]
    return figures_of_round(NetLook(federation, models, threads), federation, scores, test_by=test_by)


def figures_of_round(
    look: RoundLook, rows: SplitRows, scores: Sequence[Score], *, test_by: TestBy = "held-out"
) -> Figures:
    """All figures of one round. A figure that does not exist (no such rows, no such model) is None.

    The first of the scores (where none are given, the task's own) is the one that the run goes by: rounds are
    selected and parties compared by it. No row goes through the same weights twice.
    """
    chosen = scores[0]
    figures: Figures = {"score": chosen.name, "loss": None, **{score.key: None for score in scores}}
    if "shared" in look.uses:
        figures |= look.test(scores)
    if len(rows.tried) < rows.size:
        figures["sample"] = {"count": len(rows.tried), "of": rows.size, "each": list(rows.tried)}
    away = set(rows.population.newcomers)
    newcomers = {place for place, number in enumerate(rows.tried) if number in away}
    nothing = np.zeros(0, np.int64)
    tried = [rows.parties[number] for number in rows.tried]
    validation = [nothing if place in newcomers else own.validation for place, own in enumerate(tried)]
    # A personal model, where the algorithm has one, is what the parties would deploy: it selects the round.
    few = [score for score in scores if score is chosen or score.name == "accuracy"]
    held_out = [own.held_out for own in tried]
    judged = look.each(look.uses[-1], "train", [validation, held_out], few) if look.uses else None
    keys = ("loss", *(score.key for score in few))
    selecting = dict.fromkeys(keys) if judged is None else judged[0].figures(few)
    figures |= {f"validation_{key}": selecting[key] for key in keys}
    figures |= _parties(
        look, rows.tried, newcomers, "train", held_out, chosen, None if judged is None else judged[1]
    )
    if test_by == "labels":
        found = _parties(look, rows.tried, newcomers, "test", rows.test_by_labels, chosen)
        figures |= {f"{key}_by_labels": value for key, value in found.items()}
    elif test_by == "all" and "personal" in look.uses:  # under the model that all share it is the global figure
        found = _parties(look, rows.tried, newcomers, "test", rows.test_by_all, chosen)
        figures |= {f"{key}_global": value for key, value in found.items() if key != "parties"}
    return figures


def _parties(
    look: RoundLook,
    tried: Sequence[int],
    newcomers: set[int],
    of: Source,
    rows: Sequence[Array],
    chosen: Score,
    judged: Judged | None = None,
) -> Figures:
    """How the parties ``tried`` fare one by one on rows of their own, under the global model and personal ones.

    ``newcomers`` are places among them.
    ``judged`` are these rows under the model that parties would deploy, where somebody has looked already.
    """
    enough = [len(own) >= look.fewest(k) for k, own in zip(tried, rows, strict=True)]
    sizes = np.array([len(own) if there else 0 for own, there in zip(rows, enough, strict=True)])
    figures: Figures = {}
    for use in look.uses:
        known = judged if use == look.uses[-1] else None
        (found,) = look.each(use, of, [rows], [chosen]) if known is None else [known]
        each = found.each(chosen, sizes)
        key = "parties" if use == "shared" else "personal"
        figures[key] = summary([None if k in newcomers else one for k, one in enumerate(each)], chosen)
        if newcomers:  # the last is what they would deploy
            figures["newcomers"] = summary([one if k in newcomers else None for k, one in enumerate(each)], chosen)
    return figures


def summary(values: Sequence[float | None], score: Score) -> Figures:
    """How the parties fare one by one; parties without held-out rows are left out.

    ``worst_10_percent`` is the mean over the worst tenth of the parties (at least one), as in q-FedAvg
    (Li et al. 2020, arXiv:1905.10497, section 4).
    """
    known = np.array(sorted((v for v in values if v is not None), key=lambda v: goodness(score.name, v)))
    if not len(known):
        return {"count": 0, "each": list(values)}
    return {
        "count": len(known),
        "mean": float(known.mean()),
        "std": float(known.std()),
        "worst": float(known[0]),
        "worst_10_percent": float(known[: math.ceil(len(known) / 10)].mean()),
        "best": float(known[-1]),
        "each": list(values),
    }


def without_each(figures: Figures) -> Figures:
    """The figures without the list of single parties, which would make the record of a large run huge."""
    return {
        key: {k: v for k, v in value.items() if k != "each"} if isinstance(value, dict) else value
        for key, value in figures.items()
    }


@dataclass(frozen=True)
class NetLook:
    """How rows are judged under nets: the one that all share, and each party's own."""

    federation: Federation
    models: Models
    threads: int

    @property
    def uses(self) -> Sequence[Use]:
        """Which models there are: what parties would deploy is the last."""
        models: dict[Use, Model | None] = {"shared": self.models.shared, "personal": self.models.personal}
        return [use for use, model in models.items() if model is not None]

    def fewest(self, number: int) -> int:
        """How many rows of a party can be judged at least."""
        return fewest(self.federation.task_of(number))

    def test(self, scores: Sequence[Score]) -> Figures:
        """The figures of the global test set.

        Where every party keeps its own running statistics, there are as many global models as parties that have
        any: their mean.
        """
        federation, models, w = self.federation, self.models, self.models.global_model
        assert w is not None
        everything = torch.arange(len(federation.test), device=w.device)

        def figures(buffers: Tensor) -> Figures:
            found = judge(federation.task, w, buffers, federation.test, everything, scores, self.threads)
            return found.figures(scores)

        if models.own_buffers is None:
            return figures(models.buffers)
        # By number, not as they came: a run that goes on has them in another order, and a sum's bits depend on it.
        each = [figures(models.own_buffers[k]) for k in federation.tried if k in models.own_buffers]
        found = each or [figures(models.buffers)]
        known = {key: [one[key] for one in found if one[key] is not None] for key in found[0]}
        return {key: math.fsum(values) / len(values) if values else None for key, values in known.items()}

    def each(self, use: Use, of: Source, sets: Sequence[Sequence[Array]], scores: Sequence[Score]) -> list[Judged]:
        """Each of several sets of rows by party, judged party after party."""
        task, models = self.federation.task, self.models
        data = self.federation.train if of == "train" else self.federation.test
        by_number = models.personal if use == "personal" else models.shared
        assert by_number is not None
        tried = self.federation.tried
        if use == "shared" and models.own_buffers is None and task.rows_are_apart:
            return [self._together(by_number, data, rows, scores) for rows in sets]

        def model(place: int) -> tuple[Tensor, Tensor]:
            return by_number(tried[place])

        def task_of(place: int) -> Task:
            return self.federation.task_of(tried[place])

        if not all(each.rows_are_apart for each in self.federation.tasks):  # then a set's rows are a batch
            return [judge_each(task_of, model, data, rows, scores, self.threads) for rows in sets]
        joint = [np.concatenate(parts) for parts in zip(*sets, strict=True)]
        judged = judge_each(task_of, model, data, joint, scores, self.threads)
        which = np.concatenate(
            [np.repeat(range(len(sets)), list(map(len, parts))) for parts in zip(*sets, strict=True)]
        )
        places = (torch.from_numpy(np.flatnonzero(which == number)) for number in range(len(sets)))
        return [judged.at(at.to(task.device)) for at in places] if len(sets) > 1 else [judged]

    def _together(self, model: Model, data: Rows, rows: Sequence[Array], scores: Sequence[Score]) -> Judged:
        """One model: all parties' rows in one go, each once, also where several parties have it."""
        federation, device = self.federation, self.federation.task.device
        together = np.concatenate(rows)
        once, back = (together, None) if data is federation.train else np.unique(together, return_inverse=True)
        index = torch.from_numpy(once).to(device)
        judged = judge(federation.task, model(0)[0], self.models.buffers, data, index, scores, self.threads)
        return judged if back is None else judged.at(torch.from_numpy(back).to(device))
