"""Where a study's runs are made. The study decides which, and in what order; a place has them made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from unalike.studies.making import Errand
from unalike.studies.schedule import Job


@dataclass(frozen=True)
class Event:
    """What has become of a run."""

    kind: Literal["round", "said", "done", "failed", "busy", "gone", "broken"]
    """``gone``: what made it is dead. ``broken``: no other run can be made either."""
    job: Job | None = None
    round: int = 0
    problem: str = ""
    """Of ``failed``, ``broken`` and ``said`` a line; of ``gone`` what is known of the cause, in a word or two."""
    died: str = "was killed"
    """Of ``gone``: how the process came to its end."""


class Place(Protocol):
    """Processes on this machine, or a cluster."""

    lost: str
    """How a line begins that tells of a run whose process is gone."""

    @property
    def slots(self) -> int:
        """How many runs may be under way at once, now."""

    def room(self, waiting: int) -> int:
        """How many runs may be given to it now. So many wait, for which it may get ready."""

    def start(self, job: Job, errand: Errand) -> None:
        """Have a run made, which ``room`` was there for."""

    def events(self, timeout: float) -> list[Event]:
        """What has happened; waits for so many seconds, or until there may be work to give out."""

    def stop(self, patience: float) -> None:
        """Have all runs saved; those that take longer are ended, which costs a little work only."""
