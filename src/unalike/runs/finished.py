"""A run that was finished before, read from its folder; to show it, torch is not needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import unalike
from unalike.runs.files import named_folder
from unalike.runs.record import read_run
from unalike.runs.result import Result
from unalike.runs.spec import RunSpec


def finished(spec: RunSpec, runs: Path | str, say: Callable[[str], None]) -> Result | None:
    """The result of a finished run, without a lock: the disk may be read-only. None where it is not finished."""
    path = named_folder(runs, "--runs") / spec.folder
    found = read_run(path, weights=True)
    figures = found.result
    if figures is None or figures["key"] != spec.key:
        return None
    if figures.get("version") != unalike.__version__:
        say(f"This result was made by unalike {figures.get('version')}. Remove {path} to make it anew.")
    return Result(spec, figures, found.rounds, path)
