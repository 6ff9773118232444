"""What a run needs of whatever is trained round by round, be it nets or a protocol's conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from unalike.algorithms.contract import Vectors
    from unalike.rounds.federation import SplitRows
    from unalike.rounds.state import State
    from unalike.runs.kept import RoundModels
    from unalike.runs.selection import Selection
    from unalike.runs.spec import RunSpec
    from unalike.scores import Figures, Score


class Playable(Protocol):
    """A training that is played round by round: a simulation of nets, or of a protocol."""

    spec: RunSpec
    score: Score
    selection: Selection
    evaluated: tuple[int, Figures] | None
    """The last round that was evaluated, and its figures with each party's own."""

    @property
    def state(self) -> State:
        """All that later rounds depend on."""
        ...

    @state.setter
    def state(self, state: State) -> None: ...

    @property
    def federation(self) -> SplitRows:
        """The data, and whose rows are whose."""
        ...

    @property
    def stopped(self) -> str | None:
        """Why no more rounds are played although some are left, in words; None where that is not so."""
        ...

    @property
    def engine_name(self) -> str:
        """The engine that plays it; the bits may depend on it."""
        ...

    @property
    def why_this_engine(self) -> str:
        """Why it is this one."""
        ...

    @property
    def threads(self) -> int:
        """How many threads an operation may use."""
        ...

    def use(self, engine: str, say: Callable[[str], None]) -> None:
        """Play on the engine of that name."""
        ...

    def play_round(self) -> tuple[State, Figures]:
        """Play the next round; nothing changes until ``state`` is set to what is returned."""
        ...

    def figures(self, state: State) -> Figures:
        """All figures of a state, with each party's own."""
        ...

    def placed(self, tensors: Vectors) -> Vectors:
        """Tensors that were read from a file, where the training wants to have them."""
        ...

    def fixed(self) -> Mapping[str, str]:
        """Digests of what is neither spec nor data, and must be the same for a stopped run to go on."""
        ...

    def about_model(self) -> Mapping[str, Any]:
        """What a result says of the model of the last round: its size, and digests."""
        ...

    def privacy(self, last: Figures) -> Mapping[str, Any]:
        """For the run's result: what is hidden until a row, if there is anything."""
        ...

    def final_weights(self) -> Vectors:
        """What the file with the final weights holds, by name."""
        ...

    def round_models(self, state: State) -> RoundModels:
        """The models that a state gives."""
        ...


def is_over(played: Playable) -> bool:
    """Whether no more rounds are to be played."""
    return played.state.round >= played.spec.rounds or (played.state.round > 0 and played.stopped is not None)
