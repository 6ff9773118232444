"""How the command line follows a run: a bar on a terminal, lines elsewhere, or nothing. All of it on stderr."""

from __future__ import annotations

import math
import sys

from unalike.cli.lines import say
from unalike.notebook.progress import Bar as Bar
from unalike.notebook.progress import Follower
from unalike.runs.headline import headline
from unalike.scores import Figures

EACH_ROUND_UP_TO = 40
"""Runs with more rounds than this get about ``LINES`` lines instead of one per round."""
LINES = 20


class Lines(Follower):
    """Plain lines, for logs and pipes."""

    def say(self, message: str) -> None:
        """Print the message on a line of its own, on stderr."""
        say(message)

    def round_done(self, row: Figures) -> None:
        """One line, or none where there are many rounds."""
        assert self.simulation is not None
        done, rounds = row["round"], self.simulation.spec.rounds
        every = 1 if rounds <= EACH_ROUND_UP_TO else math.ceil(rounds / LINES)
        if done % every and done != rounds:
            return
        place = f"round {done:>{len(str(rounds))}}/{rounds}"
        left = [f"ETA {self.remaining(done, rounds)}"] if done < rounds else []
        say("  ".join([place, *headline(row), *left]))


def follower(*, quiet: bool) -> Follower:
    """The one that suits where stderr goes."""
    if quiet:
        return Follower()
    return Bar() if sys.stderr.isatty() else Lines()
