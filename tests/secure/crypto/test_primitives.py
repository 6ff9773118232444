"""Boxes and signatures, and libraries that are missing."""

from __future__ import annotations

import sys

import pytest

from unalike.errors import UserError
from unalike.secure.crypto import errors
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.primitives import derive, new_secret, seal, sign, signing_public, unseal, verify


def test_a_box_opens_only_with_its_key_and_context():
    key = new_secret()
    box = seal(key, b"content", b"from 1 to 2")
    assert unseal(key, box, b"from 1 to 2") == b"content"
    for wrong in (
        (new_secret(), box, b"from 1 to 2"),
        (key, box, b"from 2 to 1"),
        (key, box[:-1], b"from 1 to 2"),
    ):
        with pytest.raises(CryptoError, match="does not open"):
            unseal(*wrong)
    with pytest.raises(CryptoError):
        unseal(key, b"", b"")


def test_signatures():
    secret = new_secret()
    public, signature = signing_public(secret), sign(secret, b"message")
    verify(public, signature, b"message")
    for wrong in (
        (public, signature, b"massage"),
        (public, bytes(64), b"message"),
        (public, b"", b"message"),
        (signing_public(new_secret()), signature, b"message"),
        (b"", signature, b"message"),
    ):
        with pytest.raises(CryptoError, match="not valid"):
            verify(*wrong)


def test_hkdf_against_rfc_5869():
    """Test case 3 of the RFC: no salt, no info; the first 32 bytes."""
    expected = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
    assert derive(b"\x0b" * 22, b"").hex() == expected


@pytest.mark.parametrize("name", ["tenseal", "cryptography.hazmat.primitives.asymmetric.x25519"])
def test_a_missing_library_is_one_line_with_the_remedy(monkeypatch, name):
    errors.library.cache_clear()
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"is not installed, but .* Run: pip install {name.split('.')[0]}$"):
        errors.library(name)
    errors.library.cache_clear()
