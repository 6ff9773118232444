"""One try of the server to train: what became of it is told in a file, whatever happens but a kill.

``run`` submits a try, follows it, and submits another when the process dies. The file ``attempt.json`` says that
it has begun, ``outcome.json`` how it ended; a try without an outcome that does not hold its lock any more was
killed. Its process id would not tell: after a restart of the machine another process may have it.
"""

from __future__ import annotations

import json
import os
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch

from unalike.errors import UserError
from unalike.federation import server as serving
from unalike.federation.folders import ServerFolder, read_object
from unalike.federation.speaker import Stopped, Transport
from unalike.runs.files import atomic_write, file_lock, is_held

_ATTEMPT, _OUTCOME, _SUBMITTED, _STOP = "attempt.json", "outcome.json", "submitted.json", "stop"
_LOCK = ".attempt.lock"
_PATIENCE = 60.0
"""Seconds for a try before this one to end, and for those who look at the lock."""
How = Literal["finished", "stopped", "refused", "failed"]


@dataclass(frozen=True)
class Outcome:
    """How a try ended: ``refused`` is a mistake that a person must mend, ``failed`` one of the program."""

    how: How
    reason: str = ""


def serve(transport: Transport, folder: Path) -> None:
    """Train, and say how it ended."""
    torch.set_num_threads(1)  # as in simulation
    with file_lock(folder / _LOCK, _PATIENCE):
        atomic_write(folder / _ATTEMPT, json.dumps({"pid": os.getpid()}).encode())
        outcome = _try(transport, folder)
        atomic_write(folder / _OUTCOME, json.dumps(asdict(outcome)).encode())
        if outcome.how != "finished":
            why = "" if outcome.how == "stopped" else f": {outcome.reason}"
            ServerFolder(folder).tell(outcome.how + why)


def _try(transport: Transport, folder: Path) -> Outcome:
    try:
        serving.serve(transport, folder)
    except Stopped as stop:
        return Outcome("stopped", str(stop))
    except UserError as error:
        return Outcome("refused", str(error))
    except Exception as error:
        traceback.print_exc()
        return Outcome("failed", f"{type(error).__name__}: {error}")
    return Outcome("finished")


@dataclass(frozen=True)
class Attempts:
    """The tries in a server's folder, for those who follow them."""

    folder: Path

    def clear(self) -> None:
        """Remove the traces of the attempt before, so that a new one can be submitted."""
        for name in (_STOP, _OUTCOME, _ATTEMPT, _SUBMITTED):
            (self.folder / name).unlink(missing_ok=True)

    def submitted(self, run_id: int) -> None:
        """Note the number of the run that was handed to the server, so that another command can follow it."""
        atomic_write(self.folder / _SUBMITTED, json.dumps({"run": run_id}).encode())

    @property
    def run_id(self) -> int | None:
        """What the link calls the try that was submitted last, if it has not ended."""
        known = None if self.outcome() else read_object(self.folder / _SUBMITTED).get("run")
        return known if isinstance(known, int) else None

    def outcome(self) -> Outcome | None:
        """How it ended; None while it has not."""
        values = read_object(self.folder / _OUTCOME)
        return Outcome(values["how"], str(values.get("reason", ""))) if "how" in values else None

    @property
    def working(self) -> bool | None:
        """Whether the process that tries is alive; None where none has begun."""
        return is_held(self.folder / _LOCK) if (self.folder / _ATTEMPT).exists() else None

    def ask_to_stop(self) -> None:
        """The server looks for it several times a second."""
        atomic_write(self.folder / _STOP, b"")
