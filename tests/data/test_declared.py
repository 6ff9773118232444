"""What a user says of columns: kinds that values cannot show, and how numbers and dates are written."""

import datetime
import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.data import DATASETS, load_dataset
from unalike.data.columns import Column, Declared
from unalike.data.declared import declarations, declare, ways_of
from unalike.data.freeze import FREEZE
from unalike.data.new_rows import read_new_rows
from unalike.data.numerals import number_as
from unalike.data.table import infer, read_table
from unalike.errors import UserError


def write(path, header, rows, encoding="utf-8"):
    path.write_text("\n".join([header, *rows]) + "\n", encoding=encoding)
    return str(path)


@pytest.fixture
def codes(tmp_path):
    rows = []
    for n in range(60):
        grade, y = ("low", "mid", "high")[n % 3], "ab"[n * n % 7 % 2]
        born = f"{n % 28 + 1:02}.{n % 12 + 1:02}.1990"
        rows.append(f"{n % 4 + 1};{n // 10},{n % 10};{born};{grade};{n % 2};{y}")
    return write(tmp_path / "t.csv", "cp;size;born;grade;smokes;y", rows)


SAID = "types='grade:ordinal(low<mid<high) smokes:binary', categories=(cp,), dates=%d.%m.%Y, delimiter=;"


def test_every_kind_that_was_said(codes):
    data = load_dataset(f"csv:{codes}({SAID})")
    assert data.features == ("cp_1", "cp_2", "cp_3", "cp_4", "size", "born", "grade", "smokes")
    kinds = {one.name: one.kind for one in data.schema.fields}
    assert kinds == {"cp": "category", "size": "number", "born": "date", "grade": "ordinal", "smokes": "binary"}
    both = np.concatenate([data.x, data.x_test])
    own = data.units.read(both)
    row = np.rint(own[:, 4] * 10).astype(int)
    assert sorted(row) == list(range(60))
    assert np.array_equal(both[:, :4].argmax(axis=1), row % 4)
    assert np.allclose(own[:, 6], row % 3)
    assert np.array_equal(both[:, 7], row % 2)
    days = [(datetime.date(1990, n % 12 + 1, n % 28 + 1) - datetime.date(1970, 1, 1)).days for n in row]
    assert np.allclose(own[:, 5], days, atol=0.05)  # x is float32


def test_new_rows_are_coded_by_what_was_said_in_training(codes, tmp_path):
    data = load_dataset(f"csv:{codes}({SAID})")
    head = "cp,size,born,grade,smokes"
    new = write(tmp_path / "new.csv", head, ["3.0,1.5,1990-05-05,mid,1", "2,2,1990-05-06,low,no"])
    found = read_new_rows(data.schema, read_table(new), "error").code(np.arange(2))
    assert found[:, :4].argmax(axis=1).tolist() == [2, 1]
    assert found[:, 7].tolist() == [1, 0]
    grade = data.schema.fields[3]
    assert np.allclose(found[:, 6], (np.array([1, 0]) - grade.shift) / grade.scale)
    odd = write(tmp_path / "odd.csv", head, ["7,1.5,1990-05-05,top,1"])
    with pytest.raises(UserError, match=r"column cp: '7' in line 2 is a category that training did not have"):
        read_new_rows(data.schema, read_table(odd), "error")
    zeros = read_new_rows(data.schema, read_table(odd), "error", "zeros").code(np.arange(1))
    assert zeros[0, :4].tolist() == [0] * 4
    assert zeros[0, 6] == 0


def test_an_identifier_is_left_out(tmp_path):
    path = write(tmp_path / "t.csv", "id,x,y", [f"p{n},{n},{n % 2}" for n in range(40)])
    with pytest.raises(UserError, match="every value differs"):
        load_dataset(f"csv:{path}")
    assert load_dataset(f"csv:{path}(types=id:identifier)").features == ("x",)


def test_a_category_of_numbers_is_written_one_way(tmp_path):
    path = write(tmp_path / "t.csv", "c,y", [f"{('1', '1.0', '2')[n % 3]},{'ab'[n % 2]}" for n in range(40)])
    assert load_dataset(f"csv:{path}(categories=c)").features == ("c_1", "c_2")
    assert load_dataset(f"csv:{path}").features == ("c",)


def test_several_categories_as_bare_words():
    loader = DATASETS.build("csv:any.csv(categories=(sex, cp), types=born:date, encoding=latin-1, thousands=.)")
    assert (loader.categories, loader.types) == (("sex", "cp"), "born:date")
    assert (loader.encoding, loader.thousands) == ("latin-1", ".")
    assert DATASETS.build(DATASETS.describe(loader)) == loader


@pytest.mark.parametrize(
    ("options", "cells", "values"),
    [
        ("decimal=comma", ["1,234", "2,5", "7"], [1.234, 2.5, 7]),
        ("decimal=','", ["1,234", "2,500", "7,125"], [1.234, 2.5, 7.125]),
        ("thousands=comma", ["1,234", "2,500.5", "7"], [1234, 2500.5, 7]),
        ("decimal=comma, thousands=point", ["1.234,5", "2.500", "7"], [1234.5, 2500, 7]),
        ("decimal=comma, thousands=space", ["1 234,5", "-2 500", "7e2"], [1234.5, -2500, 700]),
        ("thousands=apostrophe", ["1'234.5", "2'500", "+7"], [1234.5, 2500, 7]),
    ],
)
def test_numbers_as_they_are_written(tmp_path, options, cells, values):
    path = write(tmp_path / "t.csv", "x;y", [f"{cells[n % 3]};{'ab'[n % 2]}" for n in range(30)])
    columns = read_table(f"csv:{path}(delimiter=semicolon, {options})")
    assert columns[0].kind == "number"
    assert columns[0].numbers()[:3].tolist() == values


def test_what_does_not_fit_the_signs_that_were_said(tmp_path):
    path = write(tmp_path / "t.csv", "x;y", [f"{n}.5;{'ab'[n % 2]}" for n in range(30)])
    with pytest.raises(UserError, match=r"column x: it is not clear which number '0.5' is"):
        load_dataset(f"csv:{path}(delimiter=semicolon, decimal=comma)")


@given(st.floats(-1e9, 1e9).map(lambda value: round(value, 3)))
def test_numbers_in_the_german_way(value):
    shown = f"{value:,.3f}".replace(",", "_").replace(".", ",").replace("_", ".")
    assert number_as(",", ".")(shown) == float(f"{value:.3f}")


@given(st.text(alphabet="0123456789.,'+-e ", max_size=8))
def test_any_text_is_a_number_or_none(text):
    for point, group in ((".", ","), (",", "."), (",", " "), (".", "'"), (",", "")):
        found = number_as(point, group)(text)
        assert found is None or isinstance(found, float)


def test_another_encoding(tmp_path):
    path = write(tmp_path / "t.csv", "größe,y", [f"{n},{('ja', 'né')[n % 2]}" for n in range(30)], "latin-1")
    with pytest.raises(
        UserError, match=r"t.csv, line 1 is not UTF-8. Say what it is, such as csv:.*t.csv\(encoding=latin-1\)"
    ):
        load_dataset(f"csv:{path}")
    data = load_dataset(f"csv:{path}(encoding=latin-1)")
    assert (data.features, data.classes) == (("größe",), ("ja", "né"))
    with pytest.raises(UserError, match="line 1 is not ascii"):
        load_dataset(f"csv:{path}(encoding=ascii)")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("types=cp:categry", "Unknown kind of column 'categry'. Did you mean 'category'"),
        ("types=cpp:category", "Unknown column in types or categories 'cpp'. Did you mean 'cp'"),
        ("categories=(sixe,)", "Did you mean 'size'"),
        ("types=category", "Cannot read types at 'category'"),
        ("types='cp:category cp:number'", "say twice what column cp is"),
        ("types='grade:ordinal'", r"the order of column grade is ''. Write all values"),
        ("types='grade:ordinal(low<low)'", "the order of column grade is 'low<low'"),
        ("types='grade:ordinal(low<mid)'", "column grade: 'high' in line 4 is not in the order low<mid"),
        ("types='grade:binary'", "column grade: 'low' in line 2 is neither yes, no, 0 nor 1"),
        ("types='grade:number'", "column grade: 'low' in line 2 is not a number"),
        ("types='cp:date'", "column cp: '1' in line 2 is not a date"),
        ("decimal=x", "decimal must be comma or point, got 'x'"),
        ("decimal=comma, thousands=comma", "thousands must be comma, point, space or apostrophe"),
        ("dates=%Y", "dates must tell day, month and year, got '%Y'"),
        ("dates=%Q", "dates must tell day, month and year"),
        ("encoding=utf-9", "csv's encoding 'utf-9' is not known"),
        ("encoding=rot13", "csv's encoding 'rot13' is not known"),
    ],
)
def test_mistakes(codes, options, said):
    more = "" if "dates" in options else ", dates=%d.%m.%Y"
    with pytest.raises(UserError, match=said):
        load_dataset(f"csv:{codes}(delimiter=semicolon, {options}{more})")


def test_declarations():
    assert declarations("'chest pain':category \"b c\":date z:ordinal(a b < c)") == {
        "chest pain": Declared("category"),
        "b c": Declared("date"),
        "z": Declared("ordinal", ("a b", "c")),
    }
    assert declarations("", ("a",)) == {"a": Declared("category")}
    assert ways_of("", "", "") == ways_of("", "", "")
    column = declare([Column.of("a", ["1", "2"])], "a:category")[0]
    assert column.kind == "category"


@given(st.text(max_size=30))
def test_any_declaration_is_read_or_refused(text):
    said, found = "one line", {}
    try:
        found = declarations(text)
    except UserError as error:
        said = str(error)
    assert len(said.splitlines()) == 1
    assert all(isinstance(one, Declared) for one in found.values())


def test_what_is_asked(codes, tmp_path):
    asked = {one.column: one.question for one in infer(codes, ";")}
    assert asked["cp"] == "cp: 4 whole numbers 1-4, taken as a quantity; categories=(cp,) if they are codes"
    assert not any(asked[name] for name in ("size", "born", "grade", "smokes", "y"))
    said = DATASETS.build(f"csv:{codes}(delimiter=semicolon, types=cp:number)").columns()
    assert not any(one.question for one in said)
    many = write(tmp_path / "m.csv", "a,b,y", [f"{n % 13},{n % 5 / 2},{n % 2}" for n in range(40)])
    assert not any(one.question for one in infer(many))


def test_all_mistakes_of_a_table_at_once(tmp_path):
    rows = [f"{n if n != 30 else 'x'},p{n},{'' if n == 7 else n},{n},{'ab'[n % 2]}" for n in range(40)]
    path = write(tmp_path / "t.csv", "a,name,c,d,y", rows)
    with pytest.raises(UserError) as caught:
        load_dataset(f"csv:{path}")
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["column c", "column a", "column name"]
    assert "line 9 is missing" in lines[0]
    assert "'x' in line 32 is not a number" in lines[1]
    with pytest.raises(UserError) as caught:
        load_dataset(f"csv:{path}(missing=indicate)")
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["column a", "column name"]
    ragged = write(tmp_path / "r.csv", "a,y", [f"{n},{n % 2}" + ",3" * (n % 3 == 0) for n in range(60)])
    with pytest.raises(UserError) as caught:
        load_dataset(f"csv:{ragged}")
    lines = str(caught.value).splitlines()
    assert len(lines) == 11
    assert "r.csv, line 2 has 3 values" in lines[0]
    assert "r.csv, line 5 has 3 values" in lines[1]
    assert lines[-1] == "There are more. Mend these first."


def test_parquet_texts_and_kinds_are_said_in_the_same_way(codes, tmp_path):
    pytest.importorskip("pyarrow")
    said = SAID.removesuffix(", delimiter=;")
    (tmp_path / "t.parquet").write_bytes(FREEZE[".parquet"](read_table(f"csv:{codes}({SAID})")))
    one, other = load_dataset(f"parquet:{tmp_path / 't.parquet'}({said})"), load_dataset(f"csv:{codes}({SAID})")
    assert one.schema == other.schema
    assert np.array_equal(one.x, other.x)


def test_a_database_is_told_kinds_in_the_same_way(tmp_path):
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("create table t (cp integer, x real, y text)")
        rows = [(n % 4 + 1, n / 2, "ab"[n % 2]) for n in range(40)]
        database.executemany("insert into t values (?, ?, ?)", rows)
    database.close()
    text = f"sql:sqlite:{tmp_path / 't.db'}(query='select * from t', label=y, categories=(cp,))"
    assert load_dataset(text).features == ("cp_1", "cp_2", "cp_3", "cp_4", "x")
    with pytest.raises(UserError, match="Did you mean 'cp'"):
        load_dataset(text.replace("(cp,)", "(cpp,)"))


def test_remedies_can_be_typed_as_they_stand(tmp_path):
    rows = [f"n{n},{n % 3},p{n},{n % 7 / 2},{'ab'[n % 2]}" for n in range(40)]
    path = write(tmp_path / "t.csv", "case-no,chest pain,family name,size,y", rows)
    asked = {one.column: one.question for one in infer(path)}
    assert "categories=('chest pain',) if" in asked["chest pain"]
    with pytest.raises(UserError) as caught:
        load_dataset(f"csv:{path}")
    ignored = [line.rstrip(".").split("ignore=")[1] for line in str(caught.value).splitlines()]
    assert ignored == ["case-no", "'family name'"]
    data = load_dataset(f"csv:{path}(ignore=({', '.join(ignored)}), categories=('chest pain',))")
    assert data.features == ("chest pain_0", "chest pain_1", "chest pain_2", "size")
    with pytest.raises(UserError, match=r"Unknown ignored column 'case-nr'. Did you mean 'case-no'\?"):
        load_dataset(f"csv:{path}(ignore=case-nr)")
    with pytest.raises(
        UserError, match=r"Cannot read csv's label, 'family name'. Put it in quotes: 'family name'."
    ):
        load_dataset(f"csv:{path}(label=family name)")
    with pytest.raises(UserError, match=r"Cannot read csv's ignore, '\(case-no, family name\)'. Put each name in"):
        load_dataset(f"csv:{path}(ignore=(case-no, family name))")


def test_a_text_among_many_numbers_is_named(tmp_path):
    """Seven in a hundred are too many to be slips, and the rest too many for categories."""
    rows = [f"{n / 7:.3f},{'ab'[n % 2]}" if n % 14 != 3 else f"k.A.,{'ab'[n % 2]}" for n in range(140)]
    path = write(tmp_path / "t.csv", "creatinine,y", rows)
    said = r"column creatinine: 'k.A.' in line 5 is not a number, as 130 of 140 values are. Mend it, or leave it"
    with pytest.raises(UserError, match=said):
        load_dataset(f"csv:{path}")
    with pytest.raises(UserError, match="131 different texts in 140 rows are too many"):
        load_dataset(f"csv:{path}(categories=creatinine)")


def test_a_file_without_its_kind():
    with pytest.raises(UserError, match=r"the data set 'a b.csv\(label=y\)'. .* file: csv:a b.csv\(label=y\).$"):
        load_dataset("a b.csv(label=y)")
