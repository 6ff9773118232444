"""A sum of vectors as messages and pure steps: the same code in one process, between processes, over a network.

``party.start`` and ``party.step``, ``server.start`` and ``server.step`` take a state and bytes, and give a new
state and bytes; they do no input or output and keep nothing. ``secure_sum`` carries the messages in one process.
docs/secure-measurement.md describes the protocol.
"""

from __future__ import annotations

from unalike.secure import party, server
from unalike.secure.cost import traffic
from unalike.secure.errors import ProtocolError, TooFewParties
from unalike.secure.local import SumResult, secure_sum
from unalike.secure.messages import Step, steps
from unalike.secure.policy import Policy, Protect, new_session, safe_threshold

__all__ = [
    "Policy",
    "Protect",
    "ProtocolError",
    "Step",
    "SumResult",
    "TooFewParties",
    "new_session",
    "party",
    "safe_threshold",
    "secure_sum",
    "server",
    "steps",
    "traffic",
]
