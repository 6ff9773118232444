"""Several sums in a ciphertext: read back exactly up to their bounds, and refused beyond."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.secure.crypto.additive import add, decrypt, encrypt, make_keys
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.packing import Packing, digits


@cache
def keys():
    return make_keys(b"p" * 32, 512)


@given(st.data(), st.integers(2, 84), st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_packed_sums_are_read_back_also_at_their_bounds(data, bits, count):
    packing = Packing(bits, keys().public.room)
    half = 1 << (bits - 1)
    value = st.sampled_from([half - 1, -half, 0, -1]) | st.integers(-half, half - 1)
    values = data.draw(st.lists(value, min_size=count, max_size=count))
    packed = packing.packed(encrypt(keys(), values, b"1" * 32))
    assert len(packed) == packing.ciphertexts(count)
    assert packing.unpacked(decrypt(keys(), packed), count) == values


@given(st.lists(st.tuples(st.integers(-(2**20), 2**20), st.integers(0, 2**18)), max_size=6))
@settings(max_examples=30, deadline=None)
def test_two_signed_sums_in_one_integer_are_added_apart(pairs):
    total = sum((g << 25) + h for g, h in pairs)
    assert digits(total, [25, 30]) == [sum(h for _, h in pairs), sum(g for g, _ in pairs)]


def test_parents_less_children_are_siblings_while_they_are_packed():
    parent, child = [7, -3, 2**30], [9, -8, -5]
    packing = Packing(40, keys().public.room)
    both = [packing.packed(encrypt(keys(), values, bytes([n]) * 32)) for n, values in enumerate((parent, child))]
    total = add(both[0], both[1])
    assert packing.unpacked(decrypt(keys(), total), 3) == [a + b for a, b in zip(parent, child, strict=True)]


def test_what_is_too_much_is_refused():
    packing = Packing(40, 168)
    with pytest.raises(CryptoError, match="greater than it can be"):
        packing.unpacked([1 << 90], 2)
    with pytest.raises(CryptoError, match="make 2 ciphertexts, not 1"):
        packing.unpacked([1], 5)
    with pytest.raises(CryptoError, match="room for 30"):
        Packing(40, 30)
