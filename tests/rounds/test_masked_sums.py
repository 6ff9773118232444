"""Sums of protocols under masks are the sums of whole numbers, whatever these are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from unalike.algorithms.protocol import Turn, WrongMail
from unalike.errors import UserError
from unalike.rounds.conversation import added
from unalike.rounds.masked_sums import MaskedSums, SteppedSums
from unalike.secure import pairwise

SUMS = MaskedSums(3)
NUMBERS = arrays.arrays(np.int64, (3, 2, 3), elements=st.integers(-(2**63), 2**63 - 1))


@given(NUMBERS, st.integers(0, 4))
@settings(max_examples=20, deadline=None)
def test_integers_pass_untouched(numbers, extra):
    parts = {k: {"b": part, "a": np.full(extra, k)} for k, part in enumerate(numbers)}
    found, plain = SUMS(Turn(1, 2), parts), added(parts)
    assert {name: array.tolist() for name, array in found.items()} == {k: v.tolist() for k, v in plain.items()}
    assert {name: array.dtype for name, array in found.items()} == {"a": np.int64, "b": np.int64}


def test_no_single_part_is_seen(monkeypatch):
    sent = {}
    real = pairwise.total

    def watched(policy, payloads):
        sent.update(payloads)
        return real(policy, payloads)

    monkeypatch.setattr(pairwise, "total", watched)
    parts = {k: {"n": np.zeros(400, np.int64)} for k in range(3)}
    assert not SUMS(Turn(1, 1), parts)["n"].any()
    words = np.stack([np.frombuffer(raw, np.uint64) for raw in sent.values()])
    assert len(np.unique(words)) == words.size, "of zeros alone, nothing but masks arrives"
    assert (words >> np.uint64(63)).mean() == pytest.approx(0.5, abs=0.1)


def test_all_must_add_and_add_the_same():
    with pytest.raises(UserError, match="2 of 3 parties add in turn 4 of round 2"):
        SUMS(Turn(2, 4), {k: {"n": np.zeros(1, np.int64)} for k in range(2)})
    with pytest.raises(WrongMail, match="Party 2 adds"):
        SUMS(Turn(2, 4), {k: {"n": np.zeros(1 + k // 2, np.int64)} for k in range(3)})
    assert SUMS(Turn(1, 1), {k: {"n": np.zeros((0, 4), np.int64)} for k in range(3)})["n"].shape == (0, 4)


MOST = (2**63 - 1) // 4


@given(arrays.arrays(np.int64, (4, 2, 3), elements=st.integers(-MOST, MOST)))
@settings(max_examples=5, deadline=None)
def test_five_steps_add_the_same_and_bear_who_vanishes_once_it_has_added(numbers):
    parts = {k: {"b": part, "a": np.full(2, k)} for k, part in enumerate(numbers)}
    plain = {name: array.tolist() for name, array in added(parts).items()}
    for gone in ({}, {2: "vector"}, {0: "consent"}):
        found = SteppedSums(4, gone)(Turn(1, 2), parts)
        assert {name: array.tolist() for name, array in found.items()} == plain


def test_five_steps_without_somebodys_vector_are_no_sum_of_all():
    parts = {k: {"n": np.full(2, k)} for k in range(4)}
    with pytest.raises(UserError, match=r"Parties \[2\] vanished in turn 4 of round 2"):
        SteppedSums(4, {2: "shares"})(Turn(2, 4), parts)
    with pytest.raises(UserError, match="3 of 4 parties add in turn 4 of round 2"):
        SteppedSums(4)(Turn(2, 4), {k: parts[k] for k in range(3)})
    assert SteppedSums(3)(Turn(1, 1), {k: {"n": np.zeros((0, 4), np.int64)} for k in range(3)})["n"].shape == (
        0,
        4,
    )
