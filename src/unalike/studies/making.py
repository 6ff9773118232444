"""One run of a study, made by whatever process has it: what came of it, in a word and a line.

Whoever prepares a run has claimed its folder first, so that several who look for work never prepare the same one.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from unalike.runs.playable import Playable
    from unalike.runs.spec import RunSpec

KEPT = 2
"""Data sets that stay in memory between runs."""
SAY_SECONDS = 0.2
CHANGED = "A file or a plug-in of the runs has changed since the study began. Start it again."

Errand = dict[str, Any]
"""A run to make, ready for JSON: key and spec, seconds between checkpoints, perhaps a round to stop after."""


def errand(spec: RunSpec, until: int, checkpoint_seconds: float) -> Errand:
    """What a process is told that is to make this run."""
    told: Errand = {"key": spec.key, "spec": spec.to_dict(), "checkpoint_seconds": checkpoint_seconds}
    return told | ({"until": until} if until < spec.rounds else {})


@dataclass(frozen=True)
class Made:
    """What came of a run."""

    word: Literal["done", "failed", "busy", "broken"]
    """``busy``: another process has it. ``broken``: no run that waits can be made either."""
    problem: str = ""

    def event(self) -> dict[str, Any]:
        """The same as the event that a study hears."""
        return {"event": self.word} | ({"problem": self.problem} if self.problem else {})


def make(
    errand: Mapping[str, Any],
    runs: Path,
    load: Callable[[str], Any],
    hear: Callable[[int], None],
    stopped: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = lambda message: None,
) -> Made:
    """Make a run, or go on with it; its failure is noted in its folder. ``hear`` is told rounds, now and then.

    ``stopped`` says whether what ended the run was an order to stop, in whatever exception a library wrapped it.
    """
    from unalike.errors import UserError
    from unalike.runs.claim import claimed
    from unalike.runs.lease import InUse
    from unalike.runs.spec import RunSpec

    try:
        spec = RunSpec.from_mapping(errand["spec"])
    except UserError as error:
        return Made("failed", " ".join(str(error).split()))  # the study notes it
    if spec.key != errand["key"]:
        return Made("broken", CHANGED)
    try:
        with claimed(runs / spec.folder):
            return _claimed(errand, spec, runs, load, _watcher(hear, say), stopped)
    except InUse:
        return Made("busy")
    except UserError as error:  # the disk is full: the other runs would fail as well
        return Made("broken", str(error))


def _claimed(
    errand: Mapping[str, Any],
    spec: RunSpec,
    runs: Path,
    load: Callable[[str], Any],
    watcher: Any,
    stopped: Callable[[], bool],
) -> Made:
    from unalike.errors import UserError
    from unalike.runs.lease import InUse
    from unalike.runs.rules import Diverged
    from unalike.runs.run import record_failure, run

    seconds, problem, final = errand["checkpoint_seconds"], "", True
    try:
        run(spec, runs=runs, watcher=watcher, checkpoint_seconds=seconds, load=load, until=errand.get("until"))
    except InUse:
        raise
    except UserError as error:
        problem, final = str(error), isinstance(error, Diverged)
    except MemoryError:
        problem = "out of memory"
    except Exception as error:
        if stopped():
            raise
        problem = f"{type(error).__name__}: {error}"
    if not problem:
        return Made("done")
    problem = " ".join(problem.split())
    record_failure(runs, spec, problem, final=final)
    return Made("failed", problem)


class LoadedData:
    """Data sets that stay in memory for the next runs on them."""

    def __init__(self) -> None:
        self._data: OrderedDict[str, Any] = OrderedDict()

    def load(self, text: str) -> Any:
        """The data set of that name; the one that was not used for longest makes room."""
        from unalike.data import load_dataset
        from unalike.data.folder import NotFound

        if text in self._data:
            self._data.move_to_end(text)
            return self._data[text]
        while len(self._data) >= KEPT:
            self._data.popitem(last=False)
        try:
            self._data[text] = load_dataset(text)
        except NotFound as error:
            raise NotFound(f"data not found: {error}") from None
        return self._data[text]


def _watcher(hear: Callable[[int], None], say: Callable[[str], None]) -> Any:
    from unalike.runs.saving import OTHER_CPU
    from unalike.runs.watcher import Watcher

    class Following(Watcher):
        """Says now and then how far the run is."""

        def __init__(self) -> None:
            self._last = 0.0

        def started(self, simulation: Playable) -> None:
            """The rounds that an earlier process played."""
            hear(simulation.state.round)

        def round_done(self, row: dict[str, Any]) -> None:
            """Not more often than anybody looks."""
            now = time.monotonic()
            if now - self._last >= SAY_SECONDS:
                self._last = now
                hear(row["round"])

        def say(self, message: str) -> None:
            """Of what a run says only what matters among many."""
            if OTHER_CPU in message:
                say(" ".join(message.split()))

    return Following()
