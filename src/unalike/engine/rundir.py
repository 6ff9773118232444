"""The folder of one run: its spec, one row per round, checkpoints, the final weights and the result.

One process writes to it at a time, and may be killed at any moment; others may read it meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from unalike.engine.checkpoint import JSON, Checkpoint, load_latest, save_checkpoint, tensor_bytes
from unalike.engine.files import (
    atomic_write,
    clean_leftovers,
    make_folder,
    storage_error,
)
from unalike.engine.rounds_file import RoundsFile, finite, read_bytes, sound_rows
from unalike.errors import UserError

if TYPE_CHECKING:
    import torch

_SPEC = "spec.toml"
_ROUNDS = "rounds.jsonl"
_RESULT = "result.json"
_FAILURE = "failure.json"
_WEIGHTS = "weights.safetensors"
_LOCK = "lock"
_PID = "lock.pid"


class InUse(UserError):
    """Another process is at work in the folder."""


class RunDirectory:
    """The folder of one run, open for writing. Made by ``RunDirectory.open`` only, which takes the lock."""

    def __init__(self, path: Path, needs: Collection[str] = ()) -> None:
        self.path = path
        self._rounds = RoundsFile(path / _ROUNDS, needs)

    @classmethod
    @contextmanager
    def open(cls, path: Path, needs: Collection[str] = ()) -> Iterator[RunDirectory]:
        """Create the folder, keep other processes out, and mend what a killed process left behind.

        Every row must have a number under each key in ``needs``; rows from the first that has not are cut off.
        """
        make_folder(path)
        with ExitStack() as stack:
            _lock(path, stack)
            clean_leftovers(path)
            run = cls(path, needs)
            stack.callback(run._rounds.close)
            yield run
            run.sync()

    def write_spec(self, text: str) -> None:
        """Write the spec of a new run; of an old one, make sure that it is the same."""
        present = read_spec(self.path)
        if present is None:
            atomic_write(self.path / _SPEC, text.encode())
        elif present != text:
            raise UserError(
                f"{self.path} belongs to another run: its {_SPEC} differs. "
                "Choose another --runs folder, or remove this one."
            )

    def append_round(self, row: Mapping[str, JSON]) -> None:
        """Append the row of round ``row["round"]``, unless it is there already from before a stop.

        NaN and infinities become null. The row survives a killed process at once, a power cut after ``sync``.
        A run that got further has not failed any more.
        """
        if self._rounds.append(row):
            with suppress(OSError):
                (self.path / _FAILURE).unlink()

    def forget_after(self, round: int) -> None:
        """Cut off the rows after a round: for runs that may play it otherwise the next time."""
        self._rounds.forget_after(round)

    def sync(self) -> None:
        """Make all rows survive a power cut."""
        self._rounds.sync()

    def rounds(self) -> list[dict[str, JSON]]:
        """All rows, by round."""
        return read_rounds(self.path)

    def save_checkpoint(self, checkpoint: Checkpoint, keep: int = 2) -> Path:
        """Save all rows for good, then the checkpoint: the rows are never behind it."""
        self.sync()
        return save_checkpoint(self.path, checkpoint, keep)

    def load_checkpoint(
        self, say: Callable[[str], None], wrong: Callable[[Checkpoint], str | None] = lambda checkpoint: None
    ) -> Checkpoint | None:
        """The newest checkpoint that can be used, or None; ``say`` gets one line for what cannot.

        A checkpoint beyond the recorded rounds is of no use: its rounds are played again, to the same bits.
        """
        recorded = len(self.rounds())
        if self._rounds.cut:
            say(f"{_ROUNDS} is damaged after round {recorded}; the rounds after it are played again")

        def reason(checkpoint: Checkpoint) -> str | None:
            if checkpoint.round > recorded:
                return f"only {recorded} rounds are recorded"
            return wrong(checkpoint)

        return load_latest(self.path, say, reason)

    def save_weights(self, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> Path:
        """Write the final weights as a plain safetensors file."""
        path = self.path / _WEIGHTS
        atomic_write(path, tensor_bytes(tensors, metadata))
        return path

    def write_result(self, result: Mapping[str, JSON]) -> None:
        """Write the result; its presence says that the run is done, so the rows are saved for good first."""
        self.sync()
        atomic_write(self.path / _RESULT, (json.dumps(finite(result), indent=2) + "\n").encode())

    def write_failure(self, problem: str, *, final: bool = True) -> None:
        """Note why the run cannot go on. Its next result, if there is one after all, counts instead.

        ``final``: trying again would only repeat it, as after a divergence; a missing file may be there next time.
        """
        text = json.dumps({"problem": problem, "final": final})
        atomic_write(self.path / _FAILURE, (text + "\n").encode())

    def result(self) -> dict[str, JSON] | None:
        """The result, or None where there is none that can be read."""
        return read_result(self.path)


def read_spec(path: Path) -> str | None:
    """The spec of the run in folder ``path``, or None. Takes no lock."""
    data = read_bytes(path / _SPEC)
    return None if data is None else data.decode(errors="replace")


def read_rounds(path: Path) -> list[dict[str, JSON]]:
    """The rows of the run in folder ``path``: rounds 1, 2, 3, ... as far as they are whole and without a gap.

    Takes no lock; the run may be going on.
    """
    return sound_rows(read_bytes(path / _ROUNDS) or b"")[0]


def read_result(path: Path) -> dict[str, JSON] | None:
    """The result of the run in folder ``path``; None where there is none that can be read. Takes no lock."""
    try:
        result = json.loads((path / _RESULT).read_bytes())
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) else None


def read_failure(path: Path) -> str | None:
    """Why the run in folder ``path`` failed, or None. Takes no lock."""
    try:
        return str(json.loads((path / _FAILURE).read_bytes())["problem"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def failed_for_good(path: Path) -> bool:
    """Whether the run in folder ``path`` failed in a way that trying again would only repeat. Takes no lock."""
    try:
        return bool(json.loads((path / _FAILURE).read_bytes()).get("final", True))
    except (OSError, ValueError, AttributeError):
        return False


def _lock(path: Path, stack: ExitStack) -> None:
    """Lock the folder until ``stack`` ends, and note who has it."""
    lock = FileLock(path / _LOCK, timeout=0, thread_local=False)
    pid = path / _PID
    try:
        lock.acquire()
    except Timeout:
        raise InUse(
            f"{path} is in use by another process{_holder(pid)}. Wait for it, or choose another --runs folder."
        ) from None
    except NotImplementedError:  # how older versions of filelock say it
        raise UserError(f"{path} is on a file system without locks. Choose another --runs folder.") from None
    except OSError as error:
        raise storage_error(path / _LOCK, error) from error
    stack.callback(lock.release)
    # Beside the lock, since on Windows nobody can read a locked file. A courtesy that a full disk may refuse.
    with suppress(OSError):
        pid.write_text(str(os.getpid()))
    stack.callback(_forget, pid)


def _forget(pid: Path) -> None:
    with suppress(OSError):
        pid.unlink()


def _holder(pid: Path) -> str:
    try:
        return f" (pid {int(pid.read_text())})"
    except (OSError, ValueError):
        return ""
