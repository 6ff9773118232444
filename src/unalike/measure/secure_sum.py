"""The secure sum by its earlier name; it lives in ``unalike.secure``."""

from __future__ import annotations

from unalike.secure import Protect, ProtocolError, Step, SumResult, secure_sum

__all__ = ["Protect", "ProtocolError", "Step", "SumResult", "secure_sum"]
