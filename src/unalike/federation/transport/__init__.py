"""What carries the bytes of a federation between its server and its sites."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """Why a party's answer is not there: the party said so, or its process or its connection broke."""

    reason: str
