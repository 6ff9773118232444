"""``--log-format`` and ``--monitor``: how a command that runs for long tells programs how it goes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any

from unalike.cli.federation.needs import need_extra
from unalike.cli.lines import say_as_json
from unalike.errors import UserError, unknown
from unalike.federation.envelope import SERVER
from unalike.federation.folders import ServerFolder
from unalike.federation.making import SiteFolder, is_server
from unalike.federation.plan import Plan

JSON = "json"
FORMATS = ("text", JSON)


def operated(folder: Path, log_format: str, monitor: int | None = None) -> AbstractContextManager[object]:
    """Have lines said in this format from now on; as a context, answer those who watch meanwhile."""
    if log_format not in FORMATS:
        raise unknown("--log-format", log_format, FORMATS)
    if log_format == JSON:
        say_as_json(lambda: _about(folder))
    if monitor is None:
        return nullcontext()
    need_extra()
    from unalike.federation.monitor import monitoring

    return monitoring(folder, monitor)


def _about(folder: Path) -> dict[str, Any]:
    """What a line is about: the federation, whose folder it is, and at the server the round that is under way."""
    about: dict[str, Any] = {}
    with suppress(UserError):  # a folder that is none is told of without it
        about = {"federation": _name(folder), "party": SERVER if is_server(folder) else SiteFolder(folder).name}
        if is_server(folder):
            about |= {key: value for key, value in ServerFolder(folder).status().items() if key == "round"}
    return about


@cache
def _name(folder: Path) -> str:
    return Plan.read(folder).name
