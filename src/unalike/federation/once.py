"""What a site was asked on an occasion, for good: asked the same again it may say the same, and nothing else.

The noise of an exchange could be averaged away, single updates found as the difference of two sums, and rows from
the figures of many models, if a server could ask as often as it likes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unalike.engine.files import atomic_write
from unalike.errors import UserError
from unalike.federation.wire import Refused


class Once:
    """By occasion, what was asked first; kept in a file before anything is answered."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = read_json(path)

    def same(self, occasion: str, asked: str, why: str) -> None:
        """Refuse, with the reason, what differs from the first time."""
        if self._known.get(occasion, asked) != asked:
            raise Refused(why)
        self._keep(occasion, asked)

    def times(self, occasion: str, most: int, why: str) -> None:
        """Refuse, with the reason, more than so many times."""
        count = int(self._known.get(occasion, 0)) + 1
        if count > most:
            raise Refused(why)
        self._keep(occasion, count)

    def _keep(self, occasion: str, value: str | int) -> None:
        if self._known.get(occasion) != value:
            known = {**self._known, occasion: value}
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
