"""The hash of a table's rows: the same for the same rows, another for any change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.data.columns import Column
from unalike.data.digest import table_digest

TEXTS = st.lists(st.text('ab",\n', max_size=2), min_size=1, max_size=5)


def columns(**cells):
    return [Column.of(name, tuple(texts)) for name, texts in cells.items()]


@pytest.mark.parametrize(
    "other",
    [
        columns(a=["1", "2"], b=["x", "z"]),
        columns(a=["2", "1"], b=["x", "y"]),
        columns(b=["x", "y"], a=["1", "2"]),
        columns(a=["1", "2", "2"], b=["x", "y", "y"]),
        columns(a=["1", "2"]),
        columns(c=["1", "2"], b=["x", "y"]),
        columns(a=["1", "2 "], b=["x", "y"]),
    ],
)
def test_any_change_is_another_hash(other):
    assert table_digest(other) != table_digest(columns(a=["1", "2"], b=["x", "y"]))


@given(TEXTS, TEXTS)
def test_only_the_same_rows_have_the_same_hash(first, second):
    same = table_digest(columns(a=first)) == table_digest(columns(a=second))
    assert same == (first == second)
