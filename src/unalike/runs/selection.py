"""The round that is selected on validation rows, and what its models can be made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from unalike.rounds.state import State
from unalike.runs.checkpoint import Checkpoint
from unalike.scores import SUMMARIES, Figures, Score, goodness, scores_of


class Selection:
    """The state of the round with the best score on validation rows so far, the earliest of equals.

    ``whole``: parties have models of their own, which what they keep is a part of. Without that, the server's
    vectors are enough.
    """

    def __init__(self, score: Score, *, whole: bool) -> None:
        self._score, self._whole = score, whole
        self._best: float | None = None
        self.state: State | None = None
        self.saved = True

    def see(self, state: State, row: Figures) -> None:
        """Look at a round that was played: its state is kept if it is better than all before."""
        value = row.get(f"validation_{self._score.key}")
        if value is None or (self._best is not None and goodness(self._score.name, value) <= self._best):
            return
        self._best = goodness(self._score.name, value)
        self.state = replace(state, parties=state.parties if self._whole else {}, memories={}, exchanges={})
        self.saved = False

    def go_on(
        self, rows: Iterable[Figures], load: Callable[[Callable[[Checkpoint], str | None]], State | None]
    ) -> None:
        """Go on after these rounds with the state that was saved, if it is that of the best of them.

        One of a later round is not: that round is to be played again, and is then found again.
        """
        chosen = selected(list(rows), self._score)
        if chosen is None:
            return
        self._best = goodness(self._score.name, chosen[f"validation_{self._score.key}"])
        self.state = load(lambda one: None if one.round == chosen["round"] else "it is of another round")

    def of(self, round: int | None) -> State | None:
        """The state of that round, if it is the selected one and was kept."""
        return self.state if self.state is not None and self.state.round == round else None


def selected(rows: list[Figures], score: Score) -> Figures | None:
    """The figures of the round with the best score on validation rows, the earliest of equals.

    The test figures take no part in the choice.
    """
    key = f"validation_{score.key}"
    evaluated = [row for row in rows if row.get(key) is not None]
    chosen = max(evaluated, key=lambda row: (goodness(score.name, row[key]), -row["round"]), default=None)
    if chosen is None:
        return None
    kept = ("round", "loss", *SUMMARIES, *(each.key for each in scores_of(score.task)))
    return {name: value for name, value in chosen.items() if name in kept or name.startswith("validation_")}
