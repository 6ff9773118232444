"""The different texts of a column, in the order of their first rows, whatever the order they came in."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unalike.data.columns import Column
from unalike.data.distinct import Distinct, in_order

CELLS = st.lists(st.sampled_from(["", "a", "b", "c", "é"]), min_size=1, max_size=20)


@given(CELLS, st.permutations(range(8)))
def test_order_and_repetitions_of_the_texts_do_not_matter(cells, order):
    """A dictionary may have texts twice, texts that no row has, and any order."""
    stock = [["", "a", "b", "c", "é", "a", "unused", "é"][place] for place in order]
    last = {text: place for place, text in enumerate(stock)}
    codes = np.array([stock.index(cell) if place % 2 else last[cell] for place, cell in enumerate(cells)])
    found, texts = in_order(codes, stock)
    assert texts == tuple(dict.fromkeys(cells))
    assert [texts[code] for code in found] == cells
    assert found.dtype == np.int32


@given(CELLS, st.data())
def test_some_rows_of_a_column(cells, data):
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(cells), max_size=len(cells))))
    some = Column.of("x", cells).where(keep)
    own = [cell for cell, kept in zip(cells, keep, strict=True) if kept]
    assert some.cells == own
    assert some.texts == tuple(dict.fromkeys(own))
    assert list(some.places) == [place + 1 for place in np.flatnonzero(keep)]


def test_texts_are_numbered_as_they_come():
    known = Distinct()
    assert known.codes(["b", "a", "b"]).tolist() == [0, 1, 0]
    assert known.codes(["c", "a"]).tolist() == [2, 1]
    assert list(known) == ["b", "a", "c"]
