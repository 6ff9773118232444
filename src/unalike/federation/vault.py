"""What a site keeps between exchanges, in versions: nothing is lost, nothing moves on without the server knowing.

The server names the version that it accepted from this site; the site computes from exactly that one and stores
the new one before it answers. A site that vanishes or answers too late was simply absent: the next message names
the older version again. Only the versions that may still be named are kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from unalike.algorithms.contract import Vectors
from unalike.federation.envelope import Refused
from unalike.runs.checkpoint import Checkpoint, Damaged, decode_checkpoint, encode_checkpoint
from unalike.runs.files import atomic_write, clean_leftovers, list_folder, private_folder, storage_error

START = ""
"""The version of a site that has not taken part yet."""
_VERSION = re.compile(r"[0-9]{6,9}-[0-9]{1,6}-[0-9]{1,9}")


def version_name(round: int, turn: int, incarnation: int) -> str:
    """The version that the exchange (round, turn) makes, asked by that incarnation of the server."""
    return f"{round:06d}-{turn}-{incarnation}"


class Vault:
    """Versions of a site's state in a folder, each a checked safetensors file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        private_folder(folder)  # what an algorithm keeps says as much about rows as an update
        clean_leftovers(folder)

    def load(self, version: str) -> Vectors:
        """The state of a version; a missing one is an error, never a silent start from the beginning."""
        if version == START:
            return {}
        path = self._path(version)
        try:
            return decode_checkpoint(path.read_bytes()).tensors
        except FileNotFoundError:
            raise Refused(f"the state version {version} is not here; was the site's folder replaced?") from None
        except Damaged as error:
            raise Refused(f"the state version {version} is damaged ({error})") from None
        except OSError as error:
            raise storage_error(path, error, "read") from error

    def save(self, version: str, state: Vectors) -> None:
        """Store a version for good."""
        atomic_write(self._path(version), encode_checkpoint(Checkpoint(0, state)))

    def keep(self, versions: Collection[str]) -> None:
        """Remove all versions of the state but these."""
        for path in list_folder(self._folder):
            if path.suffix == ".state" and path.stem not in versions:
                with suppress(OSError):  # open in another program on Windows: the next time removes it
                    path.unlink()

    @property
    def versions(self) -> list[str]:
        """The versions that are there."""
        return [path.stem for path in list_folder(self._folder) if path.suffix == ".state"]

    def _path(self, version: str) -> Path:
        if not _VERSION.fullmatch(version):  # it becomes a file's name
            raise Refused(f"{version[:60]!r} is no version of a state")
        return self._folder / f"{version}.state"
