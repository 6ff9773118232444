"""Every call into the library ``cryptography``, on byte strings: X25519, Ed25519, HKDF, AES."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from unalike.secure.crypto.errors import CryptoError, library

KEY_BYTES = 32
"""Size of secret and public keys, seeds and digests."""
SIGNATURE_BYTES = 64
TAG_BYTES = 16
"""By how much a sealed box is longer than what is in it."""
_NONCE = bytes(12)  # constant, because a sealing key is used for a single box


def new_secret() -> bytes:
    """32 random bytes: a seed, an X25519 secret key or an Ed25519 secret key."""
    return secrets.token_bytes(KEY_BYTES)


def agreement_public(secret: bytes) -> bytes:
    """The X25519 public key of a secret key."""
    return bytes(_x25519().X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw())


def agreement(secret: bytes) -> Callable[[bytes], bytes]:
    """A function from another's public key to the secret shared with it (X25519, RFC 7748).

    It refuses public keys of low order, with which the shared secret would be zero whatever our secret is.
    """
    private = _x25519().X25519PrivateKey.from_private_bytes(secret)
    load = _x25519().X25519PublicKey.from_public_bytes

    def shared(public: bytes) -> bytes:
        try:
            return bytes(private.exchange(load(public)))
        except ValueError as error:
            raise CryptoError("The X25519 public key is malformed or of low order.") from error

    return shared


def check_public(public: bytes) -> None:
    """Refuse an X25519 public key that is malformed or of low order."""
    agreement(bytes(KEY_BYTES))(public)  # secrets are clamped to multiples of 8, so any secret shows a low order


def public_number(public: bytes) -> int:
    """An X25519 public key as the number it stands for: several byte strings are the same key (RFC 7748, 5)."""
    return (int.from_bytes(public, "little") & (2**255 - 1)) % (2**255 - 19)


def derive(shared: bytes, info: bytes) -> bytes:
    """A 32-byte key for one purpose from a shared secret: HKDF-SHA256 (RFC 5869) without salt."""
    kdf = library("cryptography.hazmat.primitives.kdf.hkdf")
    sha256 = library("cryptography.hazmat.primitives.hashes").SHA256
    return bytes(kdf.HKDF(sha256(), KEY_BYTES, None, info).derive(shared))


def stream(key: bytes) -> Callable[[int], bytes]:
    """A function that gives the next bytes of the AES-256-CTR key stream; the counter starts at zero."""
    ciphers = library("cryptography.hazmat.primitives.ciphers")
    encryptor = ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.CTR(bytes(16))).encryptor()
    return lambda count: bytes(encryptor.update(bytes(count)))


def below(key: bytes) -> Callable[[int], int]:
    """A function that draws numbers in [0, most) from a key's stream; uniform but for 2^-256 (most < 2^257)."""
    following = stream(key)
    return lambda most: int.from_bytes(following(72), "big") % most


def seal(key: bytes, content: bytes, context: bytes) -> bytes:
    """Encrypt and authenticate with AES-256-GCM. A key seals ONE box only, as the nonce is constant."""
    return bytes(_aead().AESGCM(key).encrypt(_NONCE, content, context))


def unseal(key: bytes, box: bytes, context: bytes) -> bytes:
    """What ``seal`` put into the box; refuses a box that was changed or sealed with another key or context."""
    try:
        return bytes(_aead().AESGCM(key).decrypt(_NONCE, box, context))
    except (library("cryptography.exceptions").InvalidTag, ValueError) as error:
        raise CryptoError("The sealed box does not open: it was changed or belongs elsewhere.") from error


def seal_fixed(key: bytes, content: bytes, context: Sequence[bytes]) -> bytes:
    """Encrypt and authenticate with AES-256-SIV (RFC 5297): the same content and context give the same box.

    The key has 64 bytes and may seal many boxes. There is no nonce that could be used twice: who sees two boxes of
    one context learns whether they hold the same, and nothing else.
    """
    return bytes(_aead().AESSIV(key).encrypt(content, list(context)))


def unseal_fixed(key: bytes, box: bytes, context: Sequence[bytes]) -> bytes:
    """What ``seal_fixed`` put into the box; refuses one that was changed or belongs elsewhere."""
    try:
        return bytes(_aead().AESSIV(key).decrypt(box, list(context)))
    except (library("cryptography.exceptions").InvalidTag, ValueError) as error:
        raise CryptoError("The sealed box does not open: it was changed or belongs elsewhere.") from error


def signing_public(secret: bytes) -> bytes:
    """The Ed25519 public key of a secret key."""
    return bytes(_ed25519().Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw())


def sign(secret: bytes, message: bytes) -> bytes:
    """The Ed25519 signature (RFC 8032) of a message."""
    return bytes(_ed25519().Ed25519PrivateKey.from_private_bytes(secret).sign(message))


def verify(public: bytes, signature: bytes, message: bytes) -> None:
    """Refuse a message that the owner of the Ed25519 public key did not sign."""
    try:
        _ed25519().Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (library("cryptography.exceptions").InvalidSignature, ValueError) as error:
        raise CryptoError("The signature is not valid.") from error


def _x25519() -> Any:
    return library("cryptography.hazmat.primitives.asymmetric.x25519")


def _ed25519() -> Any:
    return library("cryptography.hazmat.primitives.asymmetric.ed25519")


def _aead() -> Any:
    return library("cryptography.hazmat.primitives.ciphers.aead")
