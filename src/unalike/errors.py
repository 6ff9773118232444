"""A user's mistake: one line that says what is wrong, the value, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")

_MOST = 80
"""Characters of a value in a message."""
_MOST_MISTAKES = 10
"""Mistakes that are told at once."""
_SECRET = re.compile(r"(://[^\s/@:]*:)[^\s@]+(?=@)|(passw(?:or)?d\W{1,3}|pwd\W{1,3})[^\s&,)'\"]+", re.IGNORECASE)
"""A password in the address of a server, or given by that name."""
_WORDS = re.compile(r"[-_+ .]")
"""What stands between the words of a name."""


class UserError(Exception):
    """A mistake that the user can mend. The command line prints it in one line and exits with code 2."""


class TryLater(UserError):
    """Nothing is wrong with the command: the same one may do later (a full disk). It exits with code 75."""


class SeveralMistakes(UserError):
    """Mistakes that can be mended in one go: the command line prints each in a line of its own."""


def together(mistakes: Sequence[UserError]) -> UserError:
    """One error for several mistakes, a line each; for a single one it is that."""
    if len(mistakes) == 1:
        return mistakes[0]
    lines = [" ".join(str(mistake).splitlines()) for mistake in mistakes[:_MOST_MISTAKES]]
    if len(mistakes) > _MOST_MISTAKES:
        lines.append("There are more. Mend these first.")
    return SeveralMistakes("\n".join(lines))


def within(what: str, error: UserError) -> UserError:
    """The same mistake, or mistakes, and where: in a table of several, for example."""
    if isinstance(error, SeveralMistakes):
        return SeveralMistakes("\n".join(f"{what}: {line}" for line in str(error).splitlines()))
    return UserError(f"{what}: {error}")


def for_each(make: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """What is made of every item; the mistakes in all of them are told together."""
    made, mistakes = [], []
    for item in items:
        try:
            made.append(make(item))
        except UserError as error:
            mistakes.append(error)
    if mistakes:
        raise together(mistakes)
    return made


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not known, with the nearest match."""
    options = sorted(known)
    near = nearest(name, options)
    remedy = f"Did you mean {near!r}?" if near else f"Known: {', '.join(options) or 'none'}."
    return UserError(f"Unknown {kind} {shown(name)}. {remedy}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant: it starts alike, has the word, or is a slip of the pen away."""
    if len(name) > _MOST:
        return None
    options = [each for each in known if _resembles(name.lower(), each.lower())]
    return min(options, key=lambda each: _slips(name.lower(), each.lower()), default=None)


def _resembles(name: str, known: str) -> bool:
    short = min(len(name), len(known))
    if short > 2 and (known.startswith(name) or name.startswith(known) or name in _WORDS.split(known)):
        return True
    allowed = max(1, max(len(name), len(known)) // 3)
    return abs(len(name) - len(known)) <= allowed and _slips(name, known) <= min(allowed, short - 1)


def _slips(name: str, known: str) -> int:
    """How many letters were left out, added, mistaken or swapped with the next (optimal string alignment)."""
    before: list[int] = []
    last = list(range(len(known) + 1))
    for i, letter in enumerate(name):
        row = [i + 1]
        for j, other in enumerate(known):
            row.append(min(last[j + 1] + 1, row[j] + 1, last[j] + (letter != other)))
            if i and j and letter == known[j - 1] and name[i - 1] == other:
                row[-1] = min(row[-1], before[j - 1] + 1)
        before, last = last, row
    return last[-1]


def shown(value: object) -> str:
    """A value as a message has it: what Python writes for it, without a password, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes out no more than 4,300 digits
        return "a number of thousands of digits"
    text = _SECRET.sub(r"\1\2...", text)
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."
