"""Policies as bytes: one way to write each, and nothing else is one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.secure import Policy
from unalike.secure.cost import example
from unalike.secure.policy import most_liars, safe_threshold

POLICY = example(4, 10, bits=64)


@pytest.mark.parametrize("policy", [POLICY, example(3, 5, protect="none"), example(5, 2, protect="fhe+masks")])
def test_there_and_back(policy):
    assert Policy.from_bytes(policy.to_bytes()) == policy
    assert Policy.from_bytes(policy.to_bytes()).digest == policy.digest


@pytest.mark.parametrize(
    "change",
    [
        {"parties": 4.0},
        {"parties": True},
        {"length": "10"},
        {"bound": None},
        {"bits": 64.0},
        {"bits": 32.5},
        {"allow_two": 0},
        {"session": 5},
        {"session": "zz"},
        {"session": "AB" * 16},
        {"identities": 7},
        {"identities": [1]},
        {"identities": []},
        {"protect": ["masks"]},
        {"protect": "mask"},
        {"threshold": 1},
        {"more": 1},
    ],
)
def test_wrong_fields(change):
    fields = json.loads(POLICY.to_bytes()) | change
    with pytest.raises(UserError):
        Policy.from_bytes(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())


def test_missing_fields_and_other_forms():
    fields = json.loads(POLICY.to_bytes())
    for name in fields:
        with pytest.raises(UserError):
            Policy.from_bytes(json.dumps({k: v for k, v in fields.items() if k != name}).encode())
    for raw in (
        POLICY.to_bytes() + b" ",
        json.dumps(fields).encode(),
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
    ):
        with pytest.raises(UserError):
            Policy.from_bytes(raw)


@given(st.binary(max_size=100))
def test_random_bytes(raw):
    with pytest.raises(UserError):
        Policy.from_bytes(raw)


@pytest.mark.parametrize("parties", range(3, 101))
def test_the_safe_threshold_is_the_smallest_that_bears_so_many_liars(parties):
    assert 3 * most_liars(parties) < parties <= 3 * (most_liars(parties) + 1)  # fewer than a third, as many as can
    for liars in range(most_liars(parties) + 1):
        least = safe_threshold(parties, liars)
        assert 2 * least > parties + liars
        assert 2 * (least - 1) <= parties + liars or least == 3
        assert least - liars >= 2  # vectors of honest parties in every sum, among which each hides
        assert least <= safe_threshold(parties) == max(3, -(-2 * parties // 3)) <= parties


def test_two_parties_stay_together():
    assert safe_threshold(2) == safe_threshold(2, 0) == 2
