"""What follows a run: it is told when rounds begin, what each has given, and what the user should know."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unalike.runs.playable import Playable
    from unalike.scores import Figures


class Watcher:
    """Follows a run. This one stays silent; the command line has one that draws."""

    def started(self, simulation: Playable) -> None:
        """The run is ready to play its next round."""

    def round_done(self, row: Figures) -> None:
        """A round was played and recorded."""

    def say(self, message: str) -> None:
        """Something that the user should know, in one line."""
