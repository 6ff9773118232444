"""A federation, followed at its server: who answered and how it stands, no more than the server knows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from unalike.errors import UserError
from unalike.watch.follower import FollowedRun, short
from unalike.watch.locks import Held

_FILES = ("status.json", "outcome.json", "submitted.json", "rows.json", "log.txt", "parties", "run/rounds.jsonl")
"""What changes in a server's folder when there is something new to tell."""
_LOOK = 2.0
"""Seconds after which the locks are looked at in any case."""
_PARTY = ("name", "admitted", "answered", "answers", "seconds", "bytes_up", "bytes_down")
"""What is shown of a site; its key, its rows and the length of its updates are for ``federation status``."""


class ServerSide:
    """The folder of a federation's server, with the run that is trained there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._signs: list[tuple[int, int] | None] = []
        self._looked = 0.0
        self._known: dict[str, Any] = {}

    def runs(self) -> Iterable[Path]:
        """The record of the training, once it has begun."""
        path = self._folder / "run"
        return [path] if path.is_dir() else []

    def planned(self, path: Path) -> Mapping[str, Any]:
        """What the plan says of the run before it has begun is not needed: it is in the table of sites."""
        return {}

    def about(self, runs: Mapping[str, FollowedRun], held: Held) -> dict[str, Any]:
        """How the federation stands; read anew only where a file has changed, or after a while."""
        signs = [_sign(self._folder / name) for name in _FILES]
        now = time.monotonic()
        if signs != self._signs or now - self._looked > _LOOK:
            self._signs, self._looked = signs, now
            self._known = self._read(held)
        return self._known

    def _read(self, held: Held) -> dict[str, Any]:
        from unalike.federation.overview import server_overview

        start = "The training has not begun. Start it: unalike federation run"
        plain = {"kind": "federation", "title": self._folder.resolve().name, "empty": f"{start} {self._folder}"}
        try:
            found = server_overview(self._folder, held)
        except (UserError, OSError) as error:
            return {**plain, "standing": {"state": str(error), "serving": False, "parties": [], "log": []}}
        names = ("serving", "training", "state", "waiting", "outcome", "reason", "privacy", "log")
        standing = {name: found[name] for name in names}
        standing["parties"] = [{name: party[name] for name in _PARTY} for party in found["parties"]]
        for party in standing["parties"]:
            party["seconds"] = short(party["seconds"])
        return {**plain, "title": f"Federation {found['federation']}", "standing": standing}


def _sign(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns
