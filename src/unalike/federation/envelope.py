"""Messages between the server and a site: a JSON header, one packed body, an Ed25519 signature.

Layout: magic, length of the header (big-endian), header, body, signature over all of it, the body by its SHA-256.
Arrays lie in the body one after the other, little-endian; the header says which. Whoever reads one trusts nothing:
sizes, names, shapes, finiteness and the signature are checked before anything is used.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from unalike.algorithms.contract import Vectors
from unalike.errors import UserError
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.primitives import SIGNATURE_BYTES, sign, verify

SERVER = "server"
ANYBODY = "anybody"
"""The receiver of a hello, which asks who is there."""
MOST_BYTES = 2**28
"""No message is larger, whatever a federation allows."""
MOST_HEADER = 2**22
_MAGIC = b"UNF2"
_SIZE = struct.Struct(">I")
_TYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
    "int64": np.dtype("<i8"),
}


class Refused(UserError):
    """A message that is not accepted; the text says why in one line."""


@dataclass(frozen=True, eq=False)
class Envelope:
    """What one side tells the other: ``header`` has at least kind, sender, receiver and number."""

    header: dict[str, Any]
    body: bytes = b""

    @property
    def kind(self) -> str:
        """What the message is about, such as an exchange or an error."""
        return str(self.header["kind"])

    @property
    def sender(self) -> str:
        """The name of the side that signed the message."""
        return str(self.header["sender"])

    @property
    def number(self) -> list[int]:
        """Which start of the server this is of, and which of its messages: numbers that only grow."""
        number = self.header.get("number")
        whole = isinstance(number, list) and all(type(n) is int and 0 <= n < 2**53 for n in number)
        if not isinstance(number, list) or not whole or len(number) != 2:
            raise Refused("it has no number")
        return number

    def vectors(self) -> Vectors:
        """The arrays in the body, finite and whole."""
        return unpack(self.header.get("arrays"), self.body)


def write(message: Envelope, signer: bytes) -> bytes:
    """The bytes of a message, signed."""
    try:
        header = json.dumps(message.header, sort_keys=True, allow_nan=False).encode()
    except ValueError:
        raise Refused("its figures are not finite: the training diverged. Lower the learning rate") from None
    head = b"".join([_MAGIC, _SIZE.pack(len(header)), header])
    size = len(head) + len(message.body) + SIGNATURE_BYTES
    if len(header) > MOST_HEADER or size > MOST_BYTES:
        raise Refused(f"a message of {size:,} bytes is too large; {MOST_BYTES:,} are allowed")
    return b"".join([head, message.body, sign(signer, _signed(head, message.body))])


def read(raw: bytes, publics: Mapping[str, bytes], receiver: str, most: int = MOST_BYTES) -> Envelope:
    """The message in ``raw``, if somebody in ``publics`` signed it and it is for ``receiver``."""
    message = peek(raw, most)
    public = publics.get(message.sender)
    if public is None:
        raise Refused(f"nobody here is called {message.sender[:60]!r}")
    try:
        head = raw[: len(raw) - SIGNATURE_BYTES - len(message.body)]
        verify(public, raw[-SIGNATURE_BYTES:], _signed(head, message.body))
    except CryptoError:
        raise Refused(f"the signature is not that of {message.sender}") from None
    meant = ANYBODY if message.kind == "hello" else receiver
    if message.header.get("receiver") != meant:
        raise Refused(f"it is for {str(message.header.get('receiver'))[:60]!r}, not for {receiver}")
    return message


def _signed(head: bytes, body: bytes) -> bytes:
    """What is signed of a message: Ed25519 alone would read a large body twice, and with a slower hash."""
    return head + hashlib.sha256(body).digest()


def peek(raw: bytes, most: int = MOST_BYTES) -> Envelope:
    """The message in ``raw`` as it says of itself: nothing is proven yet."""
    if len(raw) > min(most, MOST_BYTES):
        raise Refused(f"it has {len(raw):,} bytes; {min(most, MOST_BYTES):,} are allowed")
    start = len(_MAGIC) + _SIZE.size
    if len(raw) < start + SIGNATURE_BYTES or raw[: len(_MAGIC)] != _MAGIC:
        raise Refused("it is not a message of unalike")
    (size,) = _SIZE.unpack_from(raw, len(_MAGIC))
    if size > MOST_HEADER or start + size > len(raw) - SIGNATURE_BYTES:
        raise Refused("its header is cut short")
    try:
        header = json.loads(raw[start : start + size])
    except (ValueError, RecursionError):
        raise Refused("its header is not JSON") from None
    if not isinstance(header, dict) or not all(isinstance(header.get(k), str) for k in ("kind", "sender")):
        raise Refused("its header has no kind or no sender")
    return Envelope(header, raw[start + size : -SIGNATURE_BYTES])


def pack(vectors: Vectors) -> tuple[list[list[Any]], bytes]:
    """What the header says of the arrays, and the body that holds them."""
    listed, parts = [], []
    for name, value in sorted(vectors.items()):
        array = value.detach().cpu().contiguous().numpy()
        kind = array.dtype.name
        if kind not in _TYPES:
            raise Refused(f"{name} is of type {kind}; only {', '.join(_TYPES)} travel")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Refused(f"{name} is not finite: the training diverged. Lower the learning rate")
        listed.append([name, kind, list(array.shape)])
        parts.append(array.astype(_TYPES[kind], copy=False).tobytes())
    return listed, b"".join(parts)


def unpack(listed: Any, body: bytes) -> Vectors:
    """The arrays that :func:`pack` packed, or Refused."""
    made: Vectors = {}
    at = 0
    try:
        for name, kind, shape in listed:
            count = _count(shape)
            size = count * _TYPES[kind].itemsize
            if not isinstance(name, str) or name in made or at + size > len(body):
                raise Refused("its arrays do not fit its body")
            array = np.frombuffer(body, _TYPES[kind], count, at).reshape(shape)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise Refused(f"{name[:60]!r} is not finite")
            made[name] = torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=True))
            at += size
    except (TypeError, KeyError, ValueError):
        raise Refused("its list of arrays is malformed") from None
    if at != len(body):
        raise Refused("its arrays do not fit its body")
    return made


def shown(text: object, most: int = 300) -> str:
    """What somebody else wrote, for a log or a terminal: one line, nothing that moves the cursor, not too long."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(str(text).split()))[:most]


def _count(shape: Any) -> int:
    if not isinstance(shape, list) or len(shape) > 8:
        raise ValueError(shape)
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MOST_BYTES for n in shape):
        raise ValueError(shape)
    return math.prod(shape)
