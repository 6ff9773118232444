"""Memory that a cohort's messages have used is given back to the system while the cohort is still at work.

glibc cannot use the place of a large aligned block for another one of its size once something small has settled
at its edge, so the process would grow by most of a cohort's messages in every round, although none is kept.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping

from torch import Tensor

OFTEN = 32 * 2**20
"""Bytes of messages after which memory is given back: seldom enough to cost a twentieth of a round at most."""
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


class Freed:
    """Counts what has been let go, and gives it back now and then. Small messages are never worth it."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, vectors: Mapping[str, Tensor], times: int = 1) -> None:
        """So many such messages were needed, and are not any more."""
        self._bytes += times * sum(value.nbytes for value in vectors.values())
        if self._bytes >= OFTEN:
            self._bytes = 0
            if _trim is not None:
                _trim(0)
