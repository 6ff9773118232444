"""Lines for the user, on stderr: as text, or as JSON objects for a program that collects logs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

About = Callable[[], Mapping[str, Any]]
"""What every line is about, found out when it is said: the round changes."""
_about: About | None = None


def say(message: str, level: str = "info", **about: Any) -> None:
    """One line for the user, on stderr. ``about`` is shown in lines that are JSON only, as is the level."""
    print(message if _about is None else _json(message, level, {**_about(), **about}), file=sys.stderr, flush=True)


def say_as_json(about: About) -> None:
    """From here on, lines are JSON objects, with the fields that ``about`` gives."""
    global _about
    _about = about


def say_as_text() -> None:
    """From here on, lines are for people, as they are at the start."""
    global _about
    _about = None


def _json(message: str, level: str, about: Mapping[str, Any]) -> str:
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": time, "level": level, "message": message, **about})
