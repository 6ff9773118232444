"""A user's mistake: one line that says what is wrong, the value, and the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake that the user can mend. The command line prints it in one line and exits with code 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not known, with the nearest match."""
    options = sorted(known)
    near = get_close_matches(name, options, n=1, cutoff=0.5)
    remedy = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(options) or 'none'}."
    return UserError(f"Unknown {kind} {name!r}. {remedy}")
