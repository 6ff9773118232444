"""``unalike data NAME --get``: fetch the files of a public data set into the data folder."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from unalike.cli.show import console, draw, duration, say, size


def get_files(name: str, address: str | None) -> None:
    """Fetch what is missing, and say where it is."""
    from unalike.data.download import get

    watch = _Watch()
    with watch.drawing:
        places = get(name, address, watch.progress)
    for place in places:
        draw(str(place))
    draw("", f"All files of {name} are there. Next: unalike data {name}")


class _Watch:
    """A bar on a terminal, with the size and the time left; elsewhere a line when a file is there."""

    def __init__(self) -> None:
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._started: dict[str, float] = {}
        if sys.stderr.isatty():
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=16),
                DownloadColumn(),
                TimeRemainingColumn(),
            )
            self._bars = Progress(*columns, console=console())

    @property
    def drawing(self) -> AbstractContextManager[Any]:
        """What is to be open while files come."""
        return self._bars or nullcontext()

    def progress(self, name: str, have: int, total: int | None) -> None:
        """So many bytes of a file are here."""
        started = self._started.setdefault(name, time.monotonic())
        if self._bars is None:
            if have == total:
                say(f"{name}: {size(have)} in {duration(time.monotonic() - started)}")
            return
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total)
        self._bars.update(self._tasks[name], completed=have, total=total)
