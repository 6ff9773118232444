"""A user's mistake: one line that says what is wrong, the value, and the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MOST = 80
"""Characters of a value in a message."""


class UserError(Exception):
    """A mistake that the user can mend. The command line prints it in one line and exits with code 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not known, with the nearest match."""
    options = sorted(known)
    near = get_close_matches(name, options, n=1, cutoff=0.5)
    remedy = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(options) or 'none'}."
    return UserError(f"Unknown {kind} {shown(name)}. {remedy}")


def shown(value: object) -> str:
    """A value as a message has it: what Python writes for it, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes out no more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."
