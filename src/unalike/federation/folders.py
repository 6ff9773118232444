"""What lies where: the server's folder and a site's."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unalike.data.schema import Schema
from unalike.data.sites import read_schema
from unalike.errors import UserError
from unalike.federation.plan import Plan, is_name
from unalike.runs.files import atomic_write, open_file, private_folder, storage_error, write_all
from unalike.secure.crypto.primitives import new_secret, signing_public

MEASURE, TRAIN, MATCH, PREDICT = "measure", "train", "match", "predict"
JOBS = {
    TRAIN: ("training", "run"),
    MEASURE: ("measuring", "measure"),
    MATCH: ("matching", "match"),
    PREDICT: ("predicting", "predict"),
}
"""What a server can be asked to do: in words, and the command for it."""
PUBLIC = ".public.json"
"""How the file ends in which a site tells its public keys."""
LOG, _STATUS = "log.txt", "status.json"
MOST_LOG = 16 * 2**20
"""Bytes of the server's log from which on it is put aside as log.1.txt, in place of the one there."""
_PUTTING_ASIDE = threading.Lock()
SERVE_LOCK, JOIN_LOCK = ".serve.lock", ".join.lock"
"""Held by the process that serves a server's folder, and by the one that answers for a site's."""
CONNECTION = "connection.json"
"""At a site that has joined: how its connection to the server is."""
AT_DOOR = "behind its door"
"""The connection of a site that Flower's node brings messages to."""
AGREED = "agreed.json"
"""At a site: the schema and the others' keys that it agreed to."""
SEEN = "seen.json"
"""At a site: the number of the last message that it took."""


@dataclass
class ServerFolder:
    """The server's side of a federation."""

    path: Path
    models: dict[str, str] = field(default_factory=dict)
    """what model each site makes of the plan"""

    @property
    def run(self) -> Path:
        """The record of the training."""
        return self.path / "run"

    @property
    def parties(self) -> Path:
        """Public keys of the sites that were admitted."""
        return self.path / "parties"

    def signer(self) -> bytes:
        """The server's own secret key."""
        return read_key(self.path / "keys" / "server.key")

    def roster(self, plan: Plan) -> dict[str, bytes]:
        """The parties' public keys; all must have been admitted."""
        roster = {}
        for party in plan.parties:
            path = self.parties / f"{party}{PUBLIC}"
            if not path.exists():
                raise UserError(
                    f"{party} is not admitted yet. Use: unalike federation admit {self.path} {party}{PUBLIC}"
                )
            card = Card.read(path)
            if card.name != party:
                raise UserError(f"{path} is the card of {card.name}, not of {party}. Admit {party} again.")
            roster[party] = bytes.fromhex(card.sign)
        if len(set(roster.values())) < len(roster):
            raise UserError("Two parties have the same key: each must join with a folder of its own.")
        return roster

    def next_incarnation(self) -> int:
        """How many times the server has been started, this one included; kept before anything is sent."""
        path = self.path / "incarnation"
        try:
            last = int(path.read_text())
        except FileNotFoundError:
            last = 0
        except (OSError, ValueError) as error:
            raise UserError(f"Cannot read {path}: {error}. Sites refuse numbers that they have seen.") from None
        atomic_write(path, str(last + 1).encode())
        return last + 1

    def schema(self) -> Schema | None:
        """The schema that was agreed on, if there is one."""
        path = self.path / "schema.json"
        return read_schema(path) if path.exists() else None

    def keep_schema(self, schema: Schema) -> None:
        """Store the agreed schema, so that a restarted server goes on with the same one."""
        atomic_write(self.path / "schema.json", json.dumps(schema.to_dict(), indent=1).encode())

    def rows(self) -> dict[str, int]:
        """By party, how many training rows it said that it has; empty before all agreed."""
        return read_object(self.path / "rows.json")

    def keep_rows(self, rows: dict[str, int]) -> None:
        """Store how many rows each party has, so that a restarted server goes on with the same numbers."""
        atomic_write(self.path / "rows.json", json.dumps(rows).encode())

    def tell(self, what: str, **more: Any) -> None:
        """What is going on, for ``status``; ``more`` says it to programs."""
        atomic_write(self.path / _STATUS, json.dumps({"time": now(), "state": what, **more}).encode())

    def waits(self, parties: Sequence[str]) -> None:
        """Add to what is going on for whom a paused training waits."""
        atomic_write(self.path / _STATUS, json.dumps({**self.status(), "waiting": list(parties)}).encode())

    def status(self) -> dict[str, Any]:
        """What was told last: ``state`` in words, and perhaps the ``round`` and who is ``waiting``."""
        return read_object(self.path / _STATUS)

    def say(self, line: str) -> None:
        """One line for the log that ``run`` and ``status`` show; a long one is put aside, and a new one begun."""
        path = self.path / LOG
        try:
            with _PUTTING_ASIDE:
                if path.exists() and path.stat().st_size >= MOST_LOG:
                    path.replace(path.with_name("log.1.txt"))
            with open_file(path, "ab") as file:
                write_all(file, f"{now()} {line}\n".encode(errors="replace"))
        except OSError as error:
            raise storage_error(path, error) from error

    def begin_round(self, number: int) -> int:
        """Note that a round begins, before anything of it is sent; how many rounds were begun again so far."""
        path = self.path / "begun.json"
        known = read_object(path)
        last, again = int(known.get("round", 0)), int(known.get("again", 0))
        now = {"round": max(last, number), "again": again + (number <= last)}
        atomic_write(path, json.dumps(now).encode())
        return now["again"]

    def unmasking(self) -> dict[str, list[str]]:
        """Of each exchange whose sum began to be unmasked, who is in it."""
        path = self.path / "unmasking.json"
        return read_object(path) if path.exists() else {}

    def keep_unmasking(self, known: dict[str, list[str]]) -> None:
        """Store who is in each sum, so that a restarted server asks for the same sums: sites refuse others."""
        atomic_write(self.path / "unmasking.json", json.dumps(known).encode())

    def heard(self, roster: Mapping[str, bytes]) -> dict[str, list[int]]:
        """By party, the number of the last message that it answered; a party with a new key begins anew."""
        known = read_object(self.path / "heard.json")
        return {party: known[key.hex()] for party, key in roster.items() if key.hex() in known}

    def keep_heard(self, heard: Mapping[str, list[int]], roster: Mapping[str, bytes]) -> None:
        """Store it, so that a restarted server notices sites that went back to an old backup, too."""
        known = {roster[party].hex(): number for party, number in heard.items()}
        atomic_write(self.path / "heard.json", json.dumps(known).encode())

    def job(self) -> str:
        """What the server is to do: train, unless it was told to measure."""
        path = self.path / "job"
        return path.read_text(encoding="utf-8").strip() if path.exists() else TRAIN

    def set_job(self, job: str) -> None:
        """Say what the server is to do the next time it is started."""
        atomic_write(self.path / "job", job.encode())

    def stop_asked(self) -> bool:
        """Whether somebody has called ``unalike federation stop``."""
        return (self.path / "stop").exists()


@dataclass(frozen=True)
class Card:
    """What a site tells the server before it is admitted: its public keys."""

    name: str
    sign: str
    """Ed25519, hexadecimal digits"""
    node: str = ""
    """the certificate that it connects with, PEM"""

    @classmethod
    def read(cls, path: Path) -> Card:
        """The card in a file."""
        try:
            values: Any = json.loads(path.read_text(encoding="utf-8"))
            card = cls(str(values["name"]), str(values["sign"]), str(values.get("node", "")))
            if len(bytes.fromhex(card.sign)) != 32:
                raise ValueError("the signing key must have 32 bytes")
            if not is_name(card.name):
                raise ValueError(f"{card.name[:60]!r} cannot be a name")
        except FileNotFoundError:
            raise UserError(f"There is no file {path}. A site makes one when it joins.") from None
        except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise UserError(
                f"{path} does not hold a site's public keys: {error}. Use the file that its first join made."
            ) from None
        return card

    def write(self, path: Path) -> None:
        """Write it to a file."""
        atomic_write(path, json.dumps(asdict(self), indent=1).encode())

    @property
    def fingerprint(self) -> str:
        """A short form of the signing key to compare by telephone."""
        return " ".join(self.sign[i : i + 4] for i in range(0, 24, 4))


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a small file that says how things stand; empty where there is none to be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def make_key(path: Path) -> bytes:
    """A new secret key in a file that only its owner can read, unless there is one; the public key."""
    if not path.exists():
        private_folder(path.parent)
        atomic_write(path, new_secret().hex().encode(), private=True)
    return signing_public(read_key(path))


def read_key(path: Path) -> bytes:
    """The secret key in a file."""
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except FileNotFoundError:
        raise UserError(f"There is no key {path}. It is made by: unalike federation init, or join.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"Cannot read the key {path}: {error}.") from None
    if len(key) != 32:
        raise UserError(f"{path} does not hold a key of 32 bytes.")
    return key


def now() -> str:
    """The time, as logs and small files have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
