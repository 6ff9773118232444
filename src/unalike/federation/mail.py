"""Mail of a protocol as bytes: a list of names, types and shapes by role, and the arrays one after the other.

There is one form for each mail, in ascending order of roles and names, so that a hash of the bytes is one of the
mail. Whoever reads it trusts nothing: what is not in that form is refused before any of it is used. What numbers
may be, NaN among them, is for the protocol to say.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from unalike.algorithms.protocol import TYPES, Arrays
from unalike.federation.envelope import MOST_BYTES, Refused, shown

Listed = list[list[Any]]
"""For each role, its number and of each of its arrays the name, type and shape."""
MOST_ARRAYS = 256
"""Arrays that one mail may have."""
_NAME = re.compile(r"[a-z][a-z0-9_ /-]{0,39}")
_KINDS = {name: np.dtype(name).newbyteorder("<") for name in TYPES}


def pack_mail(mail: Mapping[int, Arrays]) -> tuple[Listed, bytes]:
    """The list of what is in the mail, by role, and the bytes of its arrays."""
    listed: Listed = []
    parts: list[bytes] = []
    for role, arrays in sorted(mail.items()):
        own = []
        for name, array in sorted(arrays.items()):
            kind = array.dtype.name
            if kind not in _KINDS or not _NAME.fullmatch(name):
                raise Refused(f"{shown(name, 40)!r} of type {kind} cannot be mailed; types are {', '.join(TYPES)}")
            own.append([name, kind, list(array.shape)])
            parts.append(array.astype(_KINDS[kind], order="C", copy=False).tobytes())
        listed.append([role, own])
    return listed, b"".join(parts)


def unpack_mail(listed: Any, body: bytes, roles: Collection[int]) -> dict[int, Arrays]:
    """The mail that :func:`pack_mail` packed, of or for these roles and no others; or Refused."""
    mail, rest = unpack_first(listed, body, roles)
    if rest:
        raise Refused("its mail does not fit its body")
    return mail


def unpack_first(listed: Any, body: bytes, roles: Collection[int]) -> tuple[dict[int, Arrays], bytes]:
    """The same of a body that goes on after the mail, and what follows there."""
    mail: dict[int, Arrays] = {}
    at = count = 0
    try:
        for role, own in _list(listed):
            if type(role) is not int or role not in roles or role <= max(mail, default=-(2**31)):
                raise Refused(
                    f"its mail is of or for {shown(role, 20)}, who is none that it can be, or comes late"
                )
            arrays: Arrays = {}
            for name, kind, shape in _list(own):
                count += 1
                if not _NAME.fullmatch(name) or name <= max(arrays, default="") or count > MOST_ARRAYS:
                    raise Refused("the names in its mail are none, too many, or not in order")
                arrays[name], at = _array(kind, shape, body, at)
            mail[role] = arrays
    except (TypeError, KeyError, ValueError):
        raise Refused("its list of mail is malformed") from None
    return mail, body[at:]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(one, list) for one in value):
        raise TypeError(value)
    return value


def _array(kind: Any, shape: Any, body: bytes, at: int) -> tuple[np.ndarray[Any, Any], int]:
    """The array at a place in the body, and where the next one begins."""
    if not isinstance(shape, list) or len(shape) > 4:
        raise ValueError(shape)
    if not all(type(n) is int and 0 <= n <= MOST_BYTES for n in shape):
        raise ValueError(shape)
    number = math.prod(shape)
    end = at + number * _KINDS[kind].itemsize
    if end > len(body):
        raise Refused("its mail does not fit its body")
    array = np.frombuffer(body, _KINDS[kind], number, at).reshape(shape)
    return array.astype(array.dtype.newbyteorder("="), copy=True), end


def mail_digest(round: int, turn: int, listed: Listed, body: bytes) -> bytes:
    """SHA-256 of the mail that a role gets in a turn."""
    asked = json.dumps([round, turn, listed], separators=(",", ":")).encode()
    return sha256(b"unalike turn" + sha256(asked).digest() + sha256(body).digest()).digest()


def after(told: bytes, question: bytes) -> bytes:
    """What a role has been told of a run, with one question more: its SHA-256."""
    return sha256(b"unalike told" + told + question).digest()
