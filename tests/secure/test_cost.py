"""Counted bytes are the bytes that the protocol sends, of every party, whoever drops out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.secure import safe_threshold, secure_sum, traffic
from unalike.secure.cost import example

STEPS = ["start", "hello", "shares", "vector", "consent", "unmask"]


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_as_many_bytes_as_really_travel(data):
    parties, length = data.draw(st.integers(3, 12)), data.draw(st.integers(1, 300))
    protect, bits = data.draw(st.sampled_from([("masks", 32), ("masks", 64), ("none", 32)]))
    threshold = data.draw(st.integers(max(3, parties // 2 + 1), parties))
    who = data.draw(st.lists(st.integers(0, parties - 1), max_size=parties - threshold, unique=True))
    drop_after = {party: data.draw(st.sampled_from(STEPS)) for party in who}
    terms = {"protect": protect, "bits": bits, "threshold": threshold}
    result = secure_sum([np.zeros(length, np.int64)] * parties, drop_after=drop_after, **terms)
    assert traffic(example(parties, length, **terms), drop_after) == (result.bytes_up, result.bytes_down)


@pytest.mark.parametrize(("parties", "bits"), [(3, 32), (40, 64)])
def test_without_dropouts(parties, bits):
    result = secure_sum([np.zeros(1000, np.int64)] * parties, protect="masks", bits=bits)
    policy = example(parties, 1000, bits=bits)
    assert traffic(policy) == (result.bytes_up, result.bytes_down)
    assert policy.threshold == safe_threshold(parties)
    assert len(set(result.bytes_up)) == len(set(result.bytes_down)) == 1


def test_two_parties():
    result = secure_sum([np.ones(5, np.int64)] * 2, protect="masks", allow_two=True)
    assert traffic(example(2, 5)) == (result.bytes_up, result.bytes_down)


def test_what_cannot_be_counted():
    with pytest.raises(UserError, match="Only 2 parties take the step shares, the threshold is 3"):
        traffic(example(4, 5), {0: "hello", 1: "start"})
    with pytest.raises(UserError, match=r"names party 4; parties are 0\.\.3"):
        traffic(example(4, 5), {4: "hello"})
    with pytest.raises(UserError, match="Ciphertexts differ in size"):
        traffic(example(4, 5, protect="fhe"))
