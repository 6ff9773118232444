"""What of a growing model is new: a site that has tried the model of a round needs only what came since."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from unalike.algorithms.protocol import Arrays
from unalike.federation.contents import whole_number
from unalike.federation.envelope import Refused
from unalike.federation.mail import pack_mail


def arrays_digest(arrays: Arrays) -> str:
    """SHA-256 of names, types, shapes and numbers of all arrays."""
    listed, body = pack_mail({0: arrays})
    return sha256(repr(listed).encode() + sha256(body).digest()).hexdigest()


def changes(before: Arrays, now: Arrays) -> tuple[Arrays, dict[str, int]]:
    """The rows of arrays that are others than before, from the first of them to the last, and where they begin.

    An array without a place is there as a whole; one that is the same is left out.
    """
    found: Arrays = {}
    places: dict[str, int] = {}
    for name, array in now.items():
        old = before.get(name)
        if old is None or (old.dtype, old.shape) != (array.dtype, array.shape) or not array.size or not array.ndim:
            found[name] = array
            continue
        other = np.flatnonzero((_bytes(old) != _bytes(array)).any(axis=1))
        if len(other):
            places[name] = int(other[0])
            found[name] = array[other[0] : other[-1] + 1]
    return found, places


def changed(before: Arrays, found: Arrays, places: Any) -> Arrays:
    """The model of now, from the one before and what :func:`changes` gave; Refused where the two do not fit."""
    if not isinstance(places, Mapping) or not places.keys() <= found.keys():
        raise Refused("it does not say where the rows of its model begin")
    made = {**before, **{name: array for name, array in found.items() if name not in places}}
    for name in places:
        at, rows, old = whole_number(dict(places), name), found[name], before.get(name)
        if old is None or old.dtype != rows.dtype or old.ndim != rows.ndim or old.shape[1:] != rows.shape[1:]:
            raise Refused("the rows of its model do not fit those that this site has")
        if at + len(rows) > len(old):
            raise Refused("its model has rows beyond its end")
        made[name] = old.copy()
        made[name][at : at + len(rows)] = rows
    return made


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array as bytes by row: a NaN is the same as itself."""
    return np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8)
