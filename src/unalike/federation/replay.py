"""Who took part in a federation of real sites, in the form in which a simulation plays it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

PREPARED, ANSWERED = "prepared", "answered"
"""In a round's record: who answered, exchange by exchange; before round 1, and in the round."""
SITES = "sites"
"""In a round's record: of each site that was asked, its bytes, and the seconds of its slowest answer, if any."""


def participation_in(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[int, int], Sequence[int]]:
    """From the rows of ``rounds.jsonl``, who answered in the exchange (round, turn); round 0 is what prepares."""
    played: dict[tuple[int, int], Sequence[int]] = {}
    for row in rows:
        for round, key in ((0, PREPARED), (row["round"], ANSWERED)):
            played |= {(round, turn): who for turn, who in enumerate(row.get(key, ()))}
    return played
