"""One try of the server to do its job: what became of it is told in a file, whatever happens but a kill.

``run`` submits a job; whoever serves the folder does it. The file ``submitted.json`` says that it is wanted,
``outcome.json`` how it ended. A job without an outcome is taken up by the next one who serves, from its last
checkpoint: a kill, a crash of the machine or an update of the program only interrupt it.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch

from unalike.errors import TryLater, UserError
from unalike.federation import server as serving
from unalike.federation.folders import JOBS, SERVE_LOCK, TRAIN, ServerFolder, read_object
from unalike.federation.speaker import Stopped, Transport
from unalike.runs.files import atomic_write, file_lock, is_held

_OUTCOME, _SUBMITTED, _STOP = "outcome.json", "submitted.json", "stop"
_LOCK = ".attempt.lock"
_PATIENCE = 60.0
"""Seconds for a try before this one to end, and for those who look at the lock."""
How = Literal["finished", "stopped", "refused", "put off", "failed"]


@dataclass(frozen=True)
class Outcome:
    """How a try ended: ``refused`` is a mistake that a person must mend, ``failed`` one of the program.

    What is ``put off`` may do later as it is: the disk was full.
    """

    how: How
    reason: str = ""


def serve(transport: Transport, folder: Path, closing: Callable[[], bool] = lambda: False) -> None:
    """Do the folder's job, and say how it ended; where the server itself ends first, the job stays wanted."""
    torch.set_num_threads(1)  # as in simulation
    with file_lock(folder / _LOCK, _PATIENCE):
        outcome = _try(transport, folder, closing)
        if outcome.how == "stopped" and closing() and not ServerFolder(folder).stop_asked():
            return
        atomic_write(folder / _OUTCOME, json.dumps(asdict(outcome)).encode())
        if outcome.how != "finished":
            why = "" if outcome.how == "stopped" else f": {outcome.reason}"
            job = ServerFolder(folder).job()
            what = "" if job == TRAIN else f"{JOBS[job][0]} "
            ServerFolder(folder).tell(what + outcome.how + why)


def _try(transport: Transport, folder: Path, closing: Callable[[], bool]) -> Outcome:
    place = ServerFolder(folder)
    try:
        serving.serve(transport, folder, stopped=lambda: closing() or place.stop_asked())
    except Stopped as stop:
        return Outcome("stopped", str(stop))
    except UserError as error:
        return Outcome("put off" if isinstance(error, TryLater) else "refused", str(error))
    except Exception as error:
        traceback.print_exc()
        return Outcome("failed", f"{type(error).__name__}: {error}")
    return Outcome("finished")


def is_served(folder: Path, held: Callable[[Path], bool] = is_held) -> bool:
    """Whether a process serves this folder now, with its port open; ``held`` tells of a lock."""
    return held(folder / SERVE_LOCK)


@dataclass(frozen=True)
class Attempts:
    """The tries in a server's folder, for those who follow them."""

    folder: Path
    held: Callable[[Path], bool] = is_held
    """how it is found out whether a lock is held"""

    def submit(self, job: str) -> None:
        """Have the job done by whoever serves the folder, now or later."""
        for name in (_SUBMITTED, _STOP, _OUTCOME):  # without its outcome an old job would seem to be wanted
            (self.folder / name).unlink(missing_ok=True)
        ServerFolder(self.folder).set_job(job)
        atomic_write(self.folder / _SUBMITTED, json.dumps({"job": job, "by": os.getpid()}).encode())

    def withdraw(self) -> None:
        """Take back what was submitted: it could not be begun."""
        (self.folder / _SUBMITTED).unlink(missing_ok=True)

    @property
    def wanted(self) -> str | None:
        """The job that was submitted and has not ended, if there is one."""
        known = None if self.outcome() else read_object(self.folder / _SUBMITTED).get("job")
        return known if isinstance(known, str) else None

    def outcome(self) -> Outcome | None:
        """How it ended; None while it has not."""
        values = read_object(self.folder / _OUTCOME)
        return Outcome(values["how"], str(values.get("reason", ""))) if "how" in values else None

    @property
    def working(self) -> bool:
        """Whether somebody is at the job now."""
        return self.held(self.folder / _LOCK)

    def ask_to_stop(self) -> None:
        """The server looks for it several times a second."""
        atomic_write(self.folder / _STOP, b"")
