"""Exact sums of encrypted integer vectors: BFV (Fan and Vercauteren 2012, eprint 2012/144) by TenSEAL.

A dealer makes the keys: ``secret`` bytes for those who may decrypt, ``public`` bytes for the server, which adds.
Ring 4096 and the plain modulus 16580609 give 128 bits of security, sums modulo 16580609 and about 88 kB for up to
4092 entries. TenSEAL takes an empty byte string for a ciphertext, and wraps silently beyond half the modulus:
everything is checked here before it gets there. The last slots of a ciphertext are zeros; a sum in which they are
not contains a ciphertext of another key, or a damaged one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.secure.crypto.errors import CryptoError, library

Vector = NDArray[np.int64]
RING = 4096
MODULUS = 16580609
HALF = MODULUS // 2
"""The largest absolute value that survives decryption: entries of sums must stay within -HALF..HALF."""
ENTRIES = RING - 4
"""Entries in one ciphertext; the four slots left over are zero, for checking."""
MOST_ENTRIES = 2**22
SMALLEST_CHUNK, LARGEST_CHUNK = 60_000, 140_000  # bytes; a fresh one has about 88,500, uncompressed 131,000
_SMALLEST_CONTEXT, _LARGEST_CONTEXT = 50_000, 2_000_000
_HEAD = struct.Struct(">32sI")
_SIZE = struct.Struct(">I")


@dataclass(frozen=True)
class Keys:
    """What the dealer hands out: ``secret`` to the parties, ``public`` to the server."""

    secret: bytes = field(repr=False)
    public: bytes = field(repr=False)

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of the public bytes: two ciphertexts can be added if theirs is the same."""
        return sha256(self.public).digest()


def deal() -> Keys:
    """Make a key pair, and make sure that the public bytes hold no secret key."""
    context = _fresh()
    keys = Keys(secret=_save(context, secret=True), public=_save(context, secret=False))
    if _tenseal().context_from(keys.public, 1).has_secret_key():
        raise RuntimeError("TenSEAL wrote the secret key into the public context")
    return keys


@dataclass(frozen=True, eq=False)
class Context:
    """Keys ready for use, from ``load``. All contexts of one dealing have the same fingerprint."""

    fingerprint: bytes
    can_decrypt: bool
    _tenseal: Any = field(repr=False)
    shared: bytes = field(default=b"", repr=False)
    """A secret that all who hold the dealer's secret bytes have in common; empty for public keys."""

    def encrypt(self, vector: Vector) -> EncryptedVector:
        """Encrypt a vector of any length whose entries are within -HALF..HALF."""
        _check_plain(vector)
        make = _tenseal().bfv_vector
        return EncryptedVector(self, len(vector), tuple(make(self._tenseal, slots) for slots in _slots(vector)))

    def read(self, raw: bytes, length: int) -> EncryptedVector:
        """A ciphertext of a vector of ``length`` entries from bytes that anybody may have sent."""
        if len(raw) < _HEAD.size:
            raise CryptoError(f"The ciphertext is cut short: {len(raw)} bytes.")
        fingerprint, said = _HEAD.unpack_from(raw)
        if fingerprint != self.fingerprint:
            raise CryptoError("The ciphertext was made with another key.")
        if said != length:
            raise CryptoError(f"The ciphertext must have {length} entries, it says {said}.")
        return EncryptedVector(
            self, length, tuple(self._read_chunk(chunk) for chunk in _chunks(raw, _count(length)))
        )

    def decrypt(self, encrypted: EncryptedVector) -> Vector:
        """The vector; refuses one in which the slots that must be zero are not."""
        if not self.can_decrypt:
            raise CryptoError("These are public keys: they cannot decrypt.")
        secret = self._tenseal.secret_key()
        slots = np.array([chunk.decrypt(secret) for chunk in encrypted.chunks], np.int64)
        last = encrypted.length - (len(slots) - 1) * ENTRIES
        if slots[:, ENTRIES:].any() or slots[-1, last:].any():
            raise CryptoError("The ciphertext is damaged, or one of another key was added to it.")
        return slots[:, :ENTRIES].ravel()[: encrypted.length]

    def _read_chunk(self, raw: bytes) -> Any:
        try:
            vector = _tenseal().bfv_vector_from(self._tenseal, raw)
            ciphertexts = vector.ciphertext()
        except (ValueError, RuntimeError, IndexError) as error:
            raise CryptoError("The ciphertext is malformed.") from error
        expected = self._tenseal.seal_context().data.first_parms_id()
        if vector.size() != RING or len(ciphertexts) != 1:
            raise CryptoError(f"The ciphertext must have {RING} slots.")
        (ciphertext,) = ciphertexts
        if ciphertext.size() != 2 or ciphertext.is_transparent() or ciphertext.parms_id() != expected:
            raise CryptoError("The ciphertext is not a fresh one or a sum of such.")
        return vector


@dataclass(frozen=True, eq=False)
class EncryptedVector:
    """An encrypted vector: add others and plain vectors, send as bytes."""

    context: Context
    length: int
    chunks: tuple[Any, ...] = field(repr=False)

    def __add__(self, other: EncryptedVector) -> EncryptedVector:
        if other.context.fingerprint != self.context.fingerprint or other.length != self.length:
            raise CryptoError("Only ciphertexts of the same key and length can be added.")
        pairs = zip(self.chunks, other.chunks, strict=True)
        return EncryptedVector(self.context, self.length, tuple(_guarded(a.add, b) for a, b in pairs))

    def add_plain(self, vector: Vector) -> EncryptedVector:
        """The ciphertext of the sum with a plain vector, whose entries count modulo MODULUS."""
        plain = centred(vector)
        if len(plain) != self.length:
            raise CryptoError(f"The plain vector must have {self.length} entries, got {len(plain)}.")
        pairs = zip(self.chunks, _slots(plain), strict=True)
        return EncryptedVector(self.context, self.length, tuple(_guarded(a.add, b) for a, b in pairs))

    def subtract_plain(self, vector: Vector) -> EncryptedVector:
        """The ciphertext of the difference to a plain vector, whose entries count modulo MODULUS."""
        return self.add_plain(-centred(vector))

    def to_bytes(self) -> bytes:
        """Fingerprint, length, then each chunk with its size."""
        chunks = [chunk.serialize() for chunk in self.chunks]
        sized = [_SIZE.pack(len(chunk)) + chunk for chunk in chunks]
        return _HEAD.pack(self.context.fingerprint, self.length) + b"".join(sized)


def load(raw: bytes, *, secret: bool) -> Context:
    """Keys from a dealer's bytes; ``secret`` says which kind they must be."""
    if not _SMALLEST_CONTEXT <= len(raw) <= _LARGEST_CONTEXT:
        raise CryptoError(f"Keys have {_SMALLEST_CONTEXT} to {_LARGEST_CONTEXT} bytes, got {len(raw)}.")
    try:
        context = _tenseal().context_from(raw, 1)
        parameters = context.seal_context().data.first_parms_id()
        complete = context.has_public_key()
    except (ValueError, RuntimeError, IndexError) as error:
        raise CryptoError("The keys are malformed.") from error
    if not complete or parameters != _parameters():
        raise CryptoError(f"The keys must be BFV with ring {RING} and plain modulus {MODULUS}, from `deal`.")
    if context.has_secret_key() != secret:
        raise CryptoError(
            "Parties need the secret context, this is the public one."
            if secret
            else "This context holds the secret key: a server must only ever get the public one."
        )
    shared = sha256(b"unalike shared" + raw).digest() if secret else b""
    return Context(sha256(_save(context, secret=False)).digest(), secret, context, shared)


def centred(vector: Vector) -> Vector:
    """The same numbers modulo MODULUS, within -HALF..HALF."""
    return (vector + HALF) % MODULUS - HALF


def encrypted_bytes(length: int) -> tuple[int, int]:
    """The least and the most bytes that a ciphertext of so many entries can have."""
    count = _count(length)
    return _HEAD.size + count * (_SIZE.size + SMALLEST_CHUNK), _HEAD.size + count * (_SIZE.size + LARGEST_CHUNK)


def _check_plain(vector: Vector) -> None:
    if vector.ndim != 1 or vector.dtype != np.int64 or not 1 <= len(vector) <= MOST_ENTRIES:
        raise CryptoError(f"Only vectors of 1 to {MOST_ENTRIES} int64 can be encrypted.")
    if vector.max() > HALF or vector.min() < -HALF:
        raise CryptoError(f"Entries must be within {-HALF}..{HALF}; scale them down.")


def _slots(vector: Vector) -> list[list[int]]:
    """The vector cut into ciphertexts' slots, with zeros after the entries."""
    table = np.zeros((_count(len(vector)), RING), np.int64)
    for row, start in zip(table, range(0, len(vector), ENTRIES), strict=True):
        part = vector[start : start + ENTRIES]
        row[: len(part)] = part
    return [row.tolist() for row in table]


def _chunks(raw: bytes, count: int) -> list[bytes]:
    chunks: list[bytes] = []
    at = _HEAD.size
    while at < len(raw) and len(chunks) <= count:
        if at + _SIZE.size > len(raw):
            raise CryptoError("The ciphertext is cut short.")
        (size,) = _SIZE.unpack_from(raw, at)
        at += _SIZE.size
        if not SMALLEST_CHUNK <= size <= LARGEST_CHUNK or at + size > len(raw):
            raise CryptoError(f"A chunk of a ciphertext has an impossible size: {size} bytes.")
        chunks.append(raw[at : at + size])
        at += size
    if len(chunks) != count:
        raise CryptoError(f"The ciphertext must have {count} chunks.")
    return chunks


def _count(length: int) -> int:
    return -(-length // ENTRIES)


def _guarded(operation: Any, operand: Any) -> Any:
    try:
        return operation(operand)
    except (ValueError, RuntimeError) as error:
        raise CryptoError("The ciphertexts cannot be added: at least one of them is malformed.") from error


def _save(context: Any, *, secret: bool) -> bytes:
    kinds = {"save_public_key": True, "save_galois_keys": False, "save_relin_keys": False}
    return bytes(context.serialize(save_secret_key=secret, **kinds))


def _fresh() -> Any:
    library = _tenseal()
    return library.context(library.SCHEME_TYPE.BFV, RING, MODULUS, n_threads=1)


@cache
def _parameters() -> Any:
    """SEAL's hash of ring, moduli and scheme."""
    return _fresh().seal_context().data.first_parms_id()


def _tenseal() -> Any:
    return library("tenseal")
