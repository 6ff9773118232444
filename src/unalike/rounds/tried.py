"""On how many parties' own rows models are tried."""

from __future__ import annotations

MOST_TRIED = 10_000
"""As many where nobody says how many: a fixed sample of them, where there are more."""


def settled(asked: int | None, parties: int) -> int | None:
    """How many of so many parties are tried where that decides the outcome, else None.

    So a run that tries all of its parties, 10,000 at most, is the one that it was before there was a choice.
    """
    wanted = min(MOST_TRIED if asked is None else asked, parties)
    return None if parties == wanted <= MOST_TRIED else wanted
