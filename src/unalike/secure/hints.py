"""A table that gives back a value for every key that is in it, and noise for any other: nobody sees which are.

Every key has three places, one in each third of the table, and its value is the XOR of what is there (an
"oblivious key-value store", as in Garimella et al., Crypto 2021). What no key needs is random. With values that
look random, the table tells how many keys it has at most, and nothing of which they are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
"""Keys or values of 16 bytes: two words each."""
_ROOM, _MORE = 0.44, 24
_MOST_SALTS = 256


def third(count: int) -> int:
    """How long each third of a table of so many keys is."""
    return int(_ROOM * count) + _MORE


def make(keys: Words, values: Words, fill: Callable[[int], bytes]) -> tuple[int, Words]:
    """A salt for places, and the table; ``fill`` gives random bytes. Keys are all different."""
    length = third(len(keys))
    table = np.frombuffer(fill(48 * length), "<u8").astype(np.uint64).reshape(3 * length, 2)
    for salt in range(_MOST_SALTS):
        places = _places(keys, salt, length)
        order = _peeled(places, 3 * length)
        if order is not None:
            for chosen, at in reversed(order):
                rest = table[places[chosen]]
                table[at] = values[chosen] ^ rest[:, 0] ^ rest[:, 1] ^ rest[:, 2] ^ table[at]
            return salt, table
    raise ValueError("two keys are the same")


def look_up(keys: Words, salt: int, table: Words) -> Words:
    """The value of every key that is in the table; for others, noise."""
    found = table[_places(keys, salt, len(table) // 3)]
    value: Words = found[:, 0] ^ found[:, 1] ^ found[:, 2]
    return value


def _places(keys: Words, salt: int, length: int) -> NDArray[np.int64]:
    """The three places of every key; keys are random themselves, so a little mixing is enough."""
    each = []
    with np.errstate(over="ignore"):
        for part in range(3):
            word = keys[:, 0] + keys[:, 1] * np.uint64(2 * (3 * salt + part) + 1)
            word = (word ^ (word >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
            word = (word ^ (word >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            each.append(part * length + ((word >> np.uint64(32)) % np.uint64(length)).astype(np.int64))
    return np.stack(each, axis=1)


def _peeled(places: NDArray[np.int64], size: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]] | None:
    """Keys in turns, each with a place that no key of a later turn has; None where some keys block each other."""
    degree = np.bincount(places.ravel(), minlength=size)
    who = np.zeros(size, np.int64)  # the sum of the keys at a place: of one alone, that key
    np.add.at(who, places.ravel(), np.repeat(np.arange(len(places)), 3))
    order, left = [], len(places)
    while left:
        at = np.flatnonzero(degree == 1)
        chosen, first = np.unique(who[at], return_index=True)
        if not len(chosen):
            return None
        order.append((chosen, at[first]))
        gone = places[chosen].ravel()
        np.subtract.at(degree, gone, 1)
        np.subtract.at(who, gone, np.repeat(chosen, 3))
        left -= len(chosen)
    return order
