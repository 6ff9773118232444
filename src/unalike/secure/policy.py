"""What all parties and the server agree on before a sum; every message is bound to it."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Literal, get_args

from unalike.errors import UserError, unknown
from unalike.secure.crypto import bfv, masks

Protect = Literal["none", "fhe", "fhe+masks", "masks"]
PARTIES_LEARN: tuple[Protect, ...] = ("none", "fhe", "fhe+masks")
"""The protections whose sum ends at the parties; that of "masks" ends at the server."""
SESSION_BYTES = 16
TAGS = 3
"""Entries that are added to an encrypted vector, so that the sum cannot be replaced (``tags``)."""
MOST_PARTIES = 50_000
MOST_MASKED = 10_000
"""Parties of a sum with masks, in which each has a secret with every other."""
MOST_WORDS = 2**24
"""Entries of a vector that travels as words."""
_MOST_PLAIN = 2**62  # int64 with room to add


def most_liars(parties: int) -> int:
    """As many parties in league with the server as a sum is made to bear: fewer than a third of them."""
    return (parties - 1) // 3


def safe_threshold(parties: int, liars: int | None = None) -> int:
    """The fewest consents that a server and so many parties in league cannot get for two different sums.

    A party signs one list of survivors, those in league sign both, so two lists have n + c signatures together:
    they cannot both have t where 2t > n + c (docs/secure-measurement.md has the proof). Without ``liars`` it is
    ``most_liars``, which makes the threshold two thirds of the parties, rounded up. Three at least, as each of two
    takes its own vector from the sum and has the other's.
    """
    liars = most_liars(parties) if liars is None else liars
    return max(min(3, parties), (parties + liars) // 2 + 1)


@dataclass(frozen=True)
class Policy:
    """The agreed terms of one sum.

    session: 16 random bytes, new for every sum.
    protect: what is done against curious eyes (docs/secure-measurement.md).
    parties: how many there are, numbered from 0.
    length: entries of every vector.
    bound: no entry of the sum is larger in absolute value; agreed in public. None of a party's own is larger than
    its even part of it, bound // parties, so that whatever the others have, the sum cannot wrap.
    threshold: so many parties must sign one list of survivors, and stay to the end; fewer shares than that tell
    nothing. A server with c parties in league learns one sum only where c < 2 threshold - parties.
    identities: Ed25519 public keys of the parties in order and then of the server; may be empty for "none" only.
    fingerprint: of the BFV keys; empty for "none" and "masks".
    allow_two: take two parties, although each then learns the other's vector from the sum.
    bits: of every entry on its way, 32 or 64, for "masks"; 0 for the others.
    question: SHA-256 of what each party is asked to compute its vector from; empty where that is no question.
    """

    session: bytes
    protect: Protect
    parties: int
    length: int
    bound: int
    threshold: int
    identities: tuple[bytes, ...] = ()
    fingerprint: bytes = b""
    allow_two: bool = False
    bits: int = 0
    question: bytes = b""

    def __post_init__(self) -> None:
        if self.protect not in get_args(Protect):
            raise unknown("protection", str(self.protect), get_args(Protect))
        check_count(self.parties, self.protect, self.allow_two)
        least = safe_threshold(self.parties, liars=0)
        if not least <= self.threshold <= self.parties:
            raise UserError(
                f"The threshold must be in {least}..{self.parties} for {self.parties} parties (more than half of "
                f"them), got {self.threshold}."
            )
        if self.bits not in ((32, 64) if self.protect == "masks" else (0,)):
            raise UserError(f"bits must be 32 or 64 for 'masks' and 0 for the others, got {self.bits}.")
        self._check_numbers()
        if len(self.session) != SESSION_BYTES or len(self.fingerprint) != 32 * self.encrypted:
            raise UserError("The session must have 16 bytes; the fingerprint 32, or none without encryption.")
        if len(self.question) not in (0, 32):
            raise UserError(
                f"The question must be a SHA-256 of 32 bytes, or empty, got {len(self.question)} bytes."
            )
        if self.identities or self.protect != "none":
            keys = set(self.identities)
            if len(keys) != self.parties + 1 or any(len(key) != 32 for key in keys):
                raise UserError("Identities must be distinct Ed25519 keys: one for each party, then the server's.")

    def _check_numbers(self) -> None:
        longest = MOST_WORDS if self.bits else bfv.MOST_ENTRIES - TAGS
        if not 1 <= self.length <= longest:
            raise UserError(f"Vectors must have 1 to {longest} entries, got {self.length}.")
        largest = 2 ** (self.bits - 1) - 1 if self.bits else bfv.HALF if self.encrypted else _MOST_PLAIN
        if not 0 <= self.bound <= largest:
            more = ", or use 64 bits" if self.bits == 32 else ""
            raise UserError(
                f"The sum must stay within {largest} to be exact, its bound is {self.bound}. "
                f"Scale values down{more}."
            )

    @property
    def encrypted(self) -> bool:
        """Whether vectors travel as ciphertexts."""
        return self.protect in ("fhe", "fhe+masks")

    @property
    def masked(self) -> bool:
        """Whether vectors travel under masks that cancel in the sum."""
        return self.protect in ("fhe+masks", "masks")

    @property
    def parties_learn(self) -> bool:
        """Whether the parties are told the sum; if not, it ends at the server."""
        return self.protect in PARTIES_LEARN

    @property
    def server_learns(self) -> bool:
        """Whether the server can read the sum."""
        return not self.encrypted

    @cached_property
    def ring(self) -> masks.Ring:
        """The numbers in which masks are added: whole numbers modulo a power of two, or the cipher's modulus."""
        return masks.Words(self.bits) if self.bits else masks.Residues(bfv.MODULUS)

    @property
    def width(self) -> int:
        """Entries of a vector as it travels: with its tags."""
        return self.length + TAGS if self.encrypted else self.length

    @property
    def most(self) -> int:
        """No entry of one party's vector may be larger in absolute value."""
        return self.bound // self.parties

    def to_bytes(self) -> bytes:
        """Canonical JSON: equal policies give equal bytes."""
        fields = {
            "session": self.session.hex(),
            "protect": self.protect,
            "parties": self.parties,
            "length": self.length,
            "bound": self.bound,
            "threshold": self.threshold,
            "identities": [key.hex() for key in self.identities],
            "fingerprint": self.fingerprint.hex(),
            "allow_two": self.allow_two,
            "bits": self.bits,
            "question": self.question.hex(),
        }
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()

    @staticmethod
    def from_bytes(raw: bytes) -> Policy:
        """A policy from bytes that anybody may have sent; only what ``to_bytes`` writes is one."""
        try:
            fields = json.loads(raw)
            for name in ("session", "fingerprint", "question"):
                fields[name] = bytes.fromhex(fields[name])
            fields["identities"] = tuple(bytes.fromhex(key) for key in fields["identities"])
            if any(type(fields[name]) is not kind for name, kind in _KINDS.items()):
                raise TypeError("a number is none")
            policy = Policy(**fields)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UserError(
                f"This is not a policy of a secure sum: {raw[:40]!r}. Ask the server for it."
            ) from error
        if policy.to_bytes() != raw:
            raise UserError("The policy is not in its canonical form. Take the bytes as the server wrote them.")
        return policy

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of it: in every message and in every derived key."""
        return sha256(b"unalike policy" + self.to_bytes()).digest()


_KINDS = {"protect": str, "allow_two": bool} | dict.fromkeys(
    ("parties", "length", "bound", "threshold", "bits"), int
)


def check_count(parties: int, protect: Protect, allow_two: bool) -> None:
    """Refuse too few and too many parties."""
    if parties < 2:
        raise UserError(f"A sum needs at least 3 parties, got {parties}: one has nobody to be added to.")
    if parties == 2 and not allow_two:
        raise UserError("With two parties the sum tells each the other's vector; allow_two=True accepts that.")
    most = MOST_MASKED if protect in ("fhe+masks", "masks") else MOST_PARTIES
    if parties > most:
        other = ", or 'fhe'" if parties <= MOST_PARTIES else ""
        raise UserError(
            f"With the protection {protect!r} at most {most} parties can add up, got {parties}. Use fewer{other}."
        )


def new_session() -> bytes:
    """A session that was never used before."""
    return secrets.token_bytes(SESSION_BYTES)
