"""The first lines of the ``unalike`` command: signals are answered before anything slow is imported."""

from __future__ import annotations

import sys

from unalike.cli.signals import Stopped, StopSignals


def main() -> None:
    """The ``unalike`` command."""
    signals = StopSignals()
    signals.install()
    try:
        from unalike.cli.main import main as command

        command(signals)
    except Stopped:  # while the command itself was being imported
        print("Stopped.", file=sys.stderr)
        sys.exit(130)
