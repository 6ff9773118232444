"""Ctrl-C and SIGTERM stop the command in an orderly way; the second one stops it at once."""

from __future__ import annotations

import signal
import sys
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """The user asked to stop. Not a KeyboardInterrupt, which typer would answer by itself."""

    where = ""
    """How far the command came, e.g. `` after round 7 of 30``."""
    algorithm = ""
    """What ``--algorithm auto`` had chosen: the same is to go on, whatever it would choose later."""


class StopSignals:
    """Turns the first signal into ``Stopped``."""

    def __init__(self) -> None:
        self.seen = False

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
        self._stop_when_safe()

    def _stop_when_safe(self, *_: object) -> None:
        """Raise ``Stopped``, but not while torch is being imported: its C++ code would abort the process."""
        if _importing("torch") and hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, self._stop_when_safe)
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            return
        raise Stopped


def _importing(module: str) -> bool:
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))
