"""Derivatives as integers: sums of many rows are taken apart exactly, up to their bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.secure.crypto.errors import CryptoError
from unalike.trees.arithmetic import SHIFT
from unalike.trees.objective import GREATEST
from unalike.vertical.gradient_code import GradientCode

MOST = {"binary": (1, 0.25), "softmax": (1, 0.5), "squared-error": (GREATEST, 1), "poisson": (GREATEST, GREATEST)}


@given(st.sampled_from(sorted(MOST)), st.integers(1, 10**6), st.data())
@settings(max_examples=50, deadline=None)
def test_sums_of_any_rows_are_taken_apart(objective, rows, data):
    code = GradientCode.of(objective, rows)
    g_most, h_most = (int(most * 2**SHIFT) for most in MOST[objective])
    g = data.draw(st.sampled_from([-g_most, g_most]) | st.integers(-g_most, g_most))
    h = data.draw(st.sampled_from([0, h_most]) | st.integers(0, h_most))
    (one,) = code.coded(np.array([g]), np.array([h]))
    assert code.sums([one * rows]).tolist() == [[g * rows, h * rows]]
    assert abs(one * rows) < 1 << (code.bits - 1), "the sum fits into a packed digit"


def test_the_greatest_sums_are_taken_apart():
    for objective, most in MOST.items():
        g, h = (int(one * 2**SHIFT) for one in most)
        for rows in (1, 7, 1000):
            code = GradientCode.of(objective, rows)
            for sign in (1, -1):
                (one,) = code.coded(np.array([sign * g]), np.array([h]))
                assert code.sums([one * rows]).tolist() == [[sign * g * rows, h * rows]]


def test_no_sums_are_no_rows_of_two():
    assert GradientCode.of("binary", 5).sums([]).shape == (0, 2)


def test_what_no_sum_can_be_is_refused():
    code = GradientCode.of("binary", 5)
    with pytest.raises(CryptoError, match="greater than it can be"):
        code.sums([1 << code.bits])
