"""Sums in one trip, for where all must answer: every two parties have masks that cancel, and nothing is opened.

Each party tells the others one X25519 key for many sums, signed with the Ed25519 key that they know it by. The
mask of two parties is a stream of their shared secret and of the terms of the sum (``Policy``): who is in it, how
long it is, and what was asked. The first of the two adds it, the second takes it away. All vectors together are
the exact sum; any fewer are uniform noise, and so are those of parties that were told different terms. A party
must never mask two different vectors under the same terms: their difference would show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from unalike.errors import UserError
from unalike.secure.carrier import MaskedWords, largest
from unalike.secure.crypto import masks
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.masks import Elements, Vector
from unalike.secure.crypto.primitives import (
    KEY_BYTES,
    agreement,
    agreement_public,
    check_public,
    derive,
    sign,
    verify,
)
from unalike.secure.errors import ProtocolError, TooFewParties
from unalike.secure.policy import Policy

CHECKS = 2
"""Words at the end of every vector that are zero, and zero in the sum too unless it is noise."""
_PURPOSE = b"pairwise"


def introduction(secret: bytes, signer: bytes, context: bytes) -> bytes:
    """What a party tells the others: its X25519 key, signed for one ``context``, such as the plan of a run."""
    public = agreement_public(secret)
    return public + sign(signer, _statement(public, context))


def introduced(raw: bytes, identity: bytes, context: bytes) -> bytes:
    """The X25519 key in an introduction, if the owner of ``identity`` signed it for this context.

    Keys of low order are refused: everybody would know the secret that is shared with them.
    """
    public = raw[:KEY_BYTES]
    verify(identity, raw[KEY_BYTES:], _statement(public, context))
    check_public(public)
    return public


def pair_key(secret: bytes, public: bytes, context: bytes) -> bytes:
    """The key that two parties share for all their sums in a context."""
    return derive(agreement(secret)(public), b"unalike pair key" + context)


def terms(session: bytes, identities: Sequence[bytes], length: int, question: bytes, bits: int = 64) -> Policy:
    """The terms of a sum of ``length`` entries modulo 2^bits: all parties stay, and at least three are in it.

    identities: Ed25519 keys of the parties in order, then the server's. question: all that decides what the
    parties compute, in any form. session: 16 bytes; other ones make other masks for the same question.
    """
    parties = len(identities) - 1
    return Policy(
        session=session,
        protect="masks",
        parties=parties,
        length=length,
        bound=2 ** (bits - 1) - 1,
        threshold=parties,
        identities=tuple(identities),
        bits=bits,
        question=sha256(question).digest(),
    )


def hide(policy: Policy, own: int, keys: Mapping[int, bytes], vector: Elements) -> bytes:
    """What party number ``own`` sends: its vector under its masks with all others, whose pair keys are given.

    Entries of an int64 vector must be within an even part of what the sum can hold; uint64 counts modulo 2^bits.
    """
    others = set(range(policy.parties)) - {own}
    if set(keys) != others:
        raise UserError(f"Party {own} needs a key with each of the other {len(others)} parties, got {len(keys)}.")
    if vector.dtype not in (np.int64, np.uint64) or vector.shape != (policy.length,):
        raise UserError(f"The vector must be {policy.length} int64 or uint64, got {vector.dtype} {vector.shape}.")
    if vector.dtype == np.int64 and largest(vector) > policy.most:
        raise UserError(f"Party {own}'s vector exceeds {policy.most}, its part of the sum. Scale values down.")
    words = np.concatenate([vector.astype(_dtype(policy)), np.zeros(CHECKS, _dtype(policy))])
    seeds = {party: masks.pair_seed(keys[party], _PURPOSE, policy.digest, own, party) for party in sorted(keys)}
    masks.add_pairwise(policy.ring, words, own, seeds)
    return words.tobytes()


def check_payload(policy: Policy, payload: bytes) -> None:
    """Refuse what cannot be a vector of this sum."""
    size = _dtype(policy).itemsize * (policy.length + CHECKS)
    if len(payload) != size:
        raise CryptoError(f"The vector must have {size} bytes, got {len(payload)}.")


def total(policy: Policy, payloads: Mapping[int, bytes]) -> Vector:
    """The sum of all parties' vectors; with one missing, or where masks do not cancel, it is an error."""
    missing = sorted(set(range(policy.parties)) - set(payloads))
    if missing or len(payloads) != policy.parties:
        raise TooFewParties(f"The vectors of parties {missing} are missing: without them the others' are noise.")
    carrier = MaskedWords(policy.length + CHECKS, masks.Words(policy.bits))
    found = carrier.unpack(carrier.total(payloads))
    if found[policy.length :].any():
        what = "is noise, as the masks do not cancel: some party was asked something else, or has other keys."
        raise ProtocolError(None, what, who="The sum")
    return found[: policy.length]


def opened(policy: Policy, own: int, keys: Mapping[int, bytes], rest: bytes) -> Vector:
    """The sum of all other parties' vectors, as this party alone can read it; ``rest`` is that of their payloads.

    It takes away the masks that it shares with each of them. Where they are not the masks of these terms, or one
    of the others is missing, it is an error: what is left would be noise.
    """
    mine = hide(policy, own, keys, np.zeros(policy.length, np.int64))
    carrier = MaskedWords(policy.length + CHECKS, masks.Words(policy.bits))
    check_payload(policy, rest)
    found = carrier.unpack(carrier.total({-1: rest, own: mine}))
    if found[policy.length :].any():
        what = "is noise, as the masks do not cancel: some party was asked something else, or is not in it."
        raise ProtocolError(None, what, who="The sum")
    return found[: policy.length]


def _dtype(policy: Policy) -> np.dtype[np.unsignedinteger[Any]]:
    return masks.Words(policy.bits).dtype


def _statement(public: bytes, context: bytes) -> bytes:
    return b"unalike pairwise" + public + context
