"""``python -m unalike.federation.transport.flower.child MODULE:FUNCTION ...``: it never outlives its parent.

The parent holds the other end of standard input. When it closes it, or dies (kill -9 included), the child ends
itself: first as if by SIGTERM, so that it can say goodbye to its peers, and at once when that takes too long.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from importlib import import_module

GRACE = 5.0
"""Seconds for an orderly end."""
ENTRIES = frozenset(
    {
        "flwr.superlink.cli.flower_superlink:flower_superlink",
        "unalike.federation.transport.flower.courier:main",
        "unalike.federation.transport.flower.runner:main",
        "unalike.federation.transport.flower.proxy:main",
    }
)


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def main() -> None:
    """Run one of ``ENTRIES`` with the remaining arguments."""
    entry = sys.argv[1]
    if entry not in ENTRIES:
        sys.exit(f"{entry!r} is not one of the federation's processes")
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    module, _, function = entry.partition(":")
    sys.argv = [function, *sys.argv[2:]]
    getattr(import_module(module), function)()


if __name__ == "__main__":
    main()
