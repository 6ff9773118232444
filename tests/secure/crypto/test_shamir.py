"""Shares: enough of them give the secret, fewer tell nothing, wrong ones are refused."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.secure.crypto import shamir
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.shamir import PRIME, Share, reconstruct, split


@given(st.data(), st.binary(min_size=1, max_size=100), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_any_threshold_of_the_shares_give_the_secret(data, secret, holders):
    threshold = data.draw(st.integers(1, holders))
    points = data.draw(st.lists(st.integers(1, 60_000), min_size=holders, max_size=holders, unique=True))
    shares = data.draw(st.permutations(split(secret, threshold, points)))
    assert reconstruct(shares[:threshold], threshold, len(secret)) == secret
    assert reconstruct(shares, threshold, len(secret)) == secret


def test_fewer_shares_have_the_same_distribution_whatever_the_secret():
    """Every polynomial of degree 2 over the field of 7 elements: two shares are uniform for each secret."""
    for points in ((1, 2), (2, 5), (6, 3)):
        seen = {
            secret: Counter(
                tuple(shamir._value((secret, a, b), x, 7) for x in points) for a, b in product(range(7), repeat=2)
            )
            for secret in range(7)
        }
        assert all(counts == seen[0] for counts in seen.values())
        assert set(seen[0].values()) == {1}
        assert len(seen[0]) == 49


@given(st.integers(0, 2**256 - 1))
@settings(max_examples=20, deadline=None)
def test_fewer_shares_fit_every_secret(other):
    """To two of three shares there is a third for any secret: they exclude none."""
    threshold, shares = 3, split(b"s" * 32, 3, [1, 2, 3])
    weights = shamir._weights_at_zero((1, 2, 3))
    known = sum(w * share.numbers()[0] for w, share in zip(weights[:2], shares[:2], strict=True))
    third = (other - known) * pow(weights[2], -1, PRIME) % PRIME
    forged = [*shares[:2], Share(3, third.to_bytes(33, "big"))]
    assert reconstruct(forged, threshold, 32) == other.to_bytes(32, "big")


def test_shares_are_new_every_time():
    first, second = (split(b"x" * 32, 2, [1, 2]) for _ in range(2))
    assert first != second
    assert b"x" * 32 not in first[0].values


def test_the_field_is_prime():
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):  # Miller and Rabin
        x = pow(base, odd, PRIME)
        assert x in (1, PRIME - 1) or any(pow(x, 2**k, PRIME) == PRIME - 1 for k in range(1, twos))


SHARES = split(bytes(range(40)), 3, [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: reconstruct(SHARES[:2], 3, 40), "3 shares are needed, got 2"),
        (lambda: reconstruct([SHARES[0], SHARES[0], SHARES[1]], 3, 40), "same holder"),
        (lambda: reconstruct(SHARES, 3, 32), "must have 33 bytes"),
        (lambda: reconstruct([Share(9, b"\0" * 65 + b"\1"), *SHARES[:2]], 3, 40), "do not fit together"),
        (lambda: Share(0, b"\0" * 33), "x must be in"),
        (lambda: Share(1, b"\0" * 32), "multiple of 33"),
        (lambda: Share(1, b""), "multiple of 33"),
        (lambda: Share(1, b"\xff" * 33), "not below the prime"),
        (lambda: split(b"", 1, [1]), "empty"),
        (lambda: split(b"a", 3, [1, 2]), "threshold must be in 1..2"),
        (lambda: split(b"a", 0, [1, 2]), "threshold must be in 1..2"),
        (lambda: split(b"a", 2, [1, 1]), "distinct"),
        (lambda: split(b"a", 2, [0, 1]), "distinct points in 1"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(CryptoError, match=text):
        call()


def test_a_share_shows_nothing_when_printed():
    assert "values" not in repr(SHARES[0])
