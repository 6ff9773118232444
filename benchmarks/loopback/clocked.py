"""One command of ``unalike`` in this process, with clocks on what a server and a site do.

python -m benchmarks.loopback.clocked FILE federation join ...      # a JSON line in FILE for everything
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import wraps
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from unalike.cli.start import main as unalike
from unalike.engines.sequential import Sequential
from unalike.federation.deployed import SiteModels
from unalike.federation.remote import Remote
from unalike.federation.site import Site
from unalike.federation.talked_run import TalkedRun
from unalike.federation.training import RemoteTraining

EXCHANGE, EVALUATION, ROUND = "exchange", "evaluation", "round"
"""What the server does: one trip to all sites and back for training, one for figures, both with the sums."""
TRAINING, TRYING, ANSWER = "training", "trying", "answer"
"""What a site does: its engine's work on an order, trying the model on its rows, and all of a message."""
CLOCKED: tuple[tuple[str, type, str], ...] = (
    (EXCHANGE, Remote, "gather"),
    (EVALUATION, RemoteTraining, "evaluate"),
    (ROUND, RemoteTraining, "play_round"),
    (ROUND, TalkedRun, "play_round"),
    (TRAINING, Sequential, "answer"),
    (TRYING, SiteModels, "evaluation"),
    (ANSWER, Site, "answer"),
)


def clock(what: str, owner: type, name: str, file: TextIOWrapper) -> None:
    """Write a line whenever the method ends: when it began and ended, and the CPU seconds of its thread."""
    method: Callable[..., Any] = getattr(owner, name)

    @wraps(method)
    def clocked(*args: Any, **named: Any) -> Any:
        began, cpu = time.monotonic(), time.thread_time()
        try:
            return method(*args, **named)
        finally:
            spent, ended, process = time.thread_time() - cpu, time.monotonic(), time.process_time()
            print(json.dumps([what, began, ended, spent, process]), file=file)

    setattr(owner, name, clocked)


def main() -> None:
    """Put the clocks on, and do as the command line says."""
    place = Path(sys.argv.pop(1))
    with place.open("w", encoding="utf-8", buffering=1) as file:
        for what, owner, name in CLOCKED:
            clock(what, owner, name, file)
        unalike()


if __name__ == "__main__":
    main()
