"""Which protocol does for trees what a baseline does for nets."""

from __future__ import annotations

INSTEAD: dict[str, str] = {}
"""By the name of an algorithm of nets, the text of a protocol."""
