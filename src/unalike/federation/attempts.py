"""One try of the server to train: what became of it is told in a file, whatever happens but a kill.

``run`` submits a try, follows it, and submits another when the process dies. The file ``attempt.json`` says which
process works, ``outcome.json`` how it ended; a try without an outcome whose process is gone was killed.
"""

from __future__ import annotations

import json
import os
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch

from unalike.engine.files import atomic_write
from unalike.errors import UserError
from unalike.federation import serving
from unalike.federation.folders import ServerFolder, read_object
from unalike.federation.speaker import Stopped, Transport

_ATTEMPT, _OUTCOME, _SUBMITTED, _STOP = "attempt.json", "outcome.json", "submitted.json", "stop"
How = Literal["finished", "stopped", "refused", "failed"]


@dataclass(frozen=True)
class Outcome:
    """How a try ended: ``refused`` is a mistake that a person must mend, ``failed`` one of the program."""

    how: How
    reason: str = ""


def serve(transport: Transport, folder: Path) -> None:
    """Train, and say how it ended."""
    place = ServerFolder(folder)
    torch.set_num_threads(1)  # as in simulation
    atomic_write(folder / _ATTEMPT, json.dumps({"pid": os.getpid()}).encode())
    try:
        serving.serve(transport, folder)
        outcome = Outcome("finished")
    except Stopped as stop:
        outcome = Outcome("stopped", str(stop))
        place.tell("stopped")
    except UserError as error:
        outcome = Outcome("refused", str(error))
        place.tell(f"refused: {error}")
    except Exception as error:
        traceback.print_exc()
        outcome = Outcome("failed", f"{type(error).__name__}: {error}")
        place.tell(f"failed: {outcome.reason}")
    atomic_write(folder / _OUTCOME, json.dumps(asdict(outcome)).encode())


@dataclass(frozen=True)
class Attempts:
    """The tries in a server's folder, for those who follow them."""

    folder: Path

    def clear(self) -> None:
        """Before a new one is submitted."""
        for name in (_STOP, _OUTCOME, _ATTEMPT, _SUBMITTED):
            (self.folder / name).unlink(missing_ok=True)

    def submitted(self, run_id: int) -> None:
        """It is on its way."""
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
        pid = read_object(self.folder / _ATTEMPT).get("pid")
        if not isinstance(pid, int):
            return None
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def ask_to_stop(self) -> None:
        """The server looks for it several times a second."""
        atomic_write(self.folder / _STOP, b"")
