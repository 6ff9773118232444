"""Of a growing model only what is new: rows and places give the whole one back, and others are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from unalike.federation.envelope import Refused
from unalike.federation.growth import arrays_digest, changed, changes

ARRAYS = st.dictionaries(
    st.sampled_from(["base", "left", "value"]),
    st.sampled_from(["int32", "float64"]).flatmap(
        lambda kind: arrays_of.arrays(kind, arrays_of.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    ),
    min_size=1,
)


@given(ARRAYS, st.data())
@settings(max_examples=100, deadline=None)
def test_what_is_new_and_what_was_there_are_the_whole(before, data):
    now = {name: array.copy() for name, array in before.items()}
    for name in data.draw(st.sets(st.sampled_from(sorted(now)))):
        if now[name].ndim and len(now[name]):
            now[name][data.draw(st.integers(0, len(now[name]) - 1))] = data.draw(st.sampled_from([-1, 0, 7]))
    found, places = changes(before, now)
    assert arrays_digest(changed(before, found, places)) == arrays_digest(now)
    assert all(len(rows) <= len(now[name]) for name, rows in found.items() if name in places)


def test_only_what_is_new_is_told_and_a_nan_is_not_new():
    before = {"value": np.full((100, 7), np.nan), "base": np.zeros(1)}
    now = {"value": before["value"].copy(), "base": before["base"]}
    now["value"][40] = 1
    found, places = changes(before, now)
    assert ({name: rows.shape for name, rows in found.items()}, places) == ({"value": (1, 7)}, {"value": 40})


@pytest.mark.parametrize(
    ("found", "places"),
    [
        ({"a": np.zeros((2, 3))}, {"a": 3}),
        ({"a": np.zeros((2, 3))}, {"a": -1}),
        ({"a": np.zeros((2, 3))}, {"a": True}),
        ({"a": np.zeros((2, 3))}, {"b": 0}),
        ({"a": np.zeros((2, 2))}, {"a": 0}),
        ({"a": np.zeros(2)}, {"a": 0}),
        ({"a": np.zeros((2, 3), np.float32)}, {"a": 0}),
        ({"c": np.zeros((2, 3))}, {"c": 0}),
        ({}, None),
        ({}, [1]),
    ],
)
def test_what_does_not_fit(found, places):
    with pytest.raises(Refused):
        changed({"a": np.zeros((4, 3)), "b": np.zeros(4)}, found, places)
