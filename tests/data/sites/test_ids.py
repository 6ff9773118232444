"""Ids of people: one form of what is the same, and a refusal of what could be two people's or nobody's."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.data.columns import Column
from unalike.data.sites.ids import IdRule, ids_digest, in_order, to_test
from unalike.errors import UserError


def ids(*cells, rule=None, name="who", first=2, unit="line"):
    return (rule or IdRule(("who",))).read([Column.of(name, cells, first, unit)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ärger 1", "ärger 1"),
        ("  a ", "a"),
        ("straße", "STRASSE"),
        ("ﬁn", "fin"),
        ("１７", "17"),
        ("17.0", "17"),
        ("17.000", " 17 "),
        (unicodedata.normalize("NFD", "é"), "é"),
        ("a\u00a0", "a"),
        ("-3.0", "-3"),
    ],
)
def test_what_is_the_same_id(one, other):
    assert ids(one) == ids(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("017", "17"),
        ("a b", "ab"),
        ("17.5", "17"),
        ("1e1", "10"),
        ("e", "é"),
        ("12345678901234567.0", "12345678901234567"),
    ],
)
def test_what_is_another_id(one, other):
    assert ids(one) != ids(other)


def test_case_and_blanks_can_be_told_apart():
    keeps, whole = IdRule(("who",), "keep"), IdRule(("who",), strip=False)
    assert ids("A", rule=keeps) != ids("a", rule=keeps)
    assert ids(" a", rule=keeps) == ids("a", rule=keeps)
    assert ids(" a", rule=whole) != ids("a", rule=whole)
    assert ids(" A", rule=whole) == ids(" a", rule=whole)


@given(st.text(max_size=20))
def test_the_one_form_of_a_form_is_itself(text):
    for rule in (IdRule(("who",)), IdRule(("who",), "keep", strip=False)):
        form = rule.normal(text)
        assert rule.normal(form) == form


@given(
    st.lists(
        st.tuples(st.text("ab1", min_size=1, max_size=3), st.text("ab1", min_size=1, max_size=3)), unique=True
    )
)
def test_several_columns_are_never_confused(pairs):
    columns = [Column.of(name, [pair[place] for pair in pairs]) for place, name in enumerate(("a", "b"))]
    found = IdRule(("a", "b"), "keep").read(columns)
    assert len(set(found)) == len(pairs)


def test_several_columns_must_each_be_there():
    columns = [Column.of("a", ["x", "x"]), Column.of("b", ["1", "?"])]
    with pytest.raises(UserError, match="column b: 1 row has no id"):
        IdRule(("a", "b")).read(columns)
    with pytest.raises(UserError, match=r"Unknown id column 'born'\. Did you mean 'borne'\?"):
        IdRule(("born",)).read([Column.of("borne", ["x"])])


def test_duplicates_are_counted_and_the_first_is_told_by_its_rows():
    cells = ["a", "b", "A ", "c", "b", "b"]
    with pytest.raises(UserError) as error:
        ids(*cells)
    assert str(error.value) == (
        "2 ids occur twice (first in lines 2 and 4). Each person must have one row: merge them first."
    )


@pytest.mark.parametrize("cells", [["", "a"], [" ", "a"], ["NA", "a"], ["\u3000", "a"]])
def test_an_empty_id_is_told_with_the_number_of_rows(cells):
    with pytest.raises(UserError, match=r"column who: 1 row has no id\. Fill them in or leave these rows out\."):
        ids(*cells)
    with pytest.raises(UserError, match="column who: 3 rows have no id"):
        ids(*cells, "", "")


@pytest.mark.parametrize("columns", [(), ("a", "a")])
def test_an_id_is_some_columns_each_once(columns):
    with pytest.raises(UserError, match="each once"):
        IdRule(columns)


def test_the_order_is_that_of_people_whatever_the_rows_are():
    people = [b"%d" % n for n in range(300)]
    shuffled = [people[place] for place in np.random.default_rng(1).permutation(300)]
    first, other = ([one[place] for place in in_order(one)] for one in (people, shuffled))
    assert first == other
    assert first not in (people, sorted(people))
    mask = to_test(people, 0.2)
    assert {one for one, test in zip(people, mask, strict=True) if test} == {
        one for one, test in zip(shuffled, to_test(shuffled, 0.2), strict=True) if test
    }
    assert 30 < mask.sum() < 90
    assert (to_test(people, 0.3) >= mask).all(), "a larger test set has the people of a smaller one"
    assert ids_digest(people) == ids_digest(shuffled) != ids_digest(people[1:])
