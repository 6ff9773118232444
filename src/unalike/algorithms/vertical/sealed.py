"""Residuals that only the label holder can read: the other holders add them up under encryption.

The label holder encrypts the whole numbers r of a batch with a key of the round. A holder of columns X makes the
encrypted X^T r of them, adds a fresh encryption of a random mask to each entry, and gets them back decrypted: the
label holder has seen numbers that are random but for what 64 bits more than they need leave, the holder takes its
masks away and has X^T r, exactly.

With Okamoto-Uchiyama, whoever is told the decryption of a number beyond the secret prime can work the prime out.
So a number is told only if it is no greater than masked sums can be, which leaves many of the key's bits unused:
one that was reduced by the prime falls into that range by a chance of 2^-40 (2048 bits) or less, and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import shake_256
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import Arrays, Inbox, Me, PublicTerms, WrongMail, want
from unalike.algorithms.vertical.batches import outputs_of
from unalike.algorithms.vertical.descent import only
from unalike.errors import UserError
from unalike.secure.crypto.additive import (
    Ciphers,
    PublicKey,
    SecretKeys,
    add,
    combine,
    decrypt,
    encrypt,
    make_keys,
    read_ciphers,
    read_public,
)
from unalike.secure.crypto.additive_keys import Cipher
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.packing import Packing
from unalike.vertical.arithmetic import OwnColumns
from unalike.vertical.grid import decoded

MASK_BYTES: Final = 16
"""A mask has two bits less: 64 more than an entry of the gradient."""
_SENT: Final = MASK_BYTES + 1
_GREATEST: Final = 2**62
TIMES = 20
"""As many people as this for each column of the widest holder a batch must have, or it tells the labels.

With 4 an attack that solves for labels ranked them with an area under the curve of 0.78, with 16 of 0.64.
"""
At = tuple[int, int]
"""A batch: its round, and its number in it."""


@dataclass(frozen=True)
class Seal:
    """The encryption of residuals: which cipher, with keys of how many bits."""

    bits: int
    cipher: Cipher

    def residual(self, me: Me, residual: NDArray[np.int64], at: At) -> Arrays:
        """What the label holder says of a batch: encrypted residuals, one output after the other."""
        keys = self._keys(me, at[0])
        secret = me.secret("encrypted residuals", *at)
        sealed = encrypt(keys, residual.T.ravel().tolist(), secret)
        said = {"residual": sealed.to_array()}
        return said if at[1] else said | {"key": keys.public.to_array()}

    def answer(self, me: Me, state: Arrays, inbox: Inbox, columns: OwnColumns, at: At) -> tuple[Arrays, Arrays]:
        """What a holder keeps, which is the round's key, and its part of the gradient under masks."""
        holder, outputs = me.terms.label_holder, outputs_of(me.terms)
        assert holder is not None
        only(inbox, [holder])
        if at[1] == 0:
            state = state | {"key": want(inbox, holder, "key", "uint8", (None, None))}
        try:
            public = read_public(state["key"], self.bits, self.cipher, "short")
            width = public.width
            told = want(inbox, holder, "residual", "uint8", (columns.people * outputs, width))
            sealed = read_ciphers(public, told)
        except CryptoError as error:
            raise WrongMail(holder, f"said ciphertexts that are none: {error}") from error
        own, _ = shifted(columns)
        parts = [
            value
            for k in range(outputs)
            for value in combine(sealed[k * columns.people : (k + 1) * columns.people], own).values
        ]
        packed = self._packing(public).packed(
            add(Ciphers(public, parts), encrypt(public, masks(me, at, len(parts)), me.secret("hidden sums", *at)))
        )
        return state, {"hidden": packed.to_array()}

    def opened(self, me: Me, inbox: Inbox, at: At) -> Mapping[int, Arrays]:
        """What the label holder says to each holder: its sums under masks, decrypted."""
        others = [number for number in range(me.terms.parties) if number != me.number]
        only(inbox, others)
        keys, said = self._keys(me, at[0]), {}
        packing = self._packing(keys.public)
        for number in others:
            count = me.terms.columns[number] * outputs_of(me.terms)
            told = want(inbox, number, "hidden", "uint8", (packing.ciphertexts(count), keys.public.width))
            try:
                found = packing.unpacked(decrypt(keys, read_ciphers(keys.public, told)), count)
            except CryptoError as error:
                raise WrongMail(number, f"said ciphertexts that are none: {error}") from error
            raw = b"".join(value.to_bytes(_SENT, "big", signed=True) for value in found)
            said[number] = {"gradient": np.frombuffer(raw, np.uint8).reshape(count, _SENT)}
        return said

    def gradient(self, me: Me, inbox: Inbox, columns: OwnColumns, at: At) -> NDArray[np.float64]:
        """A holder's part of the gradient, its masks taken away."""
        holder, outputs = me.terms.label_holder, outputs_of(me.terms)
        assert holder is not None
        only(inbox, [holder])
        _, shifts = shifted(columns)
        count = len(shifts) * outputs
        told = want(inbox, holder, "gradient", "uint8", (count, _SENT))
        found = np.zeros((outputs, len(shifts)), np.int64)
        for place, (row, mask) in enumerate(zip(told, masks(me, at, count), strict=True)):
            output, column = divmod(place, len(shifts))
            value = (int.from_bytes(row.tobytes(), "big", signed=True) - mask) << int(shifts[column])
            if abs(value) > _GREATEST:
                raise WrongMail(holder, "said a 'gradient' that is greater than it can be.")
            found[output, column] = value
        return decoded(found.T)

    def _keys(self, me: Me, round: int) -> SecretKeys:
        known = me.kept.get("keys")
        if known is None or known[0] != round:
            made = make_keys(me.secret("keys of residuals", round), self.bits, self.cipher, "short")
            known = me.kept["keys"] = (round, made)
        keys: SecretKeys = known[1]
        return keys

    def _packing(self, public: PublicKey) -> Packing:
        return Packing(8 * MASK_BYTES, public.room)


def masks(me: Me, at: At, count: int) -> list[int]:
    """A holder's random masks for the sums of a batch, whole numbers from 0 up."""
    raw = shake_256(me.secret("masks of sums", *at)).digest(MASK_BYTES * count)
    cut = (raw[start : start + MASK_BYTES] for start in range(0, len(raw), MASK_BYTES))
    return [int.from_bytes(one, "big") >> 2 for one in cut]


def shifted(columns: OwnColumns) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A batch's columns without the zeros at the end of their bits, and how many those were.

    A column of zeros and ones is so one of additions alone, and not of powers.
    """
    values: Any = columns.values.toarray() if hasattr(columns.values, "indptr") else columns.values
    whole = values.astype(np.int64)
    together = np.bitwise_or.reduce(whole, axis=0)
    lowest = together & -together
    shifts = np.where(lowest > 0, np.log2(np.maximum(lowest, 1)), 0).astype(np.int64)
    return whole >> shifts, shifts


def check_batches(terms: PublicTerms, people: int) -> None:
    """Refuse batches so small that a holder could solve for their labels, and so few people altogether."""
    others = [number for number in range(terms.parties) if number != terms.label_holder]
    if not others:
        return
    widest = max(others, key=lambda number: terms.columns[number])
    columns, size = terms.columns[widest], terms.pace.batch_size
    if size < TIMES * columns:
        raise UserError(
            f"A batch of {size} with {columns} columns would let party {widest} solve for labels. "
            f"Use --batch-size {TIMES * columns} or more."
        )
    if people < TIMES * columns:
        raise UserError(
            f"{people} people with {columns} columns would let party {widest} solve for labels. "
            f"Encrypted residuals need {TIMES * columns} people or more."
        )
