"""Which protocol does for trees what a baseline does for nets."""

from __future__ import annotations

INSTEAD: dict[str, str] = {"local": "local-trees", "pooled": "histogram"}
"""By the name of an algorithm of nets, the text of a protocol. Trees from sums are those of all rows together."""
