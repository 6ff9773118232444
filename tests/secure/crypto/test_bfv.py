"""Encrypted vectors: exact, and strict about everything that comes from outside."""

from __future__ import annotations

import numpy as np
import pytest
import tenseal
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.secure.crypto import bfv
from unalike.secure.crypto.bfv import ENTRIES, HALF, MODULUS
from unalike.secure.crypto.errors import CryptoError

KEYS = bfv.deal()
PARTY, SERVER = bfv.load(KEYS.secret, secret=True), bfv.load(KEYS.public, secret=False)
LENGTHS = st.one_of(st.integers(1, 9000), st.sampled_from([1, ENTRIES - 1, ENTRIES, ENTRIES + 1, 2 * ENTRIES]))


def vector(*numbers):
    return np.array(numbers, np.int64)


@given(LENGTHS, st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_sums_are_exact(length, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-HALF // 2, HALF // 2, (2, length))
    plain = rng.integers(-(2**40), 2**40, length)
    sent = [PARTY.encrypt(v).to_bytes() for v in (a, b)]
    assert all(bfv.encrypted_bytes(length)[0] <= len(raw) <= bfv.encrypted_bytes(length)[1] for raw in sent)
    one, other = (SERVER.read(raw, length) for raw in sent)
    total = (one + other).add_plain(plain).subtract_plain(2 * plain)
    back = PARTY.decrypt(PARTY.read(total.to_bytes(), length))
    assert (back == bfv.centred(a + b - plain)).all()
    assert back.dtype == np.int64


def test_the_largest_entries_survive():
    extremes = vector(HALF, -HALF, 0)
    assert (PARTY.decrypt(PARTY.encrypt(extremes)) == extremes).all()
    assert 2 * HALF + 1 == MODULUS


def test_the_public_context_has_no_secret_key():
    context = tenseal.context_from(KEYS.public)
    assert not context.has_secret_key()
    assert not SERVER.can_decrypt
    with pytest.raises(CryptoError, match="cannot decrypt"):
        SERVER.decrypt(SERVER.encrypt(vector(1)))
    assert len(KEYS.public) < len(KEYS.secret) - 50_000  # a secret key has about 70 kB
    with pytest.raises(CryptoError, match="holds the secret key"):
        bfv.load(KEYS.secret, secret=False)
    with pytest.raises(CryptoError, match="need the secret context"):
        bfv.load(KEYS.public, secret=True)


def test_fingerprints_tell_keys_apart():
    assert KEYS.fingerprint == PARTY.fingerprint == SERVER.fingerprint
    foreign = bfv.load(bfv.deal().secret, secret=True)
    raw = foreign.encrypt(vector(1, 2)).to_bytes()
    with pytest.raises(CryptoError, match="another key"):
        SERVER.read(raw, 2)
    with pytest.raises(CryptoError, match="same key"):
        PARTY.encrypt(vector(1, 2)) + foreign.encrypt(vector(1, 2))
    # A liar may write our fingerprint over its own: only the check slots then show it.
    disguised = SERVER.read(KEYS.fingerprint + raw[32:], 2)
    with pytest.raises(CryptoError, match="one of another key"):
        PARTY.decrypt(PARTY.encrypt(vector(1, 2)) + disguised)


def test_check_slots_are_checked_in_every_chunk():
    """Also where a vector fills its last ciphertext, and in those before the last."""
    for length, chunk, slot in ((ENTRIES, 0, 4095), (ENTRIES + 5, 0, 4092), (ENTRIES + 5, 1, 4095), (7, 0, 7)):
        good = PARTY.encrypt(np.ones(length, np.int64))
        spoilt = list(good.chunks)
        spoilt[chunk] = spoilt[chunk].add([int(place == slot) for place in range(4096)])
        with pytest.raises(CryptoError, match="damaged"):
            PARTY.decrypt(bfv.EncryptedVector(PARTY, length, tuple(spoilt)))


GOOD = PARTY.encrypt(np.arange(5000)).to_bytes()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "cut short: 0 bytes"),
        (GOOD[:36], "2 chunks"),
        (GOOD[:38], "cut short"),
        (GOOD[:50_000], "impossible size"),
        (GOOD[:-1], "impossible size"),
        (GOOD + b"\0", "2 chunks|cut short"),
        (GOOD + GOOD[36:], "2 chunks"),
        (GOOD[:36] + (4).to_bytes(4, "big") + b"abcd", "impossible size: 4 bytes"),
        (GOOD[:36] + (2 * 10**6).to_bytes(4, "big"), "impossible size"),
        (GOOD[:40] + GOOD[40:][::-1], "malformed|impossible"),
        (bytes(32) + GOOD[32:], "another key"),
    ],
    ids=map(str, range(11)),  # keys are random: what is in the bytes must not name a test
)
def test_malformed_ciphertexts(raw, text):
    with pytest.raises(CryptoError, match=text):
        SERVER.read(raw, 5000)


def test_other_lengths_are_refused():
    with pytest.raises(CryptoError, match="must have 4999 entries, it says 5000"):
        SERVER.read(GOOD, 4999)
    with pytest.raises(CryptoError, match="same key and length"):
        PARTY.encrypt(vector(1)) + PARTY.encrypt(vector(1, 2))
    with pytest.raises(CryptoError, match="must have 1 entries, got 2"):
        PARTY.encrypt(vector(1)).add_plain(vector(1, 2))


@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_mutated_ciphertexts_never_crash(at, patch):
    raw = (GOOD[:at] + patch + GOOD[at + len(patch) :])[: len(GOOD)]
    try:
        PARTY.decrypt(SERVER.read(raw, 5000) + PARTY.encrypt(np.arange(5000)))
    except CryptoError:
        return


@pytest.mark.parametrize(
    "bad",
    [
        vector(HALF + 1),
        vector(0, -HALF - 1),
        np.zeros(0, np.int64),
        np.zeros((2, 2), np.int64),
        np.zeros(3),
        np.zeros(3, np.int32),
    ],
)
def test_vectors_that_cannot_be_encrypted(bad):
    with pytest.raises(CryptoError):
        PARTY.encrypt(bad)


@pytest.mark.parametrize("raw", [b"", b"abc", KEYS.public[:-1], KEYS.public[:60_000], bytes(100_000)])
def test_malformed_keys(raw):
    with pytest.raises(CryptoError, match=r"malformed|bytes, got|from .deal"):
        bfv.load(raw, secret=False)


def test_keys_of_other_parameters_are_refused():
    other = tenseal.context(tenseal.SCHEME_TYPE.BFV, 4096, 1032193)
    with pytest.raises(CryptoError, match="plain modulus"):
        bfv.load(other.serialize(save_secret_key=True), secret=True)


def test_keys_are_not_printed():
    assert "b'" not in repr(KEYS)
