"""What a site was asked on an occasion, for good: asked the same again it says the same, but not anything else.

The noise of an exchange could be averaged away, single updates found as the difference of two sums, and rows from
the figures of many models, if a server could ask as often as it likes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unalike.errors import UserError
from unalike.federation.envelope import Refused
from unalike.runs.files import atomic_write


class Once:
    """By occasion, the questions that were asked; kept in a file before anything is answered."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = read_json(path)

    def ask(self, occasion: str, question: str, why: str, most: int = 1) -> None:
        """Refuse, with the reason, a new question where so many others were asked on the same occasion."""
        self.ask_all((occasion, question, why, most))

    def ask_all(self, *asked: tuple[str, str, str, int]) -> None:
        """The same for several occasions: all are written to the disk together, or none if one is refused."""
        known = self._known
        for occasion, question, why, most in asked:
            before = known.get(occasion, [])
            if question in before:
                continue
            if len(before) >= most:
                raise Refused(why)
            known = {**known, occasion: [*before, question]}
        if known is not self._known:
            self._keep(known)

    def forget(self, occasion: str, question: str) -> None:
        """Count a question no longer: what came of it told nothing."""
        before = self._known.get(occasion, [])
        self._keep({**self._known, occasion: [other for other in before if other != question]})

    def _keep(self, known: dict[str, Any]) -> None:
        atomic_write(self._path, json.dumps(known).encode())
        self._known = known


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
