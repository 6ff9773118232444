"""What the folder of a run holds, checked: all who read runs read them here, and so agree on which are finished.

Nothing here takes the folder's lock: the run may be going on.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unalike.errors import UserError
from unalike.runs.files import read_bytes
from unalike.runs.seals import Broken, SealedLines, read_chain, unseal
from unalike.scores import key_of, score_of

SPEC = "spec.toml"
ROUNDS = "rounds.jsonl"
RESULT = "result.json"
FAILURE = "failure.json"
WEIGHTS = "weights.safetensors"

SEALS_ROUNDS = "rounds_seal"
"""The field of the result that holds the seal of the last round: it vouches for all of them."""
SEALS_SPEC = "spec_file_sha256"
"""The field of the result that holds the SHA-256 of the spec.toml that the run was made of."""
SEALS_WEIGHTS = "weights_file_sha256"
"""The field of the result that holds the SHA-256 of the file with the final weights."""
SEALS_MODEL = "model_file_sha256"
"""The field of the result that holds the SHA-256 of the file that says how to rebuild the models."""
MODEL = "model.json"


@dataclass(frozen=True)
class RunRecord:
    """What is in a run's folder, as far as it is undamaged."""

    spec: str | None = None
    """The text of spec.toml; None where there is none."""
    rounds: list[dict[str, Any]] = field(default_factory=list)
    """Of rounds 1, 2, 3, ... up to the last one, or to the first damaged one."""
    result: dict[str, Any] | None = None
    """The figures of a finished run: sealed, and made of this spec and of just these rounds. Else None."""
    damage: str | None = None
    """Which file is damaged, and where in it. The run is then not finished: to run it again mends it."""


def read_run(folder: Path, *, weights: bool = False) -> RunRecord:
    """The run in a folder; with ``weights``, it is finished only if its weights are those that were saved."""
    try:
        spec = read_spec(folder)
        written = read_bytes(folder / RESULT)  # before the rounds: a run that goes on writes it after them
        chain = read_chain(read_bytes(folder / ROUNDS) or b"")
    except UserError as error:
        return RunRecord(damage=str(error))
    result, damage = None, None
    try:
        if chain.damage is not None:
            raise Broken(f"{ROUNDS}: {chain.damage}")
        if written is not None:
            result = _checked_result(written, spec, chain)
            if weights:
                checked_weights(folder, result)
                _check_models(folder, result)
    except Broken as error:
        result, damage = None, f"{error}."
    return RunRecord(spec, chain.rows, result, damage)


def _checked_result(written: bytes, spec: str | None, chain: SealedLines) -> dict[str, Any]:
    try:
        result, _ = unseal(written)
    except Broken as error:
        raise Broken(f"{RESULT} {error}{_changed_field(written, chain)}") from None
    if result.pop(SEALS_ROUNDS, None) != chain.ends[-1][1]:
        raise Broken(
            f"{ROUNDS} has {len(chain.rows)} rounds, which are not the {result.get('rounds')} that "
            f"{RESULT} was made of"
        )
    if result.pop(SEALS_SPEC, None) != file_sha256((spec or "").encode()):
        raise Broken(f"{SPEC} is not the spec that {RESULT} was made of")
    return result


def _changed_field(written: bytes, chain: SealedLines) -> str:
    """The first figure in a damaged result that differs from the last round's, to show where to look."""
    try:
        result, last = json.loads(written), chain.rows[-1]
        names = (name for name in (key_of(score_of(last)), "loss", "train_loss") if name in last)
        name = next(name for name in names if result.get(name) != last[name])
        return f": {name} is {float(result[name]):g}, but {float(last[name]):g} in the last round"
    except (ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError):
        return ""


def checked_weights(folder: Path, result: dict[str, Any]) -> bytes:
    """The file with the final weights of a finished run. Raises Broken where it is not the one that was saved."""
    return _checked_file(folder, WEIGHTS, result.get(SEALS_WEIGHTS), RESULT)


def _check_models(folder: Path, result: dict[str, Any]) -> None:
    """Raises Broken where model.json, or a file that it names, is not the one that was saved.

    Older versions did not write one.
    """
    if SEALS_MODEL not in result:
        return
    from unalike.runs.model_file import ModelFile

    data = _checked_file(folder, MODEL, result[SEALS_MODEL], RESULT)
    try:
        about = ModelFile.decode(data)
    except Broken as error:
        raise Broken(f"{MODEL} {error}") from None
    for kept in about.stages.values():
        for name, sha256 in ((kept.weights, kept.weights_sha256), (kept.personal, kept.personal_sha256)):
            if name:
                _checked_file(folder, name, sha256, MODEL)


def _checked_file(folder: Path, name: str, sha256: Any, vouches: str) -> bytes:
    try:
        data = read_bytes(folder / name)
    except UserError as error:
        raise Broken(str(error).rstrip(".")) from None
    if data is None:
        raise Broken(f"{name} is missing")
    if file_sha256(data) != sha256:
        raise Broken(f"{name} is not the file whose SHA-256 {vouches} names")
    return data


def file_sha256(data: bytes) -> str:
    """The SHA-256 of a file's content, as the result of a run names it."""
    return hashlib.sha256(data).hexdigest()


def read_spec(folder: Path) -> str | None:
    """The text of the run's spec.toml, or None."""
    data = read_bytes(folder / SPEC)
    return None if data is None else data.decode(errors="replace")


def read_rounds(folder: Path) -> list[dict[str, Any]]:
    """The rows of rounds 1, 2, 3, ... as far as they are whole and undamaged."""
    return read_chain(read_bytes(folder / ROUNDS) or b"").rows


def read_failure(folder: Path) -> str | None:
    """Why the run failed, or None."""
    try:
        return str(json.loads(read_bytes(folder / FAILURE) or b"")["problem"])
    except (UserError, ValueError, KeyError, TypeError, RecursionError):
        return None


def failed_for_good(folder: Path) -> bool:
    """Whether the run failed in a way that trying again would only repeat."""
    try:
        return bool(json.loads(read_bytes(folder / FAILURE) or b"").get("final", True))
    except (UserError, ValueError, AttributeError, RecursionError):
        return False


def failed_at(folder: Path | None) -> int:
    """When a run's failure was noted, by its file; 0 where none is. Tells a new one from an old."""
    try:
        return 0 if folder is None else (folder / FAILURE).stat().st_mtime_ns
    except OSError:
        return 0
