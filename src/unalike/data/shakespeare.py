"""Shakespeare's plays: the next character of a role's speech, one role one party."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from unalike.data.dataset import Array, Dataset, register_dataset
from unalike.data.folder import find
from unalike.errors import UserError

# LEAF's 80 characters in LEAF's order; any other character becomes a blank.
CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
BLANK = CHARACTERS.index(" ")
_NUMBER_OF = np.full(128, BLANK, np.uint8)
_NUMBER_OF[[ord(character) for character in CHARACTERS]] = np.arange(len(CHARACTERS))

_ROLES = "shakespeare_by_role.json"
_LEAF = ("shakespeare/data/", "shakespeare/", "leaf/data/shakespeare/data/")
HOW = "Make LEAF's shakespeare data (its preprocess script) and put its data folder there as shakespeare/data."
Windows = tuple[Array, Array]  # rows of characters, and the character after each


@register_dataset("shakespeare", paper="McMahan et al. 2017, arXiv:1602.05629; LEAF, arXiv:1812.01097")
class Shakespeare:
    """The next of 80 characters after 80 characters of a role's speeches; roles of 37 plays are natural parties.

    Reads ``shakespeare_by_role.json`` (an object: ``"play|role"`` to the list of its speeches, which are joined by
    blanks), else LEAF's own files (``train`` and ``test`` folders, or ``all_data``). A row is ``length``
    characters and its label the next one. LEAF takes a row at every character, which makes 4 million rows of the
    plays; ``stride=10`` takes every tenth of them, ``stride=1`` is LEAF's. Roles with fewer than ``minimum`` rows
    are left out.

    As in LEAF, the split is in time: the first 80% of each role's rows are for training, the test rows follow,
    beginning with the first that shares no character but the last label with the training rows. ``features``
    holds the vocabulary, ``features[id]`` is the character.
    """

    model: ClassVar[str] = "token-mlp(words=82, width=8, hidden=128)"

    length: int = 80
    stride: int = 10
    minimum: int = 10

    def __post_init__(self) -> None:
        for name, least in (("length", 1), ("stride", 1), ("minimum", 2)):
            if getattr(self, name) < least:
                raise UserError(
                    f"shakespeare's {name} must be >= {least}, got {getattr(self, name)}. Use {least}."
                )

    def fingerprint(self) -> str:
        """The SHA-256 of the file or files that are read."""
        digest = hashlib.sha256()
        for path in _files():
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def load(self) -> Dataset:
        """Read the roles from the data folder."""
        files = _files()
        if files[0].name == _ROLES:
            parts = {role: self._windows(text) for role, text in _speeches(files[0]).items()}
            roles = {role: self._split(*windows) for role, windows in parts.items()}
        else:
            roles = self._leaf(files)
        roles = {k: v for k, v in roles.items() if len(v[0][1]) and len(v[0][1]) + len(v[1][1]) >= self.minimum}
        if not roles:
            raise UserError(f"shakespeare has no role with {self.minimum} rows. Lower minimum or stride.")
        train, test = [v[0] for v in roles.values()], [v[1] for v in roles.values()]
        return Dataset(
            name="shakespeare",
            x=np.concatenate([x for x, _ in train]),
            y=np.concatenate([y for _, y in train]).astype(np.int64),
            x_test=np.concatenate([x for x, _ in test]),
            y_test=np.concatenate([y for _, y in test]).astype(np.int64),
            classes=tuple(CHARACTERS),
            features=tuple(CHARACTERS),
            group=np.repeat(np.arange(len(roles)), [len(y) for _, y in train]),
            group_names=tuple(roles),
            group_test=np.repeat(np.arange(len(roles)), [len(y) for _, y in test]),
            kind="tokens",
        )

    def _windows(self, text: str) -> Windows:
        """Every ``stride``-th window of the text, and the character after it."""
        codes = encode(text)
        if len(codes) <= self.length:
            return np.zeros((0, self.length), np.uint8), np.zeros(0, np.uint8)
        windows = np.lib.stride_tricks.sliding_window_view(codes, self.length + 1)[:: self.stride]
        return windows[:, :-1], windows[:, -1]

    def _split(self, x: Array, y: Array) -> tuple[Windows, Windows]:
        """The first 80% of the rows; and the rest from the first row that begins after the last training input."""
        cut = int(0.8 * len(y))
        first = cut - 1 + -(-self.length // self.stride)  # the last training row, and `length` characters on
        return (x[:cut], y[:cut]), (x[first:], y[first:])

    def _leaf(self, files: list[Path]) -> dict[str, tuple[Windows, Windows]]:
        """The rows of LEAF's own files; every ``stride``-th of them."""
        parts: dict[str, dict[str, Windows]] = {}
        for path in files:
            for user, (x, y) in _users(path, self.length).items():
                part = parts.setdefault(path.parent.name, {})
                if user in part:
                    raise UserError(f"{path} has {user!r} a second time. Make the LEAF files again.")
                part[user] = x[:: self.stride], y[:: self.stride]
        if "all_data" in parts:
            return {user: self._split(*rows) for user, rows in parts["all_data"].items()}
        nothing = np.zeros((0, self.length), np.uint8), np.zeros(0, np.uint8)
        return {user: (rows, parts["test"].get(user, nothing)) for user, rows in parts["train"].items()}


def encode(text: str) -> Array:
    """The number of every character (uint8); those that are not among the 80 become blanks."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return np.where(codes < 128, _NUMBER_OF[np.minimum(codes, 127)], np.uint8(BLANK))


def _files() -> list[Path]:
    """The one file of roles; or all of LEAF's, train and test or all_data."""
    places = [f"{folder}{part}" for part in ("train", "all_data") for folder in _LEAF]
    found = find("shakespeare", [_ROLES, f"shakespeare/{_ROLES}", *places], HOW)
    if found.name == _ROLES:
        return [found]
    folders = [found] if found.name == "all_data" else [found, found.with_name("test")]
    files = [sorted(folder.glob("*.json")) for folder in folders]
    for folder, inside in zip(folders, files, strict=True):
        if not inside:
            raise UserError(f"{folder} has no .json file. {HOW}")
    return [path for inside in files for path in inside]


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"Cannot read {path}: {error}. Make or download it again.") from None


def _speeches(path: Path) -> dict[str, str]:
    """The text of every role, runs of blanks made one."""
    table = _json(path)
    if not (isinstance(table, dict) and table):
        raise UserError(f"{path} must be an object of roles, each a list of speeches. Download it again.")
    for role, speeches in table.items():
        if not (isinstance(speeches, list) and all(isinstance(speech, str) for speech in speeches)):
            raise UserError(f"{path}: the role {role!r} is not a list of speeches. Download it again.")
    return {role: re.sub(r"\s+", " ", " ".join(speeches)).strip() for role, speeches in table.items()}


def _users(path: Path, length: int) -> dict[str, Windows]:
    """The rows of every user of one LEAF file."""
    table = _json(path)
    data = table.get("user_data") if isinstance(table, dict) else None
    if not isinstance(data, dict):
        raise UserError(f"{path} has no user_data. Is it LEAF's shakespeare?")
    users = {}
    for user, rows in data.items():
        x, y = (rows.get("x"), rows.get("y")) if isinstance(rows, dict) else (None, None)
        if not (isinstance(x, list) and isinstance(y, list) and len(x) == len(y)):
            raise UserError(f"{path}: {user!r} does not have as many x as y. Make the LEAF files again.")
        if not all(isinstance(text, str) and len(text) == length for text in x):
            raise UserError(
                f"{path}: a row of {user!r} is not {length} characters. Set length to that of the file."
            )
        if not all(isinstance(text, str) and len(text) == 1 for text in y):
            raise UserError(f"{path}: a label of {user!r} is not one character. Make the LEAF files again.")
        users[user] = encode("".join(x)).reshape(-1, length), encode("".join(y))
    return users
