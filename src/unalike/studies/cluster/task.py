"""What a host of a cluster does for a study: it makes one run, and tells of it."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import unalike
from unalike.errors import UserError
from unalike.studies.cluster.shipping import Packed, packed, unpack
from unalike.studies.making import Errand, LoadedData, Made, make

SHIP_SECONDS = 60.0
"""Between two times that what a run has so far is sent to the study, which alone remembers it if the host dies."""
Said = dict[str, Any]
"""What has happened, as the study hears it."""


@dataclass(frozen=True)
class StudyTerms:
    """What all runs of a study on a cluster have in common."""

    runs: str
    """The folder of runs on the study's host; on the others the same one, unless runs are shipped."""
    probe: str
    """A file in it by which a host knows that it sees that folder; empty where runs are shipped."""
    version: str = unalike.__version__
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that a run reads, such as where data are."""
    prepare: Callable[[], None] | None = None
    """Loads what runs need beside the package, such as plug-ins."""
    ship_seconds: float = SHIP_SECONDS


@dataclass(frozen=True)
class Shipment:
    """What there is of a run already, on its way to a host that does not see the folder of runs."""

    folder: str
    files: Packed


@cache
def _data() -> LoadedData:
    """Data sets that stay in memory: Ray gives the next run to the same process."""
    return LoadedData()


@cache
def _prepare(prepare: Callable[[], None]) -> None:
    prepare()


class _Stop(BaseException):
    """The study wants no more."""


def make_here(errand: Errand, terms: StudyTerms, shipment: Shipment | None, tell: Callable[[Said], bool]) -> Said:
    """Make a run on this host; what came of it.

    ``tell`` hears rounds, and now and then what is shipped, and says whether the study stops: the run is saved.
    """
    try:
        _check(terms)
        if terms.prepare is not None:
            _prepare(terms.prepare)
    except UserError as error:
        return Made("broken", str(error)).event()

    def say(message: str) -> None:
        tell({"event": "said", "problem": message})

    with ExitStack() as stack:
        runs, shipping = Path(terms.runs), None
        if shipment is not None:
            runs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="unalike-")))
            unpack(runs / shipment.folder, shipment.files, list(shipment.files))
            shipping = _Shipping(runs / shipment.folder, terms.ship_seconds)

        def hear(number: int) -> None:
            load = {} if shipping is None or not shipping.is_due() else shipping.load()
            if tell({"event": "round", "round": number, **load}):
                raise _Stop

        try:
            event = make(errand, runs, _data().load, hear, say=say).event()
        except _Stop:
            event = {"event": "stopped"}
        return event if shipping is None else {**event, **shipping.load()}


class _Shipping:
    """What is new in a run's folder, between two of its rounds."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder, self._seconds = folder, seconds
        self._known: dict[str, tuple[int, int]] = {}
        packed(folder, self._known)  # what came from the study is known to it
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Whether it is time to send it."""
        return time.monotonic() - self._last >= self._seconds

    def load(self) -> Said:
        """What is new, and the names of all files."""
        self._last = time.monotonic()
        files, names = packed(self._folder, self._known)
        return {"files": files, "names": names}


def _check(terms: StudyTerms) -> None:
    """Whether this host can make runs of the study: the same program, and the same folder."""
    host = socket.gethostname()
    os.environ |= dict(terms.environment)
    if unalike.__version__ != terms.version:
        raise UserError(
            f"The host {host} has unalike {unalike.__version__}, the study {terms.version}. Install one on all."
        )
    if terms.probe and not (Path(terms.runs) / terms.probe).exists():
        raise UserError(
            f"The host {host} does not see the folder of runs {terms.runs}. Mount it there under this name, or "
            "add --ship: runs are then made in folders of their own, and sent here."
        )
