"""Texts become points of the curve and never of its twist; powers commute and can be undone."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.secure.crypto import curve
from unalike.secure.crypto.errors import CryptoError

P = 2**255 - 19
TEXTS = [b"%d" % n for n in range(60)]


def legendre(point):
    """By Euler's criterion, 1 for points of the curve and -1 for those of the twist."""
    u = int.from_bytes(point, "little")
    found = pow(u * (u * u + 486662 * u + 1), (P - 1) // 2, P)
    return -1 if found == P - 1 else found


@given(st.binary(max_size=80), st.binary(max_size=40))
@settings(max_examples=60, deadline=None)
def test_a_text_is_hashed_to_a_point_of_the_curve(text, session):
    assert legendre(curve.hashed(session, text)) == 1


@pytest.mark.parametrize("power", [curve.scalar(b"1" * 32, b"use"), bytes(range(32))])
def test_a_power_keeps_the_bit_that_a_naive_hash_shows(power):
    """Why the check is there: of plain hashes half are of the twist, and whoever sees powers sees which."""
    naive = [hashlib.sha256(text).digest()[:31] + b"\0" for text in TEXTS]
    before = [legendre(point) for point in naive]
    assert {1, -1} == set(before)
    assert [legendre(point) for point in curve.powers(power, naive)] == before
    own = curve.powers(power, curve.hashed_all(b"session", TEXTS))
    assert {legendre(point) for point in own} == {1}


def test_another_session_or_text_is_another_point():
    points = [curve.hashed(session, text) for session in (b"", b"a", b"b") for text in (b"", b"a", b"b")]
    assert len(set(points)) == 9


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
@settings(max_examples=25, deadline=None)
def test_powers_commute_and_a_blinding_is_undone(secret, other):
    points = curve.hashed_all(b"session", TEXTS[:3])
    first, undo = curve.blinding(secret, b"use")
    scalar = curve.scalar(other, b"own")
    answered = curve.powers(scalar, curve.powers(first, points))
    assert curve.powers(first, curve.powers(scalar, points)) == answered
    assert curve.powers(undo, answered) == curve.powers(scalar, points)
    assert curve.powers(first, points) != points


@pytest.mark.parametrize(
    "point",
    [bytes(32), (1).to_bytes(32, "little"), (P - 1).to_bytes(32, "little"), P.to_bytes(32, "little"), b"short"],
)
def test_points_of_low_order_and_what_is_none_are_refused(point):
    with pytest.raises(CryptoError, match="malformed or of low order"):
        curve.powers(curve.scalar(b"1" * 32, b"use"), [*curve.hashed_all(b"", TEXTS[:2]), point])


@given(st.integers(0, P - 1))
@settings(max_examples=100, deadline=None)
def test_jacobi_is_eulers_criterion(a):
    found = pow(a, (P - 1) // 2, P)
    assert curve.jacobi(a, P) == (-1 if found == P - 1 else found)


def test_processes_find_the_same_points():
    texts = [b"%d" % n for n in range(2100)]
    scalar = curve.scalar(b"1" * 32, b"use")
    points = curve.hashed_all(b"session", texts, workers=2)
    assert points == curve.hashed_all(b"session", texts)
    assert curve.powers(scalar, points, workers=2) == curve.powers(scalar, points)
