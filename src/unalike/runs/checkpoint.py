"""Checkpoints of a run: safetensors files that know their own checksum.

Each file is a plain safetensors file that any reader can open. Its metadata holds a SHA-256 over the whole
file, taken with 64 zeros in the checksum's own place, so a wrong, missing or added byte anywhere is noticed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from unalike.errors import UserError
from unalike.runs.files import atomic_write, list_folder, storage_error

if TYPE_CHECKING:  # who only reads the record of a run does not wait for torch
    import torch

# What json.loads returns. A recursive type would ask for a cast at each use.
JSON: TypeAlias = Any

CHECKPOINT_SECONDS = 2.0
"""Time between checkpoints. A stopped run repeats at most this much work; its outcome is the same."""

_FORMAT = 1
_NAME = re.compile(r"checkpoint-(\d{6,})\.safetensors")
_CONTENT = "unalike.checkpoint"
_CHECKSUM = "unalike.sha256"
# A quote inside any other text of the header is escaped, so this can only be the checksum's own place.
_PLACE = f'"{_CHECKSUM}":"'.encode()
_ZEROS = b"0" * 64
# Readers of safetensors refuse a longer header; writers do not.
_HEADER_LIMIT = 100_000_000


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after ``round`` rounds: all that is needed to go on as if it had not stopped.

    ``meta`` comes back as JSON gives it (tuples as lists), with NaN and infinities kept.
    """

    round: int
    tensors: dict[str, torch.Tensor]
    meta: dict[str, JSON] = field(default_factory=dict)


class Damaged(Exception):
    """A checkpoint that cannot be used; the text says why in a word or two."""


def save_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int = 2) -> Path:
    """Write ``checkpoint-<round>.safetensors`` for good, then remove all but the last ``keep`` up to it.

    Later ones are left alone: after a start from an older checkpoint they are still to be reached.
    """
    if keep < 1:
        raise ValueError(f"keep must be >= 1, got {keep}.")
    if checkpoint.round < 0:
        raise ValueError(f"Checkpoint.round must be >= 0, got {checkpoint.round}.")
    path = folder / f"checkpoint-{checkpoint.round:06d}.safetensors"
    atomic_write(path, encode_checkpoint(checkpoint))
    reached = [old for number, old in _checkpoints(folder) if number <= checkpoint.round]
    for old in reached[:-keep]:
        with suppress(OSError):  # open in another program on Windows: the next save removes it
            old.unlink()
    return path


def load_latest(
    folder: Path,
    say: Callable[[str], None],
    wrong: Callable[[Checkpoint], str | None] = lambda checkpoint: None,
) -> Checkpoint | None:
    """The newest checkpoint in ``folder`` that can be used, or None. ``say`` gets one line for each that cannot.

    Damaged ones, and those of which ``wrong`` gives a reason, are renamed to ``*.damaged``, so that they no longer
    count among those to keep.
    """
    damaged: list[tuple[Path, str]] = []
    found: Checkpoint | None = None
    where = "starting over"
    for number, path in reversed(_checkpoints(folder)):
        try:
            found = _checked(_read(path, number), wrong)
        except FileNotFoundError:  # the run that writes here has just removed it
            continue
        except Damaged as error:
            damaged.append((path, str(error)))
            continue
        where = f"going on from {path.stem}"
        break
    for path, why in damaged:
        say(f"{path.stem} is damaged ({why}); {where}")
        with suppress(OSError):
            path.replace(path.with_name(f"{path.name}.damaged"))
    return found


def _checked(checkpoint: Checkpoint, wrong: Callable[[Checkpoint], str | None]) -> Checkpoint:
    reason = wrong(checkpoint)
    if reason is not None:
        raise Damaged(reason)
    return checkpoint


def tensor_bytes(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> bytes:
    """A safetensors file as bytes, of tensors on any device, in any layout, and that may share memory.

    The same tensors and metadata always give the same bytes.
    """
    import safetensors.torch
    import torch

    if "__metadata__" in tensors:  # safetensors would write a file that it cannot read
        raise ValueError("A tensor cannot have the name '__metadata__'. Use another name.")
    own = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    return _in_order(safetensors.torch.save(own, metadata=dict(metadata) or None))


def _in_order(data: bytes) -> bytes:
    """A safetensors file with its metadata sorted: safetensors writes them in another order every time.

    The file is the length of a JSON header (8 bytes), the header, padded with spaces to a multiple of 8 bytes, and
    the tensors, which safetensors does sort.
    """
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    if "__metadata__" in header:
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _HEADER_LIMIT:
        raise ValueError(f"Names and metadata must be under {_HEADER_LIMIT} bytes, got {len(text)}. Use tensors.")
    return b"".join([len(text).to_bytes(8, "little"), text, memoryview(data)[end:]])


def _checkpoints(folder: Path) -> list[tuple[int, Path]]:
    matches = ((_NAME.fullmatch(path.name), path) for path in list_folder(folder))
    return sorted((int(match[1]), path) for match, path in matches if match)


def encode_checkpoint(checkpoint: Checkpoint) -> bytearray:
    """The file of a checkpoint."""
    content = {
        "format": _FORMAT,
        "round": checkpoint.round,
        # safetensors returns tensors in random order, and sums over them must not depend on it.
        "names": list(checkpoint.tensors),
        "meta": checkpoint.meta,
    }
    metadata = {_CONTENT: json.dumps(content), _CHECKSUM: _ZEROS.decode()}
    data = bytearray(tensor_bytes(checkpoint.tensors, metadata))
    start = data.index(_PLACE) + len(_PLACE)
    data[start : start + len(_ZEROS)] = hashlib.sha256(data).hexdigest().encode()
    return data


def _decode(data: bytes) -> tuple[dict[str, JSON], dict[str, torch.Tensor]]:
    import safetensors.torch

    place = data.find(_PLACE)
    if place < 0:
        raise Damaged("no checksum" if data else "empty")
    start, end = place + len(_PLACE), place + len(_PLACE) + len(_ZEROS)
    view = memoryview(data)
    digest = hashlib.sha256(view[:start])
    digest.update(_ZEROS)
    digest.update(view[end:])
    if digest.hexdigest().encode() != data[start:end]:
        raise Damaged("checksum")
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        content = json.loads(header["__metadata__"][_CONTENT])
        return content, safetensors.torch.load(data)
    except (ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise Damaged("not a checkpoint") from error


def _read(path: Path, number: int) -> Checkpoint:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.EIO:
            raise Damaged("the disk cannot read it") from error
        # Starting over would be wrong: the checkpoint may well be whole.
        raise storage_error(path, error, "read") from error
    checkpoint = decode_checkpoint(data, path)
    if checkpoint.round != number:
        raise Damaged(f"it is of round {checkpoint.round}")
    return checkpoint


def decode_checkpoint(data: bytes, name: Path | str = "The checkpoint") -> Checkpoint:
    """The checkpoint in a file's bytes; Damaged where they are not what was written."""
    content, tensors = _decode(data)
    if content["format"] != _FORMAT:
        raise UserError(
            f"{name} has format {content['format']}, this version of unalike reads {_FORMAT}. "
            "Use the version that wrote it, or choose another --runs folder."
        )
    # A copy in memory aligned as torch's own: results of matrix products may depend on the alignment.
    own = {name: tensors[name].clone() for name in content["names"]}
    return Checkpoint(int(content["round"]), own, content["meta"])
