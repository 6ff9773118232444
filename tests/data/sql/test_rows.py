"""The order of rows: whatever order they come in, and as a plain sort of them would have it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.data.columns import KEY, MISSING
from unalike.data.digest import table_digest
from unalike.data.numerals import number
from unalike.data.sql.answer import Answer, Heading, as_it_is, decimal, moment, truth
from unalike.data.sql.rows import read_rows
from unalike.errors import UserError

NAMES = ("a", "b", "c")
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["1", "2", "10", "-3", "1.0", "", None]),
        st.sampled_from(["x", "X", "", "10", None]),
        st.sampled_from(["1.50", "1.5", "20", "NaN", None]),
    ),
    min_size=1,
    max_size=12,
)


def answer(rows, piece=5):
    ways = (as_it_is, as_it_is, decimal)
    headings = [Heading(name, "text", way) for name, way in zip(NAMES, ways, strict=True)]
    return Answer(headings, iter([rows[start : start + piece] for start in range(0, len(rows), piece)]))


def rows_of(columns):
    return list(zip(*(column.cells for column in columns), strict=True))


def plainly(rows, key):
    """The rows as a reader of the documentation would sort them."""
    texts = [(a or "", b or "", decimal(c or "")) for a, b, c in rows]

    def order(name):
        place = NAMES.index(name)
        known = {row[place] for row in texts if row[place].strip().lower() not in MISSING}
        numbers = all(number(text) is not None for text in known)

        def value(row):
            text = row[place]
            return (text in known, number(text) if numbers and text in known else 0.0, text)

        return value

    by = [order(name) for name in (*key, *NAMES)]
    return sorted(texts, key=lambda row: [one(row) for one in by])


@given(ROWS, st.lists(st.sampled_from(NAMES), unique=True, max_size=2), st.randoms(use_true_random=False))
def test_rows_have_an_order_of_their_own(rows, key, random):
    found = read_rows(answer(rows), key, "clinic")
    shuffled = random.sample(rows, len(rows))
    assert rows_of(found) == plainly(rows, key)
    assert table_digest(read_rows(answer(shuffled, piece=3), key, "clinic")) == table_digest(found)
    assert {column.name for column in found if column.unusable == KEY} == set(key)


@pytest.mark.parametrize(
    ("way", "text", "written"),
    [
        (decimal, "1.50", "1.5"),
        (decimal, "100.00", "100"),
        (decimal, "100", "100"),
        (decimal, "-0.10", "-0.1"),
        (decimal, "1.5e10", "1.5e10"),
        (decimal, "NaN", "NaN"),
        (truth, "t", "true"),
        (truth, "false", "false"),
        (moment, "2024-12-31 10:00:00+00", "2024-12-31 10:00:00+00:00"),
        (moment, "infinity", "infinity"),
    ],
)
def test_a_value_is_written_in_one_way(way, text, written):
    assert way(text) == written


def test_a_key_must_have_an_order():
    headings = [Heading("id", "uuid", None), Heading("n", "int4", as_it_is)]
    with pytest.raises(UserError, match="The key id is uuid"):
        read_rows(Answer(headings, iter([[("a", "1")]])), ["id"], "clinic")
