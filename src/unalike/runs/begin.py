"""Weights that a run begins with: a safetensors file, or the folder of a finished run."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from unalike.errors import UserError
from unalike.runs.record import WEIGHTS, checked_weights, read_run
from unalike.runs.seals import Broken

if TYPE_CHECKING:
    from torch import Tensor


def weights_sha256(name: str) -> str:
    """SHA-256 of the weights' file, so that other weights are another run."""
    return hashlib.sha256(_bytes(name)).hexdigest()


def read_weights(name: str) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name, or of a finished run's final model."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    data = _bytes(name)
    try:
        return load(data)
    except (SafetensorError, ValueError) as error:
        raise UserError(f"{name} is not a safetensors file: {error}. Save one with safetensors.torch.") from None


def _bytes(name: str) -> bytes:
    path = Path(name).expanduser()
    if path.is_dir():
        return _of_run(path)
    if path.exists() and not path.is_file():  # a plan may name any path, such as one without an end
        raise UserError(f"{name} is not a file. Give a .safetensors file or a run's folder.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(
            f"Cannot read the weights {name}: {error.strerror}. Give a .safetensors file or a run's folder."
        ) from None


def _of_run(folder: Path) -> bytes:
    found = read_run(folder)
    if found.result is None:
        problem = found.damage or f"it has no {WEIGHTS} of a finished run."
        raise UserError(f"{folder}: {problem} Give a .safetensors file or the folder of a finished run.")
    try:
        return checked_weights(folder, found.result)
    except Broken as error:
        raise UserError(f"{folder}: {error}. Run it again, or give another.") from None
