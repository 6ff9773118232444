"""Tags that tell the parties whether the sum they got is that of the vectors they sent.

The server holds the public key, so it can encrypt a sum of its own making, or return one party's ciphertext. What
it does not hold is the secret key, which all parties have from the dealer. From it and the policy they derive, for
each of ``TAGS`` tags, a factor for every entry and a pad for every party, all uniform modulo t. A party's tag is
its pad plus its entries times the factors; it travels in extra entries, masked and encrypted like the others. So
the tag of a sum is the sum of tags: the receivers take away the pads of exactly the parties that are said to be in
it, and what is left must be the sum's entries times the factors. A server without the key that changes an entry,
adds a vector twice, leaves one out or replays one passes with the probability t^-TAGS, about 2^-72.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unalike.secure.crypto import masks
from unalike.secure.crypto.bfv import MODULUS
from unalike.secure.crypto.masks import Vector
from unalike.secure.crypto.primitives import derive
from unalike.secure.errors import ProtocolError
from unalike.secure.policy import TAGS, Policy


def tag_key(policy: Policy, shared: bytes) -> bytes:
    """The key of one sum's tags, from what the dealer gave to all parties and to nobody else."""
    return derive(shared, b"unalike tags" + policy.digest)


def extended(policy: Policy, key: bytes, party: int, vector: Vector) -> Vector:
    """A party's vector with its tags at the end."""
    return np.concatenate([vector, (_products(policy, key, vector) + _pads(policy, key)[party]) % MODULUS])


def checked(policy: Policy, key: bytes, survivors: Sequence[int], total: Vector) -> Vector:
    """The sum without its tags, which must be those of the survivors' vectors."""
    entries, found = total[: policy.length], total[policy.length :]
    pads = _pads(policy, key)[list(survivors)].sum(axis=0)
    if ((_products(policy, key, entries) + pads - found) % MODULUS).any():
        raise ProtocolError(
            None, "or the server spoilt the sum: its tags are not those of the vectors that should be in it."
        )
    return entries


def _products(policy: Policy, key: bytes, vector: Vector) -> Vector:
    factors = masks.expand(derive(key, b"factors"), TAGS * policy.length, MODULUS).reshape(TAGS, policy.length)
    products: Vector = (factors * (vector % MODULUS) % MODULUS).sum(axis=1) % MODULUS
    return products


def _pads(policy: Policy, key: bytes) -> Vector:
    return masks.expand(derive(key, b"pads"), TAGS * policy.parties, MODULUS).reshape(policy.parties, TAGS)
