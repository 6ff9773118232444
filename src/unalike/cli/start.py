"""The first lines of the ``unalike`` command: signals are answered before anything slow is imported."""

from __future__ import annotations

import sys

from unalike.cli.signals import StopRequested, StopSignals, say_stopped


def main() -> None:
    """Start the ``unalike`` command: what the shell calls."""
    signals = StopSignals()
    signals.install()
    try:
        from unalike.cli.main import main as command

        command(signals)
    except StopRequested:  # before the command itself could answer
        sys.exit(say_stopped())
