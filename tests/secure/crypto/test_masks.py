"""Masks: they cancel, they are uniform, they are the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.masks import Residues, Words, add_pairwise, direction_key, expand, pair_seed
from unalike.secure.crypto.primitives import agreement, agreement_public, check_public, new_secret

MODULI = st.one_of(st.integers(2, 2**62), st.sampled_from([2, 16580609, 2**31, 2**31 + 1, 2**62]))


@given(st.integers(2, 7), st.integers(0, 300), MODULI)
@settings(max_examples=25, deadline=None)
def test_masks_of_all_parties_cancel(parties, length, modulus):
    secrets = [new_secret() for _ in range(parties)]
    publics = [agreement_public(secret) for secret in secrets]
    ring, total = Residues(modulus), np.zeros(length, np.int64)
    for i, secret in enumerate(secrets):
        agree = agreement(secret)
        seeds = {j: pair_seed(agree(publics[j]), b"mask", b"s", i, j) for j in range(parties) if j != i}
        add_pairwise(ring, total, i, seeds)
    assert not total.any()


def test_a_single_mask_has_opposite_signs():
    seed = new_secret()
    for ring in (Residues(1009), Words(32), Words(64)):
        first, second = (ring.elements(np.zeros(50, np.int64)) for _ in range(2))
        add_pairwise(ring, first, 1, {2: seed})
        add_pairwise(ring, second, 2, {1: seed})
        assert np.count_nonzero(first) > 40
        total = first + second
        assert not (total % 1009 if ring == Residues(1009) else total).any()
        add_pairwise(ring, first, 1, {2: seed}, minus=True)
        assert not first.any()


@given(MODULI, st.integers(0, 500), st.integers(0, 500))
@settings(max_examples=40, deadline=None)
def test_a_longer_mask_begins_with_the_shorter(modulus, one, other):
    seed = b"k" * 32
    short, long = (expand(seed, length, modulus) for length in sorted((one, other)))
    assert (long[: len(short)] == short).all()
    assert long.dtype == np.int64
    assert len(long) == max(one, other)
    assert ((long >= 0) & (long < modulus)).all()


def test_expansion_is_the_aes_stream_without_the_unfair_words():
    """Word by word, with a modulus for which a third of the words are refused."""
    seed, modulus, length = bytes(range(32)), 3 * 2**29 - 1, 40
    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor().update(bytes(4 * 400))
    words = [int.from_bytes(stream[i : i + 4], "little") for i in range(0, len(stream), 4)]
    fair = [word % modulus for word in words if word < 2**32 // modulus * modulus]
    assert expand(seed, length, modulus).tolist() == fair[:length]


@pytest.mark.parametrize("bits", [32, 64])
def test_masks_of_words_are_the_aes_stream_and_cancel(bits):
    ring, seed = Words(bits), bytes(range(32))
    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor().update(bytes(bits // 8 * 50))
    expected = [int.from_bytes(stream[i : i + bits // 8], "little") for i in range(0, len(stream), bits // 8)]
    start = np.array([-1, 0, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 7] * 10)
    total = ring.elements(start)
    ring.add(total, seed)
    assert total.tolist() == [(int(a) + b) % 2**bits for a, b in zip(start, expected, strict=True)]
    ring.add(total, seed, minus=True)
    assert (ring.integers(total) == start).all()
    assert ring.integers(total).dtype == np.int64
    secrets = {(i, j): new_secret() for i in range(5) for j in range(i + 1, 5)}
    for i in range(5):
        add_pairwise(ring, total, i, {j: secrets[min(i, j), max(i, j)] for j in range(5) if j != i})
    assert (ring.integers(total) == start).all()


@pytest.mark.parametrize("modulus", [3, 16580609, 3 * 2**29, 3 * 2**60])
def test_masks_are_uniform(modulus):
    """A third of each modulus would be twice as likely as the rest, if unfair words were not skipped."""
    values = expand(b"u" * 32, 60_000, modulus)
    bins = min(modulus, 30)
    edges = [modulus * k // bins for k in range(bins + 1)]
    counts = np.histogram(values, edges)[0]
    assert chisquare(counts, 60_000 * (np.diff(edges) / modulus)).pvalue > 1e-3  # fixed seed: no flake


def test_seeds_depend_on_session_purpose_and_parties():
    shared = new_secret()
    seeds = {
        pair_seed(shared, b"a", b"s", 1, 2),
        pair_seed(shared, b"b", b"s", 1, 2),
        pair_seed(shared, b"a", b"t", 1, 2),
        pair_seed(shared, b"a", b"s", 1, 3),
        pair_seed(shared, b"as", b"", 1, 2),
    }
    assert len(seeds) == 5
    assert pair_seed(shared, b"a", b"s", 1, 2) == pair_seed(shared, b"a", b"s", 2, 1)
    assert direction_key(shared, b"a", b"s", 1, 2) != direction_key(shared, b"a", b"s", 2, 1)


LOW_ORDER = [
    bytes(32),
    b"\1" + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
]


@pytest.mark.parametrize("public", [*LOW_ORDER, b"", b"short", bytes(33)])
def test_public_keys_of_low_order_or_wrong_size_are_refused(public):
    with pytest.raises(CryptoError, match="low order"):
        agreement(new_secret())(public)
    with pytest.raises(CryptoError, match="low order"):
        check_public(public)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: expand(b"", 1, 5), "32 bytes"),
        (lambda: expand(bytes(32), -1, 5), "length"),
        (lambda: expand(bytes(32), 1, 1), "modulus"),
        (lambda: expand(bytes(32), 1, 2**62 + 1), "modulus"),
        (lambda: add_pairwise(Words(32), np.zeros(1, np.uint32), 1, {1: bytes(32)}), "with itself"),
        (lambda: Words(16), "32 or 64"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(CryptoError, match=text):
        call()
