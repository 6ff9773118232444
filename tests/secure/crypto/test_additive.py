"""Encryption that adds: what is done to ciphertexts is done to integers, and the papers say the same."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.secure.crypto import integers
from unalike.secure.crypto.additive import (
    add,
    add_plain,
    combine,
    decrypt,
    encrypt,
    make_keys,
    negative,
    read_ciphers,
    read_public,
    rerandomised,
    times,
)
from unalike.secure.crypto.errors import CryptoError

BITS = 512
CIPHERS = ("okamoto-uchiyama", "paillier")
every_cipher = pytest.mark.parametrize("cipher", CIPHERS)
signed = st.integers(-(2**60), 2**60)


@cache
def keys_of(cipher, seed=1, exponents="short"):
    return make_keys(bytes([seed]) * 32, BITS, cipher, exponents)


def by_the_papers(keys, ciphertext):
    """A message as Okamoto and Uchiyama, and Paillier, write its decryption."""
    n, g = int(keys.public.n), int(keys.public.g)
    if keys.public.cipher == "okamoto-uchiyama":
        p = int(keys.primes[0].p)

        def read(x):
            return (pow(x, p - 1, p * p) - 1) // p

        return read(ciphertext) * pow(read(g), -1, p) % p
    p, q = (int(prime.p) for prime in keys.primes)
    order = (p - 1) * (q - 1)
    return (pow(ciphertext, order, n * n) - 1) // n * pow(order, -1, n) % n


@every_cipher
@given(data=st.data(), values=st.lists(st.tuples(signed, signed, st.integers(-(2**20), 2**20)), max_size=5))
@settings(max_examples=25, deadline=None)
def test_what_is_done_to_ciphers_is_done_to_integers(cipher, data, values):
    keys = keys_of(cipher)
    one, other, factor = ([row[k] for row in values] for k in range(3))
    secrets = data.draw(st.lists(st.binary(min_size=32, max_size=32), min_size=3, max_size=3, unique=True))
    a, b = encrypt(keys, one, secrets[0]), encrypt(keys.public, other, secrets[1])
    sums = [x + y for x, y in zip(one, other, strict=True)]
    assert decrypt(keys, a) == one
    assert decrypt(keys, add(a, b)) == decrypt(keys, add_plain(a, other)) == sums
    assert decrypt(keys, negative(a)) == [-x for x in one]
    assert decrypt(keys, times(a, factor)) == [x * f for x, f in zip(one, factor, strict=True)]
    fresh = rerandomised(a, secrets[2])
    assert decrypt(keys, fresh) == one
    assert not set(map(int, fresh.values)) & set(map(int, a.values))
    assert decrypt(keys, read_ciphers(keys.public, a.to_array())) == one


@every_cipher
@given(st.lists(signed, max_size=8), st.integers(1, 3), st.sampled_from([1, 2, 2**8, 2**31, 2**45]), st.data())
@settings(max_examples=25, deadline=None)
def test_weighted_sums_are_those_of_the_integers(cipher, values, columns, most, data):
    keys = keys_of(cipher)
    weight = st.integers(-most, most)
    size = len(values) * columns
    flat = data.draw(st.lists(weight, min_size=size, max_size=size))
    weights = np.array(flat, np.int64).reshape(len(values), columns)
    found = decrypt(keys, combine(encrypt(keys, values, b"1" * 32), weights))
    assert found == [sum(int(w) * v for w, v in zip(column, values, strict=True)) for column in weights.T]


@every_cipher
@pytest.mark.parametrize("exponents", ["short", "full"])
def test_the_greatest_integers_are_read_back_by_us_and_by_the_papers_formulas(cipher, exponents):
    keys = keys_of(cipher, 2, exponents)
    most = 2**keys.public.room - 1
    values = [0, 1, -1, most, -most]
    for key, secret in ((keys, b"a" * 32), (keys.public, b"b" * 32)):
        ciphers = encrypt(key, values, secret)
        assert decrypt(keys, ciphers) == values
        room = int(keys.primes[0].p) if cipher == "okamoto-uchiyama" else int(keys.public.n)
        assert [by_the_papers(keys, int(c)) for c in ciphers.values] == [value % room for value in values]
        with pytest.raises(CryptoError, match=f"more than the {keys.public.room} bits"):
            encrypt(key, [most + 1], b"c" * 32)


def test_numbers_of_the_key_are_what_the_papers_say():
    keys = keys_of("okamoto-uchiyama")
    p, q, n = int(keys.primes[0].p), int(keys.rest), int(keys.public.n)
    assert p * p * q == n
    assert n.bit_length() == BITS
    assert int(keys.public.h) == pow(int(keys.public.g), n, n)
    keys = keys_of("paillier")
    p, q = (int(prime.p) for prime in keys.primes)
    assert p * q == int(keys.public.n)
    order = (p - 1) * (q - 1)
    assert pow(int(keys.public.h), order, (p * q) ** 2) == 1, "h must be an n-th power"


@every_cipher
def test_the_same_secret_gives_the_same_bytes_and_another_gives_others(cipher):
    keys, again = keys_of(cipher), make_keys(b"\1" * 32, BITS, cipher)
    values = list(range(-3, 4))
    for a, b in ((keys, again), (keys.public, again.public)):
        first = encrypt(a, values, b"s" * 32).to_array()
        encrypt(b, values * 20, b"q" * 32)  # what was asked before changes nothing
        assert (first == encrypt(b, values, b"s" * 32).to_array()).all()
        assert (first != encrypt(a, values, b"t" * 32).to_array()).any(axis=1).all()
    assert (keys_of(cipher, 3).public.to_array() != keys.public.to_array()).any()


@every_cipher
def test_without_gmpy2_there_are_the_same_bytes_and_a_line_that_says_what_it_costs(cipher, monkeypatch, capsys):
    keys, values = keys_of(cipher), [5, -(2**60), 0]
    weights = np.array([[2, -1], [-7, 0], [4, 4]], np.int64)

    def all_of(keys):
        ciphers = encrypt(keys, values, b"s" * 32)
        out = rerandomised(combine(read_ciphers(keys.public, ciphers.to_array()), weights), b"t" * 32)
        return keys.public.to_array(), ciphers.to_array(), out.to_array(), decrypt(keys, out)

    expected = all_of(keys)
    original = integers.gmpy2.__wrapped__
    monkeypatch.setattr(integers, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    assert original() is None
    assert "7 times slower" in capsys.readouterr().err
    monkeypatch.setattr(integers, "gmpy2", lambda: None)
    plain = all_of(make_keys(b"\1" * 32, BITS, cipher))
    assert all(np.array_equal(a, b) for a, b in zip(expected, plain, strict=True))


def test_primes_are_told_from_composites_without_gmpy2(monkeypatch):
    known = [n for n in range(3, 6000, 2) if all(n % d for d in range(3, int(n**0.5) + 1, 2))]
    monkeypatch.setattr(integers, "gmpy2", lambda: None)
    assert [n for n in range(3, 6000, 2) if integers.is_prime(n)] == known
    assert integers.is_prime(2**521 - 1)
    assert not integers.is_prime((2**521 - 1) * (2**127 - 1))


@every_cipher
def test_keys_of_others_are_looked_at_before_they_are_used(cipher):
    keys = keys_of(cipher)
    array = keys.public.to_array()
    assert int(read_public(array, BITS, cipher).n) == int(keys.public.n)
    for wrong in (array[:2], array[:, :-1], array.astype(np.int64), array[[1, 1, 2]], array[[0, 0, 2]]):
        with pytest.raises(CryptoError):
            read_public(wrong, BITS, cipher)
    with pytest.raises(CryptoError, match="513 bits"):
        read_public(array, 513, cipher)
    with pytest.raises(CryptoError, match="no room"):
        make_keys(b"1" * 32, 128, cipher)
    with pytest.raises(CryptoError, match="rsa"):
        make_keys(b"1" * 32, BITS, "rsa")
    if cipher == "paillier":
        with pytest.raises(CryptoError, match="n \\+ 1"):
            read_public(array[[0, 2, 2]], BITS, cipher)


@every_cipher
def test_ciphertexts_of_others_are_looked_at_before_they_are_used(cipher):
    keys = keys_of(cipher)
    good = encrypt(keys, [1, 2], b"1" * 32).to_array()
    width = keys.public.width
    for value in (0, 1, keys.public.modulus, keys.public.modulus + 1, keys.primes[0].p):
        bad = np.concatenate([good, integers.to_rows([integers.number(value)], width)])
        with pytest.raises(CryptoError):
            read_ciphers(keys.public, bad)
    for wrong in (good[:, 1:], good.astype(np.int32), good[0]):
        with pytest.raises(CryptoError):
            read_ciphers(keys.public, wrong)
    assert len(read_ciphers(keys.public, good[:0])) == 0


def test_weights_of_another_number_are_refused():
    ciphers = encrypt(keys_of("paillier"), [1, 2], b"1" * 32)
    with pytest.raises(ValueError, match="Weights of 2 ciphers"):
        combine(ciphers, np.ones((3, 1), np.int64))


@every_cipher
def test_a_weighted_sum_is_made_fresh_before_it_is_sent(cipher):
    keys = keys_of(cipher)
    made = combine(encrypt(keys, [5, -7, 11], b"1" * 32), np.array([[2, 0], [-3, 1], [4, -9]], np.int64))
    fresh = rerandomised(made, b"2" * 32)
    assert decrypt(keys, fresh) == decrypt(keys, made) == [10 + 21 + 44, -7 - 99]
    assert not set(map(int, fresh.values)) & set(map(int, made.values))
