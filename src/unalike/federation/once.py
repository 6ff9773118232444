"""What a site was asked on an occasion, for good: asked the same again it says the same, but not anything else.

The noise of an exchange could be averaged away, single updates found as the difference of two sums, and rows from
the figures of many models, if a server could ask as often as it likes. Questions are lines of a journal: a
protocol asks hundreds in a round, and to write all of them anew each time would take longer than to answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unalike.errors import UserError
from unalike.federation.envelope import Refused
from unalike.federation.journal import Journal

_ASKED, _FORGOTTEN, _NUMBER = "asked", "forgotten", "number"
Asked = tuple[str, str, str, int]
"""An occasion, the question, why another one is refused, and how many there may be."""


class Once:
    """By occasion, the questions that were asked; kept in a file before anything is answered.

    ``path`` is the file of an older version, all of it one object; what is new is in a journal beside it.
    """

    def __init__(self, path: Path) -> None:
        self._known: dict[str, list[str]] = read_json(path)
        self._journal = Journal(journal_path := path.with_suffix(".jsonl"))
        self.number: tuple[int, ...] = (0, 0)
        """the last message whose number was kept together with its questions"""
        try:
            for row in self._journal.rows:
                self._learn(row.get(_ASKED, ()), row.get(_NUMBER))
                for occasion, question in row.get(_FORGOTTEN, ()):
                    self._known[occasion].remove(question)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise UserError(f"Cannot read {journal_path}: {error!r}. Restore it.") from None

    @property
    def known(self) -> Mapping[str, Sequence[str]]:
        """By occasion, the questions that were asked."""
        return self._known

    def ask(self, occasion: str, question: str, why: str, most: int = 1) -> None:
        """Refuse, with the reason, a new question where so many others were asked on the same occasion."""
        self.ask_all((occasion, question, why, most))

    def ask_all(self, *asked: Asked, number: Sequence[int] | None = None) -> None:
        """The same for several occasions: all are written to the disk together, or none if one is refused.

        ``number`` is that of the message, where it is kept here and not in a file of its own.
        """
        new: list[tuple[str, str]] = []
        for occasion, question, why, most in asked:
            if question in self._known.get(occasion, ()) or (occasion, question) in new:
                continue
            if len(self._known.get(occasion, ())) + sum(other == occasion for other, _ in new) >= most:
                raise Refused(why)
            new.append((occasion, question))
        if new or number is not None:
            row: dict[str, Any] = {_ASKED: new} if new else {}
            self._journal.append(row | ({} if number is None else {_NUMBER: list(number)}))
            self._learn(new, number)

    def forget(self, occasion: str, question: str) -> None:
        """Count a question no longer: what came of it told nothing."""
        if question in self._known.get(occasion, ()):
            self._journal.append({_FORGOTTEN: [(occasion, question)]})
            self._known[occasion].remove(question)

    def _learn(self, asked: Sequence[tuple[str, str]], number: Sequence[int] | None) -> None:
        for occasion, question in asked:
            before = self._known.setdefault(str(occasion), [])
            if question not in before:
                before.append(str(question))
        if number is not None:
            self.number = tuple(map(int, number))


def read_json(path: Path) -> dict[str, Any]:
    """What a small file of the site's own holds; nothing where there is none yet."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it holds something else")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        # An empty one instead would let what was seen before be played again.
        raise UserError(f"Cannot read {path}: {error}. Restore it, or join anew in another folder.") from None
    return found
