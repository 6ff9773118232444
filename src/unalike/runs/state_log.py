"""What very many parties keep, in a file beside the checkpoints that only grows: a save costs what has changed.

``states-001.log`` is a row of blocks. A block is its length (8 bytes) and a safetensors file that knows its own
checksum, with two tensors or more for each kind of thing that parties keep: whose rows these are, and the rows. A
checkpoint says how much of the file it goes by. What is beyond was written by a process that was killed; it is cut
off. When more than half of the file is old, the next save begins a new one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from unalike.rounds.party_states import PartyStates, Table
from unalike.rounds.state import State
from unalike.runs.checkpoint import JSON, Checkpoint, Damaged, decode_checkpoint, encode_checkpoint
from unalike.runs.files import list_folder, open_file, storage_error, sync_folder, write_all

if TYPE_CHECKING:
    from unalike.algorithms.contract import Vectors

STATES = "states"
"""In a checkpoint: which file it goes by, how much of it, and the digests of what parties keep."""
_NAME = re.compile(r"states-(\d{3,})\.log")
_BLOCK = 2**26
"""Bytes of the rows of one block."""
_SMALL = 2**26
"""Bytes of a file that is not worth being made anew."""
_KEPT = 2
"""Checkpoints that are kept, each of which may go by a file of its own."""
_MODULUS = 2**256
_NOTHING = PartyStates()

Kinds = Mapping[str, PartyStates]


class StateLog:
    """The files of one run's folder, to which one process writes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.number = self.selected = 0
        """The file that is written to, and the one that the state of the selected round goes by."""
        self._end = self._saves = 0
        self._kept: Kinds = {}
        self._digests: dict[str, int] = {}
        self._read: dict[tuple[int, int], Kinds] = {}

    def begins_anew(self, state: State) -> bool:
        """Begin a new file where there is none, or where most of it is old: whether that was so.

        Whatever else goes by the old file is to be appended before this state.
        """
        live = sum(kept.nbytes for kept in state.packed.values())
        if not state.packed or (self.number and self._end <= 2 * live + _SMALL and self._is_whole()):
            return False
        self._begin()
        return True

    def _begin(self) -> None:
        self.number = max([self.number, *(number for number, _ in self._files())]) + 1
        self._end = self._saves = 0
        self._kept, self._digests = {}, {}

    def append(self, state: State) -> dict[str, JSON]:
        """Write what has changed since the last append; what a checkpoint is to say of it."""
        packed = state.packed
        if not packed:
            return {}
        changed = {kind: now.changed_since(self._kept.get(kind, _NOTHING)) for kind, now in packed.items()}
        if any(number not in packed[kind] for kind, numbers in changed.items() for number in numbers):
            self._begin()  # some rows are gone, which a file that only grows cannot say
            changed = {kind: list(now) for kind, now in packed.items()}
        blocks, kept, digests = bytearray(), dict(self._kept), dict(self._digests)
        for kind, now in packed.items():
            before, numbers = kept.get(kind, _NOTHING), changed[kind]
            digests[kind] = digests.get(kind, 0) - before.digest_of(numbers) + now.digest_of(numbers)
            kept[kind] = now
            for part in _parts(numbers, now):
                blocks += _encoded(state.round, kind, now.tables(part))
        self._write(blocks)
        self._kept, self._digests = kept, digests
        return {STATES: {"file": self.number, "bytes": self._end, "digests": _told(digests, packed)}}

    def saved(self) -> None:
        """A checkpoint goes by the file: after so many as are kept, no other file is needed."""
        self._saves += 1
        if self._saves == _KEPT and self.number:
            for number, path in self._files():
                if number not in (self.number, self.selected):
                    with suppress(OSError):  # open in another program on Windows
                        path.unlink()

    def state_of(self, saved: Checkpoint, placed: Callable[[Vectors], Vectors]) -> State:
        """The state of a checkpoint, on the device of the nets; Damaged where its file is not what was written."""
        rest, about = State.of(saved.round, placed(saved.tensors)), saved.meta.get(STATES)
        if about is None:
            return rest
        place = int(about["file"]), int(about["bytes"])
        if place not in self._read:
            self._read[place] = self._replayed(*place, placed)
        kinds = {kind: kept for kind, kept in self._read[place].items() if kind in about["digests"]}
        if _told({kind: kept.digest_of(kept) for kind, kept in kinds.items()}, kinds) != about["digests"]:
            raise Damaged("what parties keep is not what was saved")
        return rest.with_packed(kinds)

    def go_on(self, saved: Checkpoint) -> None:
        """Append to what a checkpoint goes by, which has been read."""
        self._saves = 0
        if (about := saved.meta.get(STATES)) is not None:
            self.number, self._end = int(about["file"]), int(about["bytes"])
            self._kept = self._read[self.number, self._end]
            self._digests = {kind: kept.digest_of(kept) % _MODULUS for kind, kept in self._kept.items()}

    def forget(self) -> None:
        """Let go of what was read: a run that has gone on does not need it."""
        self._read = {}

    def _files(self) -> list[tuple[int, Path]]:
        found = ((_NAME.fullmatch(path.name), path) for path in list_folder(self._folder))
        return [(int(match[1]), path) for match, path in found if match]

    @property
    def _path(self) -> Path:
        return self._folder / f"states-{self.number:03d}.log"

    def _is_whole(self) -> bool:
        try:
            return self._path.stat().st_size >= self._end
        except OSError:
            return False

    def _write(self, blocks: bytearray) -> None:
        """Append, after cutting off what a save left that did not come to its end."""
        try:
            with open_file(self._path, "ab") as file:
                file.truncate(self._end)
                write_all(file, blocks)
                os.fsync(file.fileno())
            if not self._end:
                sync_folder(self._folder)
        except OSError as error:
            raise storage_error(self._path, error) from error
        self._end += len(blocks)

    def _replayed(self, number: int, length: int, placed: Callable[[Vectors], Vectors]) -> Kinds:
        """What parties kept when the file was of that length."""
        import torch

        device = placed({"": torch.zeros(0)})[""].device
        found: dict[str, PartyStates] = {}
        for tensors in _blocks(self._folder / f"states-{number:03d}.log", length):
            for kind, tables in _decoded(tensors).items():
                like = self._kept.get(kind, PartyStates())
                found[kind] = found.get(kind, PartyStates()).put_tables(tables, device, like)
        return found


def _told(digests: Mapping[str, int], kinds: Kinds) -> dict[str, str]:
    return {kind: f"{digests[kind] % _MODULUS:064x}" for kind in sorted(kinds)}


def _parts(numbers: list[int], states: PartyStates) -> Iterator[list[int]]:
    """The parties in parts whose rows fit into a block."""
    width = max(1, _BLOCK * len(states) // max(1, states.nbytes))
    return (numbers[first : first + width] for first in range(0, len(numbers), width))


def _encoded(round: int, kind: str, tables: Iterator[Table]) -> bytes:
    """Rows as a block of the file: its length, and a safetensors file."""
    tensors: Vectors = {}
    for place, table in enumerate(tables):
        tensors[f"{kind}/{place}"] = table.numbers
        tensors |= {f"{kind}/{place}/{key}": value for key, value in table.columns.items()}
    data = encode_checkpoint(Checkpoint(round, tensors))
    return len(data).to_bytes(8, "little") + data


def _decoded(tensors: Vectors) -> dict[str, list[Table]]:
    """The tables of a block, by their kind."""
    found: dict[str, dict[str, Table]] = {}
    for name, value in tensors.items():
        kind, place, *key = name.split("/", 2)
        if not key:
            found.setdefault(kind, {})[place] = Table(value, {})
        else:
            found[kind][place].columns[key[0]] = value
    return {kind: list(tables.values()) for kind, tables in found.items()}


def _blocks(path: Path, length: int) -> Iterator[Vectors]:
    """The blocks of a file up to that length; Damaged where they are not what was written."""
    try:
        with path.open("rb") as file:
            while (start := file.tell()) < length:
                size = int.from_bytes(file.read(8), "little")
                if not 0 < size <= length - start - 8:
                    raise Damaged(f"{path.name} is")
                yield decode_checkpoint(file.read(size), path).tensors
    except FileNotFoundError:
        raise Damaged(f"{path.name} is missing") from None
    except OSError as error:
        raise storage_error(path, error, "read") from error
