"""Ctrl-C and SIGTERM stop the command in an orderly way; the second one stops it at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPED = 130
"""The exit code of a command that the user stopped."""


class StopRequested(BaseException):
    """The user asked to stop. Not a KeyboardInterrupt, which typer would answer by itself."""

    where = ""
    """How far the command came, e.g. `` after round 7 of 30``."""
    chosen: tuple[str, ...] = ()
    """What ``--algorithm auto`` had chosen, as flags: it is to go on, whatever would be chosen later."""


def say_stopped() -> int:
    """Say that the command was stopped; the exit code."""
    print("Stopped.", file=sys.stderr)
    return STOPPED


class StopSignals:
    """Turns the first signal into ``StopRequested``."""

    def __init__(self) -> None:
        self.seen = False
        self.farewell: Callable[[], int] = say_stopped
        """What is said, and the exit code, where the command is stopped before it has begun."""

    def install(self) -> None:
        """From here on; a signal that the parent process chose to ignore (nohup) stays ignored."""
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        for each in _SIGNALS:
            if signal.getsignal(each) is not signal.SIG_IGN:
                signal.signal(each, signal.SIG_DFL)  # a run's folder survives that too
        if _is_importing(frame):
            # An exception could be swallowed by what is imported, or abort its C++ code; nothing is to be saved.
            code = self.farewell()
            sys.stderr.flush()
            os._exit(code)
        raise StopRequested


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
