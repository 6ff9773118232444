"""New rows for a trained model: coded as training codes them, or refused by column, value and line."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.sites.test_agreement import agreed, labels, table
from unalike.data.columns import Column
from unalike.data.new_rows import read_new_rows
from unalike.data.schema import Field, Schema
from unalike.errors import UserError

SCHEMA = Schema(
    "y",
    ("a", "b"),
    (
        Field("age", "number", 50.0, 10.0),
        Field("chol", "number", 200.0, 40.0, indicate=True),
        Field("seen", "date", 19000.0, 100.0),
        Field("smokes", "binary"),
        Field("pain", "category", values=("none", "some", "strong"), indicate=True),
    ),
    ignore=("country",),
)
FINE = {
    "age": [40, 55.5, "60"],
    "chol": ["240", "", "160"],
    "seen": ["2022-01-08", "2022-04-18", "2022-01-08T12:00"],
    "smokes": ["yes", "No", "true"],
    "pain": ["some", " strong ", "?"],
}
CODED = [
    # age, chol and whether it is missing, days, smokes, pain in three columns and whether it is missing
    [-1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0],
    [0.55, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
    [1.0, -1.0, 0.0, 0.005, 1.0, 0.0, 0.0, 0.0, 1.0],
]


def rows_of(missing="indicate", unknown="error", **changes):
    return read_new_rows(SCHEMA, table(**{**FINE, **changes}), missing, unknown)


def test_rows_as_one_would_code_them_by_hand():
    found = rows_of()
    assert np.allclose(found.code(np.arange(3)), CODED)
    assert found.code(np.arange(3)).dtype == np.float32
    assert np.allclose(found.code(np.array([2, 0])), [CODED[2], CODED[0]])
    assert found.labels is None
    assert found.usable.all()


def test_the_same_as_training_codes():
    rng = np.random.default_rng(0)
    one = table(
        x=rng.normal(size=40),
        c=rng.choice(["u", "v", ""], 40),
        d=[f"2024-01-{k % 28 + 1:02d}" for k in range(40)],
        y=labels(40),
    )
    schema = agreed(one, one)
    x, y = schema.code(one, "indicate")
    found = read_new_rows(schema, one, "indicate")
    assert np.array_equal(found.code(np.arange(40)), x)
    assert found.labels.tolist() == y.tolist()


MISTAKES = {
    "text for a number": ({"age": [40, "old", 60]}, "column age: 'old' in line 3 is not a number"),
    "all texts": ({"age": ["x", "y", "z"]}, "column age: 'x' in line 2 is not a number"),
    "date for a number": ({"age": ["2024-01-01"] * 3}, "column age: '2024-01-01' in line 2 is not a number"),
    "which number is it": ({"age": ["1,234", "5,678", "1"]}, "column age: '1,234' in line 2 is not a number"),
    "infinite": ({"age": [40, 50, "inf"]}, "column age: 'inf' in line 4 is not a number"),
    "beyond the scale": ({"age": [40, 50, "1e300"]}, "column age: '1e300' in line 4 is too large"),
    "number for a date": ({"seen": ["1", "2", "3"]}, "column seen: '1' in line 2 is not a date"),
    "another way of dates": (
        {"seen": ["31.12.2024"] * 3},
        "column seen: '31.12.2024' in line 2 is not a date, .*or say dates=",
    ),
    "category": ({"pain": ["none", "Some", "some"]}, r"column pain: 'Some' in line 3 is a category .* 'some'"),
    "neither yes nor no": ({"smokes": ["yes", "no", "often"]}, "column smokes: 'often' in line 4 is a category"),
    "gap that no site had": ({"age": ["", 50, ""]}, r"column age: the value in line 2 is missing \(2 in all\)"),
    "label": ({"y": ["a", "c", "b"]}, r"column y: the label 'c' in line 3 is none of the classes \(a, b\)"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_names_column_value_and_line(name):
    changes, told = MISTAKES[name]
    with pytest.raises(UserError, match=told) as caught:
        rows_of(**changes)
    assert len(str(caught.value).splitlines()) == 1


def test_a_column_that_is_not_there():
    columns = [column for column in table(**FINE) if column.name != "chol"]
    with pytest.raises(UserError, match=r"column chol: the model needs it.* Add it.$"):
        read_new_rows(SCHEMA, columns, "indicate")
    columns += table(Chol=[1, 2, 3])
    with pytest.raises(UserError, match=r"column chol: .* is it 'Chol'\? Then rename that."):
        read_new_rows(SCHEMA, columns, "indicate")
    with pytest.raises(UserError, match=r"say what is between them: delimiter=semicolon.$"):
        read_new_rows(SCHEMA, table(**{"age;sex;chol": ["1;2;3"]}), "indicate")


def test_another_column_of_the_model_is_not_suggested():
    schema = Schema("y", ("a", "b"), (Field("ca", "number"), Field("cp", "number")))
    with pytest.raises(UserError, match=r"column ca: .* Add it.$"):
        read_new_rows(schema, table(cp=[1], y=["a"]), "error")


def test_a_column_of_a_type_that_no_table_has_here():
    columns = [column for column in table(**FINE) if column.name != "age"]
    with pytest.raises(UserError, match=r"column age: list<int> cannot be used"):
        read_new_rows(SCHEMA, [*columns, replace(Column.of("age", [""] * 3), unusable="list<int>")], "indicate")


def test_zeros_for_what_no_site_had():
    found = rows_of(
        unknown="zeros", age=["", 50, 60], pain=["awful", "none", "none"], smokes=["often", "no", "yes"]
    )
    coded = found.code(np.arange(3))
    assert coded[0, 0] == 0
    assert coded[0, 5:].tolist() == [0, 0, 0, 0]
    assert coded[:, 4].tolist() == [0, 0, 1]
    with pytest.raises(UserError, match="is not a number"):  # a mistake stays one
        rows_of(unknown="zeros", age=[1, 2, "x"])


def test_rows_that_are_dropped():
    """As in training, nobody looks at the other values of such a row."""
    columns = {**FINE, "chol": ["240", "", "160"], "pain": ["some", "odd", "none"], "y": ["a", "strange", ""]}
    found = read_new_rows(SCHEMA, table(**columns), "drop")
    assert found.usable.tolist() == [True, False, True]
    assert found.labels.tolist() == [0, -1]
    assert np.allclose(found.code(np.arange(2))[:, 0], [-1.0, 1.0])
    with pytest.raises(UserError, match="Every row has a missing value"):
        rows_of("drop", chol=["", "", ""])


def test_labels_in_another_way_of_writing():
    schema = Schema("y", ("0", "1"), (Field("x", "number"),))
    assert read_new_rows(schema, table(x=[1, 2, 3], y=["1.0", " 0 ", "NA"]), "error").labels.tolist() == [1, 0, -1]
    assert read_new_rows(schema, table(x=[1, 2], y=["", "?"]), "error").labels is None


CELLS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    [
        "1",
        "1.5",
        "1,5",
        "1,234",
        "nan",
        "",
        "inf",
        "-1e308",
        "1e-320",
        "2024-01-01",
        "yes",
        "n",
        "some",
        "a",
        "_",
        "٣",
    ]
)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=6, max_size=6), min_size=n, max_size=n))
)
def test_any_table_is_coded_or_refused(rows):
    names = [*(one.name for one in SCHEMA.fields), "y"]
    cells = dict(zip(names, zip(*rows, strict=True), strict=True))
    for missing in ("error", "indicate", "drop"):
        for unknown in ("error", "zeros"):
            try:
                found = read_new_rows(SCHEMA, table(**cells), missing, unknown)
            except UserError:
                continue
            count = int(found.usable.sum())
            assert count
            assert np.isfinite(found.code(np.arange(count))).all()
