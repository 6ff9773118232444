"""Steps 1 to 3: what a range tells, and messages that anybody may have sent."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.measure import measure
from unalike.measure.cdf import count, read_cdf
from unalike.measure.support import DistributionPolicy, Support, agree, support_of
from unalike.measure.wire import MOST_BYTES

FEATURES = np.arange(6.0).reshape(3, 2)


def test_a_range_tells_no_rows_own_value():
    rng = np.random.default_rng(0)
    for scale in (1e-12, 1.0, 1e12):
        x = rng.normal(3, 1, (50, 1)) * scale
        support = support_of("a", x)
        width = x.max() - x.min()
        assert width / 32 <= x.min() - support.low[0] <= width / 8
        assert width / 32 <= support.high[0] - x.max() <= width / 8


@pytest.mark.parametrize(
    "column",
    [
        [37.125],  # one row
        [37.125, 37.125],
        [0.0],
        [34.0, 59.0],  # on any grid of powers of two
        [0.0, 1.0],
        [10.25, 12.75],
        [1e16, 1e16 + 4],
        [5e-324],
        [0.0, 5e-324],
        [-3.0, -3.0],
        [1e-300, 1.1e-300],
        [1e308],
    ],
)
def test_neither_end_is_a_value_and_the_ends_are_random(column):
    values = np.array(column)[:, None]
    drawn = [support_of("a", values) for _ in range(30)]
    for support in drawn:
        assert support.low[0] < values.min()
        assert support.high[0] > values.max()
        assert all(map(math.isfinite, (*support.low, *support.high)))
    if abs(values.max()) not in (5e-324, 1e16 + 4):  # where floating point has few numbers in between
        assert len({support.low for support in drawn}) == len({support.high for support in drawn}) == 30
    assert support_of("a", values, Random(7)) == support_of("a", values, Random(7))


def test_the_same_seed_gives_the_same_bins_in_every_mode():
    parties = {name: FEATURES + k for k, name in enumerate("abc")}
    first = measure(parties, of="features", protect="none", seed=3)
    again = measure(dict(reversed(parties.items())), of="features", protect="none", seed=3)
    other = measure(parties, of="features", protect="none", seed=4)
    assert first.policy == again.policy
    assert first.policy.low != other.policy.low


GOOD_SUPPORT = {"labels": [], "low": [0.0], "high": [1.0]}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b" " * (MOST_BYTES + 1),
        b'{"labels":["x"]}',
        b'{"labels":["x"],"low":[1],"high":[1]}',
        b'{"labels":[],"low":[],"high":[]}',
        b'{"labels":[1],"low":[],"high":[]}',
        b'{"labels":["a","a"],"low":[],"high":[]}',
        b'{"labels":["\\ud800"],"low":[],"high":[]}',
        b'{"labels":[],"low":[2],"high":[1]}',
        b'{"labels":[],"low":[1,2],"high":[3]}',
        b'{"labels":[],"low":[NaN],"high":[1]}',
        b'{"labels":[],"low":[true],"high":[true]}',
        b'{"labels":[],"low":[0],"high":[1' + b"0" * 400 + b"]}",
        b'{"labels":[],"low":[0],"high":[1' + b"0" * 5000 + b"]}",
        b'{"labels":[],"low":[0],"high":[1e999]}',
        b'{"labels":[],"low":["0"],"high":["1"]}',
        b'{"labels":"x","low":[],"high":[]}',
    ],
)
def test_malformed_supports_name_the_party(raw):
    with pytest.raises(UserError, match="Party 'oslo' sent"):
        Support.from_bytes(raw, "oslo")


@pytest.mark.parametrize(
    "change",
    [
        {"weighting": "no"},
        {"weighting": ["rows"]},
        {"bins": -5},
        {"bins": 1},
        {"bins": 10**12},
        {"bins": 64.0},
        {"bins": True},
        {"parties": "3"},
        {"parties": 0},
        {"parties": 10**9},
        {"most_rows": 0},
        {"most_rows": 10**30},
        {"scale": 0},
        {"scale": 2**40},
        {"low": ["a"], "high": ["b"]},
        {"low": [None]},
        {"low": [float("nan")]},
        {"low": [20.0]},
        {"low": [10**400]},
        {"low": [-1.7e308], "high": [1.7e308]},
        {"low": [0.0] * 5000, "high": [1.0] * 5000, "bins": 4096},
        {"labels": ["a"]},
        {"labels": ["a", "a"], "low": [], "high": [], "bins": 0},
        {"labels": [1, 2], "low": [], "high": [], "bins": 0},
        {"labels": ["a", "b"], "low": [], "high": [], "bins": 64},
        {"low": [], "high": [], "bins": 0},
    ],
)
def test_malformed_policies_name_the_server(change):
    good = json.loads(agree(dict.fromkeys("abc", support_of("a", FEATURES[:, :1]))).to_bytes())
    DistributionPolicy.from_bytes(json.dumps(good).encode())
    with pytest.raises(UserError, match="The server sent"):
        DistributionPolicy.from_bytes(json.dumps(good | change).encode())


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
)
NUMBERS = st.lists(st.floats() | st.integers(), max_size=3)
NAMES = st.lists(st.text(max_size=3), max_size=3)


@settings(max_examples=300, deadline=None)
@given(st.fixed_dictionaries({"labels": NAMES | ANYTHING, "low": NUMBERS | ANYTHING, "high": NUMBERS | ANYTHING}))
def test_any_support_is_usable_or_a_user_error(found):
    with suppress(UserError):
        support = Support.from_bytes(json.dumps(found).encode(), "oslo")
        agree(dict.fromkeys("abc", support))


@settings(max_examples=300, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "parties": st.just(3) | ANYTHING,
            "weighting": st.sampled_from(["rows", "parties"]) | ANYTHING,
            "most_rows": st.just(1000) | ANYTHING,
            "scale": st.just(16) | ANYTHING,
            "labels": NAMES | ANYTHING,
            "low": NUMBERS | ANYTHING,
            "high": NUMBERS | ANYTHING,
            "bins": st.sampled_from([0, 2, 64]) | ANYTHING,
        }
    )
)
def test_any_policy_is_usable_or_a_user_error(found):
    with suppress(UserError):
        policy = DistributionPolicy.from_bytes(json.dumps(found).encode())
        values = {policy.labels[0]: 3} if policy.labels else np.zeros((2, policy.dimensions))
        cdf = read_cdf(policy, count(policy, "oslo", values))
        assert ((cdf.values >= 0) & (cdf.values <= 1)).all()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60) | st.text('[]{}",:0123456789e.-naltrue', max_size=60).map(str.encode))
def test_any_bytes_are_a_user_error(raw):
    for read in (lambda: Support.from_bytes(raw, "oslo"), lambda: DistributionPolicy.from_bytes(raw)):
        with pytest.raises(UserError):
            read()
