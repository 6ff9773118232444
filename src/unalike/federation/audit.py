"""A site's own log of every message: when, which way, what kind, how many bytes, their hash, and what came of it.

One sealed JSON line a message, appended and synced, so that a line that was changed, removed or added afterwards
shows (``read_audit``). Of a protocol's round, which has hundreds of messages, the first has a line, and the next
line counts the others. A long log goes on in a new file, whose first line follows the last one of the file before.
Where it ends stands in a head that the site signs after every line: lines that are missing at the end show too. A
kill between line and head leaves a head that is one line behind, and never one that is ahead.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unalike.errors import UserError
from unalike.federation.folders import SEEN, read_key
from unalike.federation.making import SiteFolder
from unalike.runs.files import (
    atomic_write,
    list_folder,
    open_file,
    read_bytes,
    storage_error,
    sync_folder,
    write_all,
)
from unalike.runs.seals import FIRST, SealedLines, read_chain, seal
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.primitives import sign, signing_public, verify

FILE, HEAD = "audit.jsonl", "audit.head.json"
MOST_BYTES = 64 * 2**20
"""A file of the log that has grown so long is followed by a new one."""
_OLDER = re.compile(r"audit\.([1-9][0-9]*)\.jsonl")
_PURPOSE = b"unalike: the head of a site's log\n"


@dataclass(frozen=True)
class Head:
    """Where the log ends: how many lines it has, the last one's seal, and what the lines add up to."""

    lines: int = 0
    seal: str = FIRST
    time: str = ""
    messages_in: int = 0
    messages_out: int = 0
    refused: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def after(self, row: Mapping[str, Any], made: str) -> Head:
        """The head after one line more, which has the seal ``made``; turns before it count with it."""
        came, went, turns = row["way"] == "in", row["way"] == "out", row.get("turns", {})
        return replace(
            self,
            lines=self.lines + 1,
            seal=made,
            time=row["time"],
            messages_in=self.messages_in + came + turns.get("in", 0),
            messages_out=self.messages_out + went + turns.get("out", 0),
            refused=self.refused + (came and bool(row.get("outcome"))),
            bytes_in=self.bytes_in + came * row["bytes"] + turns.get("bytes_in", 0),
            bytes_out=self.bytes_out + went * row["bytes"] + turns.get("bytes_out", 0),
        )

    def write(self, folder: Path, signer: bytes) -> None:
        """Replace the head in a folder, signed with the site's key."""
        signature = sign(signer, _PURPOSE + self._signed).hex()
        atomic_write(folder / HEAD, json.dumps({"head": asdict(self), "signature": signature}).encode())

    @property
    def _signed(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def read(cls, folder: Path) -> Head | None:
        """The head in a folder, if there is one; a UserError where it is not one that the site's key signed."""
        path = folder / HEAD
        written = read_bytes(path)
        if written is None:
            return None
        try:
            found = json.loads(written)
            head = cls(**found["head"])
            public = signing_public(read_key(SiteFolder(folder).site_key))
            verify(public, bytes.fromhex(found["signature"]), _PURPOSE + head._signed)
        except (ValueError, KeyError, TypeError, RecursionError, CryptoError):
            raise UserError(f"{path} was changed: it is not what this site's key signed.") from None
        return head


class Audit:
    """The log in a folder, open for appending by one process; ``notice`` has what a person should know of it."""

    def __init__(
        self,
        folder: Path,
        signer: bytes,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._folder, self._path, self._signer = folder, folder / FILE, signer
        self._now, self._most_bytes, self.notice = now, most_bytes, ""
        self._turns, self._turns_hash = Counter[str](), hashlib.sha256()
        older = _older(folder)
        found = read_chain(read_bytes(self._path) or b"", _last_seal(older[-1]) if older else FIRST)
        if found.damage is None:  # else what follows goes after the damage, which shows whenever the log is read
            try:
                self._cut(found.ends[-1][0])  # a line torn by a crash: the message had no answer either
            except OSError as error:
                raise storage_error(self._path, error) from error
        try:
            head, why = Head.read(folder), f"{HEAD} is missing"
        except UserError as error:
            head, why = None, str(error)
        rows, seals = _from_head(found, older, head)
        if head is None and (rows or older or _begun(folder)):
            self._head = Head(seal=seals[-1])
            self._begin_anew(why)
        elif head is None or head.seal in seals:
            self._head = head or Head()
            beyond = rows[seals.index(self._head.seal) :]
            for row, made in zip(beyond, seals[len(seals) - len(beyond) :], strict=True):
                self._head = self._head.after(row, made)
            if beyond:
                self.notice = f"The log has {len(beyond)} good lines after its head, as after a crash: they count."
            self._head.write(folder, signer)
        else:  # what follows goes after the lines that are missing, which shows whenever the log is read
            self._head = head
            self.notice = f"The log is not whole: see unalike federation audit {folder}"

    def _begin_anew(self, why: str) -> None:
        """Count from here on, and say in the log itself that what was at the end before is not known."""
        with suppress(UserError):  # a log that is damaged besides is counted as far as it is whole
            for row in _read(self._folder):
                self._head = self._head.after(row, self._head.seal)
        self.note("log", b"", "head", f"{why}: lines before this one may be missing")
        self.notice = f"The log's end could not be checked: {why}. The log says so from now on."

    def count(self, way: str, raw: bytes) -> None:
        """Count a message of a turn, of which a round has hundreds: the next line has their sum and their hash.

        A round's first message has a line of its own, so that after a kill it shows that something may have left.
        """
        self._turns.update({way: 1, f"bytes_{way}": len(raw)})
        self._turns_hash.update(hashlib.sha256(raw).digest())

    def note(self, way: str, raw: bytes, kind: str, outcome: str = "", **more: Any) -> None:
        """Append a message that came ``in`` or went ``out``."""
        if self._turns:
            more["turns"] = {**self._turns, "sha256": self._turns_hash.hexdigest()}
        line = {
            "time": self._now().isoformat(timespec="milliseconds"),
            "way": way,
            "kind": kind,
            "bytes": len(raw),
            "sha256": hashlib.sha256(raw).hexdigest(),
            **({"outcome": outcome} if outcome else {}),
            **more,
        }
        data, made = seal(line, self._head.seal)
        try:
            whole = self._room()
            try:
                with open_file(self._path, "ab") as file:
                    write_all(file, data)
                    os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):  # half a line would make all that follow look like a change
                    self._cut(whole)
                raise
        except OSError as error:
            raise storage_error(self._path, error) from error
        self._turns, self._turns_hash = Counter(), hashlib.sha256()
        self._head = self._head.after(line, made)
        self._head.write(self._folder, self._signer)  # after the line: a head that is ahead would look like a cut

    def _room(self) -> int:
        """How long the file is that the next line goes to: a new one, where the last is long enough."""
        size = self._path.stat().st_size if self._path.exists() else 0
        if size < self._most_bytes:
            return size
        older = _older(self._folder)
        self._path.rename(self._folder / f"audit.{_place(older[-1]) + 1 if older else 1}.jsonl")
        sync_folder(self._folder)
        return 0

    def _cut(self, size: int) -> None:
        if self._path.exists() and self._path.stat().st_size > size:
            with self._path.open("r+b") as file:
                file.truncate(size)


def read_audit(folder: Path, most: int | None = None) -> list[dict[str, Any]]:
    """The last ``most`` lines of the log, after all of it was checked: a UserError names what is not as it was."""
    head = Head.read(folder)  # before the lines: it may be behind them, but never ahead
    rows = _read(folder, most, head)
    if head is None and (rows or _begun(folder)):
        raise UserError(
            f"{folder / HEAD} is missing, so nobody can say whether the last lines of {FILE} are there: it was "
            "removed, or an older version wrote the log. The next join makes one, and notes that in the log."
        )
    return rows


def _read(folder: Path, most: int | None = None, head: Head | None = None) -> list[dict[str, Any]]:
    while True:
        older = _older(folder)
        try:
            return _checked(folder, older, most, head)
        except UserError:
            if _older(folder) == older:  # else a new file was begun while we read
                raise


def _checked(folder: Path, older: list[Path], most: int | None, head: Head | None) -> list[dict[str, Any]]:
    """The rows of all files, each of which must follow the one before, up to the head at least."""
    rows: deque[dict[str, Any]] = deque(maxlen=most)
    lines, last, sealed = 0, FIRST, head is None
    for number, path in enumerate((*older, folder / FILE), 1):
        if path.name != FILE and _place(path) != number:
            raise UserError(f"{folder / f'audit.{number}.jsonl'} is missing: it is a part of this site's log.")
        data = read_bytes(path) or b""
        found = read_chain(data, last)
        if found.damage is not None:
            raise UserError(f"{path} was changed: {found.damage}.")
        if path.name != FILE and found.ends[-1][0] != len(data):
            raise UserError(f"{path} was changed: its end is torn, but other lines follow.")
        if head is not None and 0 <= head.lines - lines < len(found.ends):
            sealed = found.ends[head.lines - lines][1] == head.seal
        rows.extend(found.rows)
        lines, last = lines + len(found.rows), found.ends[-1][1]
    if head is not None and not sealed:
        missing = head.lines - lines
        told = f"{missing} lines at its end are missing" if missing > 0 else f"its end is not the one in {HEAD}"
        raise UserError(f"{folder / FILE} was changed: {told}.")
    return list(rows)


def _from_head(last: SealedLines, older: list[Path], head: Head | None) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows and seals of the last file, and of those before it back to the one where the head is.

    A disk that is full for lines and more lines has no room for a head, and a new file may begin meanwhile.
    """
    rows, seals, found = last.rows, [made for _, made in last.ends], last
    left = list(older)
    while left and head is not None and head.seal not in seals and found.damage is None:
        found = read_chain(read_bytes(left.pop()) or b"", _last_seal(left[-1]) if left else FIRST)
        rows, seals = [*found.rows, *rows], [*(made for _, made in found.ends[:-1]), *seals]
    return rows, seals


def _begun(folder: Path) -> bool:
    """Whether the site has taken a message: then there is a log, if nobody removed it."""
    return (folder / SEEN).exists()


def _older(folder: Path) -> list[Path]:
    """The files of the log that are full, the oldest first."""
    return sorted((path for path in list_folder(folder) if _OLDER.fullmatch(path.name)), key=_place)


def _place(path: Path) -> int:
    found = _OLDER.fullmatch(path.name)
    assert found is not None
    return int(found[1])


def _last_seal(path: Path) -> str:
    """What the last line of a file says that its seal is; whoever reads the log checks it."""
    try:
        return str(json.loads((read_bytes(path) or b"").splitlines()[-1])["seal"])
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return ""
