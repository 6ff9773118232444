"""Codings that sites agree on, compared with what one would compute of all rows in one place."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unalike.data.columns import Column
from unalike.data.declared import declare
from unalike.data.roles import test_rows as chosen_rows
from unalike.data.schema import Field, Schema
from unalike.data.sites import site_data
from unalike.data.sites.agreement import agree, check_agreed
from unalike.data.sites.description import MOST_ROWS, Described, Description, describe
from unalike.errors import UserError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


def table(**columns):
    return [Column.of(name, map(str, cells), 2, "line") for name, cells in columns.items()]


def told(columns, missing="indicate", ignore=(), label="y", test=0.2):
    return describe(columns, label, ignore, missing, test)


def agreed(*tables, missing="indicate"):
    return agree({f"site{n}": told(one, missing) for n, one in enumerate(tables)})


def labels(count):
    return ["a", "b"] * (count // 2) + ["a"] * (count % 2)


def train_of(columns, test=0.2):
    """The rows that are trained on, as a mask."""
    y = np.array([cell == "b" for cell in columns[-1].cells]).astype(int)
    return ~chosen_rows(y, np.zeros(len(y), int), test)


@pytest.mark.parametrize("sizes", [(30, 50), (21, 40, 33)])
def test_numbers_are_standardised_as_if_pooled(sizes):
    rng = np.random.default_rng(len(sizes))
    tables = [table(x=rng.normal(40 * n, 1 + n, size), y=labels(size)) for n, size in enumerate(sizes)]
    schema = agreed(*tables)
    train = np.concatenate([one[0].numbers()[train_of(one)] for one in tables])
    coded = np.concatenate([schema.code(one, "indicate")[0][:, 0] for one in tables])
    pooled = np.concatenate([one[0].numbers() for one in tables])
    # The agreed constants have six digits: that is how far a coded value may be off.
    assert np.allclose(coded, (pooled - train.mean()) / train.std(), atol=1e-4)
    assert schema.fields[0].shift == pytest.approx(train.mean(), rel=1e-5)
    assert schema.fields[0].scale == pytest.approx(train.std(), rel=1e-5)


def test_rows_that_are_tested_on_do_not_enter_the_constants():
    one = table(x=range(20), y=labels(20))
    train = train_of(one)
    far = [1e9 if not train[i] else i for i in range(20)]
    assert agreed(table(x=far, y=labels(20)), one).fields == agreed(one, one).fields


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=8), min_size=2, max_size=4))
@settings(max_examples=30, deadline=None)
def test_the_order_of_sites_does_not_matter(columns):
    each = [
        told(table(x=cells, z=["u", "v"] * (len(cells) // 2) + ["u"] * (len(cells) % 2), y=labels(len(cells))))
        for cells in columns
    ]
    made = [agree({str(i): each[i] for i in order}) for order in itertools.permutations(range(len(each)))]
    for other in made[1:]:
        assert other.classes == made[0].classes
        assert other.features == made[0].features
        for a, b in zip(made[0].fields, other.fields, strict=True):
            # Sums in another order may differ in the last bit, and six digits be rounded the other way.
            assert a.shift == pytest.approx(b.shift, rel=2e-5, abs=1e-9)
            assert a.scale == pytest.approx(b.scale, rel=2e-5)


def test_categories_are_the_union_of_all_sites():
    one = table(c=["red", "blue"] * 5, y=labels(10))
    two = table(c=["red", " green "] * 5, y=labels(10))
    schema = agreed(one, two)
    assert schema.features == ("c_blue", "c_green", "c_red")
    x, _ = schema.code(two, "indicate")
    assert np.array_equal(x, [[0, 0, 1], [0, 1, 0]] * 5)


@pytest.mark.parametrize("only", ["Yes", "no"])
def test_binary_at_one_site_and_one_value_at_another(only):
    schema = agreed(table(c=["yes", "no"] * 5, y=labels(10)), table(c=[only] * 10, y=labels(10)))
    assert schema.features == ("c",)
    assert schema.fields[0].kind == "binary"
    x, _ = schema.code(table(c=[only] * 10, y=labels(10)), "indicate")
    assert (x == (only == "Yes")).all()


def test_a_value_in_the_test_rows_of_one_site_alone_is_all_zeros():
    one = table(c=["u", "v"] * 10, y=labels(20))
    train = train_of(one)
    cells = ["rare" if i == int(np.argmin(train)) else "u" if i % 3 else "v" for i in range(20)]
    two = table(c=cells, y=labels(20))
    schema = agreed(one, two)
    assert schema.features == ("c_u", "c_v")
    data = site_data("two", schema, two, "indicate", 0.2)
    assert np.array_equal(np.sort(data.x_test.sum(axis=1)), [0, 1, 1, 1])


def test_numbers_and_texts_do_not_mix_and_both_sites_are_named():
    with pytest.raises(UserError, match=r"column c: site0 has numbers, site1 has texts \(low, mid\)"):
        agreed(table(c=range(10), y=labels(10)), table(c=["low", "mid"] * 5, y=labels(10)))


def test_dates_are_pooled_as_days_since_1970():
    one = table(d=[f"2024-01-{n:02}" for n in range(1, 21)], y=labels(20))
    two = table(d=[f"2024-02-{n:02}T12:00" for n in range(1, 21)], y=labels(20))
    schema = agreed(one, two)
    assert (schema.features, schema.fields[0].kind) == (("d",), "date")
    train = np.concatenate([each[0].numbers()[train_of(each)] for each in (one, two)])
    assert schema.fields[0].shift == pytest.approx(train.mean(), rel=1e-5)
    assert schema.fields[0].scale == pytest.approx(train.std(), rel=1e-5)
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    days = one[0].numbers()
    assert np.allclose(again.code(one, "error")[0][:, 0], (days - schema.fields[0].shift) / schema.fields[0].scale)
    same_day = table(d=["2024-01-05"] * 10, y=labels(10))  # does not vary at this site
    assert agreed(one, same_day).features == ("d",)


@pytest.mark.parametrize(
    ("cells", "said"),
    [([2023, 2024] * 5, "site1 has numbers"), (["spring", "autumn"] * 5, r"site1 has texts \(autumn, spring\)")],
)
def test_dates_do_not_mix_with_other_things(cells, said):
    dates, other = [table(d=each, y=labels(10)) for each in (["2024-01-01", "2024-01-31"] * 5, cells)]
    with pytest.raises(UserError, match=f"column d: site0 has dates, {said}"):
        agreed(dates, other)
    with pytest.raises(UserError, match="column d: dates were agreed on, and it has none"):
        agreed(dates, dates).code(other, "error")
    with pytest.raises(UserError, match="the schema takes it for a date, here it is a"):
        check_agreed(agreed(dates, dates), told(other))


def test_decimal_commas_at_one_site_agree_with_points_at_another():
    one = table(x=[f"{n},5" for n in range(10)], y=labels(10))
    two = table(x=[f"{n}.5" for n in range(10)], y=labels(10))
    assert agreed(one, two) == agreed(two, two)
    with pytest.raises(UserError, match="column x: it is not clear which number '1,000' is"):
        told(table(x=[f"{n},000" for n in range(1, 11)], y=labels(10)))


def test_codes_of_classes_are_looked_at_together_and_quantities_refused():
    even, odd = [table(x=range(180), y=[n % 30 * 2 + first for n in range(180)]) for first in (0, 1)]
    assert len(agreed(even, odd).classes) == 60  # alone, none of them has 0, 1, 2, ...
    with pytest.raises(UserError, match="The label y has 30 different numbers, from 0 to 58: a quantity"):
        agreed(even, even)


@pytest.mark.parametrize("swap", [False, True])
def test_a_missing_column_names_it_and_both_sites(swap):
    tables = [table(a=range(10), c=range(10), y=labels(10)), table(a=range(10), y=labels(10))]
    has, lacks = ("site1", "site0") if swap else ("site0", "site1")
    with pytest.raises(UserError, match=f"column c: {has} has it, {lacks} does not"):
        agreed(*(tables[::-1] if swap else tables))


def test_other_labels_are_refused():
    one = table(x=range(10), y=labels(10))
    other = describe(table(x=range(10), z=labels(10)), "z", (), "error", 0.2)
    with pytest.raises(UserError, match="b predicts column 'z', a 'y'"):
        agree({"a": told(one), "b": other})
    same = table(x=range(10), y=["a"] * 10)
    with pytest.raises(UserError, match="is 'a' at every site"):
        agreed(same, same)


def test_constant_columns():
    one, two = table(k=[1] * 10, x=range(10), y=labels(10)), table(k=[2] * 10, x=range(10), y=labels(10))
    assert agreed(one, one).ignore == ("k",)
    assert agreed(one, one).features == ("x",)
    schema = agreed(one, two)  # constant at each, but it tells the sites apart
    assert schema.features == ("k", "x")
    assert np.allclose(schema.code(one, "error")[0][:, 0], -1)
    nothing = table(k=[1] * 10, y=labels(10))
    with pytest.raises(UserError, match="nothing to learn from"):
        agreed(nothing, nothing)


def test_a_column_that_one_site_never_measured():
    one = table(x=[*range(9), "?"], c=["u", "v"] * 5, y=labels(10))
    two = table(x=[""] * 10, c=["NA"] * 10, y=labels(10))
    schema = agreed(one, two)
    assert schema.features == ("x", "x_missing", "c_u", "c_v", "c_missing")
    x, _ = schema.code(two, "indicate")
    assert np.array_equal(x, [[0, 1, 0, 0, 1]] * 10)
    assert schema.fields == agreed(one, two, two).fields


def test_a_column_that_nobody_measured_tells_only_that():
    none = table(x=[""] * 10, z=range(10), y=labels(10))
    schema = agreed(none, none)
    assert np.isfinite(schema.code(none, "indicate")[0]).all()


def test_dropped_rows_are_the_same_when_described_and_when_coded():
    """A column that varies nowhere decides which rows are dropped, both times."""
    one = table(k=["1", ""] * 10, x=range(20), y=["a", "a", "b", "b"] * 5)
    schema = agree({"a": told(one, "drop"), "b": told(one, "drop")})
    assert schema.ignore == ("k",)
    x, y = schema.code(one, "drop")
    assert len(x) == len(y) == 10
    train = ~chosen_rows(y, np.zeros(len(y), int), 0.2)
    assert x[train].mean() == pytest.approx(0, abs=1e-5)


def test_names_and_free_text_never_leave():
    names = [f"patient {i}" for i in range(40)]
    with pytest.raises(UserError, match="column c: every value differs, as an identifier's"):
        told(table(c=names, y=labels(40)))
    twice = names[:-1] + names[:1]
    with pytest.raises(UserError, match=r"column c: 39 different texts in 40 rows are too many.*set ignore=c"):
        told(table(c=twice, y=labels(40)))
    with pytest.raises(UserError, match=r"The label y has 40 different values in 40 rows.*Name a column"):
        told(table(x=range(40), y=range(40)))
    assert told(table(c=names, x=range(40), y=labels(40)), ignore=("c",)).columns[0].name == "x"


def test_a_description_holds_no_row():
    cells = [math.sqrt(i) for i in range(2, 52) if math.isqrt(i) ** 2 != i]
    said = json.dumps(told(table(x=cells, y=labels(len(cells)))).to_dict())
    assert not any(str(cell) in said for cell in cells)


def test_labels_are_written_one_way():
    schema = agreed(table(x=range(4), y=["1", "2"] * 2), table(x=range(4), y=["1.0", "10"] * 2))
    assert schema.classes == ("1", "2", "10")
    assert schema.code(table(x=[1, 2], y=["1.0", "1e1"]), "error")[1].tolist() == [0, 2]


def test_an_unknown_label_after_agreement():
    schema = agreed(table(x=range(10), y=labels(10)))
    with pytest.raises(UserError, match="ward: column y: the label 'c' was not agreed on"):
        site_data("ward", schema, table(x=[1, 2], y=["a", "c"]), "error", 0.2)
    with pytest.raises(UserError, match="column x: it was agreed on, but is not in this table"):
        schema.code(table(z=[1, 2], y=["a", "b"]), "error")


def test_unicode():
    one = table(größe=range(10), farbe=["grün", "青"] * 5, y=["да", "нет"] * 5)
    schema = Schema.from_dict(json.loads(json.dumps(agreed(one, one, missing="error").to_dict())))
    assert schema.features == ("größe", "farbe_grün", "farbe_青")
    assert schema.code(one, "error")[1].tolist() == [0, 1] * 5


def test_a_coded_column_that_would_be_there_twice():
    one = table(a=["b", "c"] * 5, a_b=range(10), y=labels(10))
    with pytest.raises(UserError, match="column a_b: its coded column 'a_b' is there already"):
        agreed(one, one)


@pytest.mark.parametrize("large", [1e308, 1e155])
def test_values_that_are_too_large(large):
    with pytest.raises(UserError, match=r"column x: .* too large"):
        agreed(table(x=[large, -large] * 5, y=labels(10)), table(x=range(10), y=labels(10)))
    schema = agreed(table(x=range(10), y=labels(10)))
    with pytest.raises(UserError, match="column x: a value is too large for its agreed scale"):
        schema.code(table(x=[1e300, 1], y=["a", "b"]), "error")


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "?", "1", "2.5", "-7e3"]), st.sampled_from(["u", "v", "NA"])),
        min_size=10,
        max_size=20,
    )
)
@settings(max_examples=50, deadline=None)
def test_codes_are_finite(cells):
    one = table(x=[a for a, _ in cells], c=[b for _, b in cells], z=range(len(cells)), y=labels(len(cells)))
    two = table(x=range(10), c=["u", "w"] * 5, z=range(10), y=labels(10))
    schema = agreed(one, two)
    x, y = schema.code(one, "indicate")
    assert x.shape == (len(cells), len(schema.features))
    assert x.dtype == np.float32
    assert np.isfinite(x).all()
    assert set(y.tolist()) <= {0, 1}


text = st.text(min_size=1, max_size=6)
finite = st.floats(allow_nan=False, allow_infinity=False)
described = st.builds(
    Described,
    text,
    st.sampled_from(["number", "binary", "category"]),
    st.lists(text, max_size=3).map(tuple),
    st.integers(0, MOST_ROWS),
    finite,
    finite.map(abs),
    st.booleans(),
)


@given(
    st.builds(
        Description,
        text,
        st.lists(text, min_size=1, max_size=3).map(tuple),
        st.lists(described, max_size=4, unique_by=lambda one: one.name).map(tuple),
        st.integers(1, MOST_ROWS),
    )
)
@settings(max_examples=60, deadline=None)
def test_a_description_survives_json(one):
    assert Description.from_dict(json.loads(json.dumps(one.to_dict()))) == one


@given(
    st.lists(
        st.builds(
            Field,
            text,
            st.just("number"),
            finite,
            st.floats(1e-300, 1e300),
            indicate=st.booleans(),
        ),
        min_size=1,
        max_size=4,
        unique_by=lambda one: one.name,
    ),
    st.lists(text, min_size=2, max_size=3, unique=True).map(tuple),
)
@settings(max_examples=60, deadline=None)
def test_a_schema_survives_json(fields, classes):
    try:
        schema = Schema("y", classes, tuple(fields), ("k",))
    except UserError:  # a name such as a_missing beside a
        return
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again == schema
    assert again.digest == schema.digest


def damaged(good, path, value):
    """A copy with one value replaced."""
    copy = json.loads(json.dumps(good))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


def paths(value, before=()):
    yield before
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*before, key))


ONE = told(table(x=range(10), c=["u", "v"] * 5, y=labels(10)))
GOOD = {Description: ONE.to_dict(), Schema: agree({"a": ONE, "b": ONE}).to_dict()}
GOOD = {kind: json.loads(json.dumps(value)) for kind, value in GOOD.items()}


@pytest.mark.parametrize("kind", GOOD)
@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_malformed_ones_are_refused_and_never_crash(kind, data):
    """Whatever is accepted can be worked with."""
    path = data.draw(st.sampled_from(list(paths(GOOD[kind]))))
    value = data.draw(JSON)
    try:
        made = kind.from_dict(value if not path else damaged(GOOD[kind], path, value))
        if kind is Description:
            agree({"a": ONE, "b": made})
            agree({"b": made})
        else:
            x, _ = made.code(table(x=range(10), c=["u", "v"] * 5, y=labels(10)), "error")
            assert np.isfinite(x).all()
    except (ValueError, UserError):
        pass


@pytest.mark.parametrize("path", [p for p in paths(GOOD[Schema]) if p])
@pytest.mark.parametrize("value", [None, [], {}, -1, 10**400, math.nan, math.inf, 10**9])
def test_every_field_of_a_schema_is_checked(path, value):
    if path[0] == "ignore" or (path[-1] == "shift" and type(value) is int and value < 10**10) or value == []:
        return  # as good as what was there
    if path[-1] == "scale" and value == 10**9:
        return
    with pytest.raises(ValueError):
        Schema.from_dict(damaged(GOOD[Schema], path, value))


@pytest.mark.parametrize("count", [0, 2**60, True, 1.5, "3"])
def test_impossible_counts(count):
    with pytest.raises(ValueError):
        Description.from_dict(damaged(GOOD[Description], ("rows",), count))


@pytest.mark.parametrize("squares", [-1.0, math.nan, math.inf, "1", None, 10**400])
def test_impossible_sums(squares):
    with pytest.raises(ValueError):
        Description.from_dict(damaged(GOOD[Description], ("columns", 0, "squares"), squares))


def test_bombs_are_refused():
    many = [{**GOOD[Schema]["fields"][0], "name": f"x{i % 2}"} for i in range(20_000)]
    with pytest.raises(UserError, match="twice"):  # and not after minutes
        Schema.from_dict({**GOOD[Schema], "fields": many})
    wide = {**GOOD[Schema]["fields"][1], "values": [str(i) for i in range(1001)]}
    with pytest.raises(ValueError, match="no usable coding"):
        Schema.from_dict({**GOOD[Schema], "fields": [wide]})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"label": "c"}, "predicts 'c', not 'y'"),
        ({"fields": (Field("x", "number"),)}, "column c: by this site's plan"),
        (
            {"fields": (Field("x", "number"), Field("c", "category", values=("u",)), Field("secret", "number"))},
            "column secret: by this site's plan",
        ),
        ({"fields": (Field("x", "number"), Field("c", "number"))}, "takes it for a number, here it is a category"),
        (
            {"fields": (Field("x", "category", values=("1",)), Field("c", "category", values=("u",)))},
            "takes it for a category, here it is a number",
        ),
    ],
)
def test_a_site_does_not_code_what_its_plan_does_not_say(change, why):
    """A server that proposes the ignored column, another label, or a kind that makes the site quote a cell."""
    columns = table(x=range(10), c=["u", "v"] * 5, secret=range(10), y=labels(10))
    own = told(columns, ignore=("secret",))
    schema = agree({"a": own, "b": own})
    check_agreed(schema, own)
    made = Schema(**{"label": "y", "classes": schema.classes, "fields": schema.fields, **change})
    with pytest.raises(UserError, match=why):
        check_agreed(made, own)


def test_kinds_that_the_plan_says():
    """Codes are categories at every site, also at one that has two of them only; an order is everybody's."""
    said = "cp:category grade:ordinal(low<mid<high) smokes:binary"
    one = declare(table(cp=[1, 2, 3, 4] * 5, grade=["low", "mid"] * 10, smokes=[0, 1] * 10, y=labels(20)), said)
    two = declare(table(cp=["1.0", "2"] * 5, grade=["high"] * 10, smokes=["no"] * 10, y=labels(10)), said)
    schema = agreed(one, two)
    assert schema.features == ("cp_1", "cp_2", "cp_3", "cp_4", "grade", "smokes")
    check_agreed(schema, told(two))
    x, _ = schema.code(two, "error")
    assert np.array_equal(x[:, :4], [[1, 0, 0, 0], [0, 1, 0, 0]] * 5)
    grade = schema.fields[1]
    assert np.allclose(x[:, 4], (2 - grade.shift) / grade.scale)
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert np.array_equal(again.code(one, "error")[0], schema.code(one, "error")[0])
    third = table(cp=[1, 2] * 5, grade=["low"] * 10, smokes=[0, 1] * 5, y=labels(10))
    other = declare(third, said.replace("mid<", ""))
    with pytest.raises(UserError, match="column grade: sites have its values in different orders"):
        agreed(one, other)
    with pytest.raises(UserError, match="column grade: the schema has another order"):
        check_agreed(schema, told(other))
    with pytest.raises(UserError, match="column cp: the schema takes it for a category, here it is a number"):
        check_agreed(schema, told(declare(third, "grade:ordinal(low<mid<high)")))
    with pytest.raises(UserError, match="column grade: 'top' in line 2 is not in the order low<mid<high"):
        told(declare(table(cp=[1, 2] * 5, grade=["top"] + ["low"] * 9, smokes=[0, 1] * 5, y=labels(10)), said))
