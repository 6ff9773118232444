"""The folder of one run: its spec, one row per round, checkpoints, the final weights and the result.

One process writes to it at a time, and may be killed at any moment; others may read it meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from unalike.errors import UserError
from unalike.runs.checkpoint import (
    JSON,
    Checkpoint,
    Damaged,
    decode_checkpoint,
    encode_checkpoint,
    load_latest,
    save_checkpoint,
    tensor_bytes,
)
from unalike.runs.claim import claim
from unalike.runs.files import (
    atomic_write,
    clean_leftovers,
    make_folder,
    read_bytes,
    storage_error,
)
from unalike.runs.lease import InUse as InUse
from unalike.runs.lease import Lease
from unalike.runs.record import (
    FAILURE,
    RESULT,
    ROUNDS,
    SEALS_ROUNDS,
    SEALS_SPEC,
    SPEC,
    WEIGHTS,
    RunRecord,
    file_sha256,
    read_rounds,
    read_run,
    read_spec,
)
from unalike.runs.rounds_file import RoundsFile, finite
from unalike.runs.seals import seal
from unalike.runs.state_log import StateLog

if TYPE_CHECKING:
    import torch

SELECTED_STATE = "selected-state.safetensors"
"""What the models of the round that is selected so far are made of, for a run that goes on."""


class RunDirectory:
    """The folder of one run, open for writing. Made by ``RunDirectory.open`` only, which takes the lock."""

    def __init__(self, path: Path, lease: Lease) -> None:
        self.path = path
        self._lease = lease
        self.found: RunRecord = read_run(path, weights=True)
        """What was there when the folder was opened, before damaged rounds were cut off."""
        self._rounds = RoundsFile(path / ROUNDS)
        self.states = StateLog(path)

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[RunDirectory]:
        """Create the folder, keep other processes out, and mend what a killed process left behind."""
        make_folder(path)
        with ExitStack() as stack:
            lease = stack.enter_context(claim(path))
            clean_leftovers(path)
            run = cls(path, lease)
            stack.callback(run._rounds.close)
            yield run
            run.sync()

    def write_spec(self, text: str, same: Callable[[str], bool] = lambda present: False) -> None:
        """Write the spec of a new run; of an old one, make sure that it is the same.

        ``same`` says whether another text is of the same run, as one that was written before an option was there.
        """
        present = read_spec(self.path)
        if present is None:
            atomic_write(self.path / SPEC, text.encode())
        elif present != text and not same(present):
            raise UserError(
                f"{self.path} belongs to another run: its {SPEC} differs. "
                "Choose another --runs folder, or remove this one."
            )

    def append_round(self, row: Mapping[str, JSON]) -> None:
        """Append the row of the next round, number ``row["round"]``.

        NaN and infinities become null. The row survives a killed process at once, a power cut after ``sync``.
        A run that got further has not failed any more.
        """
        self._lease.check()
        self._rounds.append(row)
        with suppress(OSError):
            (self.path / FAILURE).unlink()

    def sync(self) -> None:
        """Make all rows survive a power cut."""
        self._rounds.sync()

    def rounds(self) -> list[dict[str, JSON]]:
        """The figures of every recorded round, in order."""
        return read_rounds(self.path)

    def save_checkpoint(self, checkpoint: Checkpoint, keep: int = 2) -> Path:
        """Save all rows for good, then the checkpoint: the rows are never behind it."""
        self._lease.check()
        self.sync()
        return save_checkpoint(self.path, checkpoint, keep)

    def load_checkpoint(
        self, say: Callable[[str], None], wrong: Callable[[Checkpoint], str | None] = lambda checkpoint: None
    ) -> Checkpoint | None:
        """The newest checkpoint that can be used, or None; ``say`` gets one line for what is damaged or cannot be.

        A checkpoint beyond the recorded rounds is of no use. Rows beyond the checkpoint are cut off: their rounds
        are played again, in a simulation to the same bits.
        """
        if self.found.damage is not None:
            say(f"{self.path}: {self.found.damage} What is damaged is made again.")
            self._put_aside(RESULT)
        recorded = self._rounds.last

        def reason(checkpoint: Checkpoint) -> str | None:
            if checkpoint.round > recorded:
                return f"only {recorded} rounds are recorded"
            return wrong(checkpoint)

        found = load_latest(self.path, say, reason)
        self._rounds.forget_after(0 if found is None else found.round)
        return found

    def _put_aside(self, name: str) -> None:
        try:
            (self.path / name).replace(self.path / f"{name}.damaged")
        except FileNotFoundError:
            pass
        except OSError as error:
            raise storage_error(self.path / name, error) from error

    def save_selected(self, checkpoint: Checkpoint) -> None:
        """Save the state of the round that is selected so far."""
        atomic_write(self.path / SELECTED_STATE, encode_checkpoint(checkpoint))

    def load_selected(self, wrong: Callable[[Checkpoint], str | None]) -> Checkpoint | None:
        """That state, or None where it is not there, damaged, or wrong."""
        data = read_bytes(self.path / SELECTED_STATE)
        try:
            found = None if data is None else decode_checkpoint(data, self.path / SELECTED_STATE)
        except Damaged:
            return None
        return None if found is None or wrong(found) is not None else found

    def save_files(self, files: Mapping[str, bytes]) -> str:
        """Write files beside the others, in their order; the SHA-256 of the last."""
        for name, data in files.items():
            atomic_write(self.path / name, data)
        return file_sha256(data)

    def save_weights(self, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> str:
        """Write the final weights as a plain safetensors file; its SHA-256."""
        data = tensor_bytes(tensors, metadata)
        atomic_write(self.path / WEIGHTS, data)
        return file_sha256(data)

    def write_result(self, result: Mapping[str, JSON]) -> None:
        """Write the result, sealed. It says that the run is done, so the rows are saved for good first."""
        self._lease.check()
        self.sync()
        spec = file_sha256((read_spec(self.path) or "").encode())
        data, _ = seal({**finite(result), SEALS_SPEC: spec, SEALS_ROUNDS: self._rounds.seal}, indent=2)
        atomic_write(self.path / RESULT, data)

    def write_failure(self, problem: str, *, final: bool = True) -> None:
        """Note why the run cannot go on. Its next result, if there is one after all, counts instead.

        ``final``: trying again would only repeat it, as after a divergence; a missing file may be there next time.
        """
        text = json.dumps({"problem": problem, "final": final})
        atomic_write(self.path / FAILURE, (text + "\n").encode())
