"""The user's own table: types, gaps, coding, the split, and every mistake in one line."""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.data import Dataset, load_dataset
from unalike.data.columns import Inferred
from unalike.data.roles import test_rows as chosen_rows
from unalike.data.sites import read_site_table
from unalike.data.table import CSV, Parquet, infer, read_table
from unalike.errors import UserError

HEADER = ["age", "city", "smoker", "ward", "unit", "outcome"]
ROWS = [
    [20 + n, ("Rome", "Oslo", "Lima")[n % 3], ("yes", "no")[n % 2], f"w{n % 4}", "mm", ("ill", "well")[n % 5 > 1]]
    for n in range(60)
]


def write(path: Path, rows: list[list], header: list[str] = HEADER, **options: str) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, **options).writerows([header, *rows])
    return str(path)


@pytest.fixture
def table(tmp_path: Path) -> str:
    return write(tmp_path / "patients.csv", ROWS)


def column(data: Dataset, name: str) -> np.ndarray:
    return np.concatenate([data.x, data.x_test])[:, data.features.index(name)]


def test_columns_are_coded(table: str) -> None:
    data = load_dataset(f"csv:{table}")
    assert data.name == "patients"
    assert data.features == (
        "age",
        "city_Lima",
        "city_Oslo",
        "city_Rome",
        "smoker",
        *(f"ward_w{n}" for n in range(4)),
    )
    assert data.classes == ("ill", "well")
    assert data.x.dtype == np.float32
    assert data.group is None
    age = column(data, "age")
    np.testing.assert_allclose(data.x[:, 0].mean(), 0, atol=1e-6)
    np.testing.assert_allclose(data.x[:, 0].std(), 1, atol=1e-6)
    row = np.rint((age - age.min()) / (age.max() - age.min()) * 59).astype(int)  # ages are 20, 21, ...
    assert sorted(row) == list(range(60))
    np.testing.assert_array_equal(column(data, "city_Oslo"), row % 3 == 1)
    np.testing.assert_array_equal(column(data, "smoker"), row % 2 == 0)
    np.testing.assert_array_equal(np.concatenate([data.y, data.y_test]), row % 5 > 1)


def test_standardised_by_the_training_part_only(table: str) -> None:
    data = load_dataset(f"csv:{table}")
    assert abs(data.x_test[:, 0].mean()) > 1e-3  # pooled standardising would make the whole mean 0
    assert abs(column(data, "age").mean()) > 1e-4


def test_split_is_stratified_and_fixed(table: str) -> None:
    data = load_dataset(f"csv({table!r}, test=0.25)")
    assert np.bincount(data.y_test).tolist() == [6, 9]  # a quarter of 24 and 36
    np.testing.assert_array_equal(load_dataset(f"csv({table!r}, test=0.25)").x_test, data.x_test)


def test_party_column(table: str) -> None:
    data = load_dataset(f"csv:{table}(label=outcome, party=ward)")
    assert data.group_names == ("w0", "w1", "w2", "w3")
    assert "ward_w0" not in data.features
    age = column(data, "age")
    row = np.rint((age - age.min()) / np.ptp(age) * 59).astype(int)
    np.testing.assert_array_equal(np.concatenate([data.group, data.group_test]), row % 4)
    assert np.bincount(data.group_test, minlength=4).min() >= 2


def test_label_and_ignore(table: str) -> None:
    data = load_dataset(f"csv:{table}(label=city, ignore=ward)")
    assert data.classes == ("Lima", "Oslo", "Rome")
    assert data.features == ("age", "smoker", "outcome_ill", "outcome_well")
    last = load_dataset(f"csv:{table}(party=ward, ignore=('outcome', 'unit'))")
    assert last.classes == ("no", "yes")  # the last column that is left


def test_infer(table: str) -> None:
    assert infer(table) == [
        Inferred("age", "number", 0, 60),
        Inferred("city", "category", 0, 3),
        Inferred("smoker", "binary", 0, 2),
        Inferred("ward", "category", 0, 4),
        Inferred("unit", "constant", 0, 1),
        Inferred("outcome", "category", 0, 2),
    ]


def gappy(tmp_path: Path) -> str:
    rows = [list(row) for row in ROWS]
    rows[3][0], rows[7][1], rows[8][1], rows[9][2], rows[11][4] = "", "?", " NA ", "NaN", "null"
    return write(tmp_path / "gaps.csv", rows)


def test_missing_is_refused_by_default(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"column age: the value in line 5 is missing\. .*missing=indicate or"):
        load_dataset(f"csv:{gappy(tmp_path)}")
    with pytest.raises(UserError, match=r"column city: the value in line 9 is missing \(2 in all\)"):
        load_dataset(f"csv:{gappy(tmp_path)}(ignore=age)")


def test_missing_is_indicated(tmp_path: Path) -> None:
    path = gappy(tmp_path)
    assert infer(path)[1] == Inferred("city", "category", 2, 3)
    data = load_dataset(f"csv:{path}(missing=indicate)")
    gaps = [name for name in data.features if name.endswith("_missing")]
    assert gaps == ["age_missing", "city_missing", "smoker_missing", "unit_missing"]
    assert [column(data, name).sum() for name in gaps] == [1, 2, 1, 1]
    for name, coded in (
        ("age", ["age"]),
        ("city", ["city_Lima", "city_Oslo", "city_Rome"]),
        ("smoker", ["smoker"]),
    ):
        absent = column(data, f"{name}_missing") == 1
        assert not any(column(data, other)[absent].any() for other in coded)
    known = data.x[data.x[:, data.features.index("age_missing")] == 0, 0]
    np.testing.assert_allclose([known.mean(), known.std()], [0, 1], atol=1e-5)


def test_missing_is_dropped(tmp_path: Path) -> None:
    data = load_dataset(f"csv:{gappy(tmp_path)}(missing=drop)")
    assert len(data.y) + len(data.y_test) == 55
    assert not any(name.endswith("_missing") for name in data.features)
    only = write(tmp_path / "only.csv", [[1, "", "a"], ["", 2, "b"]], ["x", "z", "y"])
    with pytest.raises(UserError, match="Every row has a missing value"):
        load_dataset(f"csv:{only}(missing=drop)")


@pytest.mark.parametrize("role", ["label", "party"])
def test_a_label_or_party_may_not_be_missing(tmp_path: Path, role: str) -> None:
    path = gappy(tmp_path)
    named = f"{role}=city" if role == "label" else "party=city, label=outcome"
    with pytest.raises(UserError, match=r"column city: the value in line 9 .*use missing=drop"):
        load_dataset(f"csv:{path}({named}, missing=indicate)")
    assert load_dataset(f"csv:{path}({named}, missing=drop)").size > 30


def test_numeric_labels_sort_as_numbers(tmp_path: Path) -> None:
    rows = [[n, ("10", "9", "9.0", "-1")[n % 4]] for n in range(40)]
    data = load_dataset(f"csv:{write(tmp_path / 't.csv', rows, ['x', 'y'])}")
    assert data.classes == ("-1", "9", "10")


def test_a_category_of_test_rows_only_is_all_zeros(tmp_path: Path) -> None:
    """Every row has a category of its own, or shares one common one: those of test rows get no column."""
    rows = [[f"c{n}" if n else "c1", n % 2] for n in range(19)] + [["c1", 0]]
    data = load_dataset(f"csv:{write(tmp_path / 't.csv', rows, ['x', 'y'])}")
    assert len(data.features) < 18
    assert set(data.x.sum(axis=1)) == {1}
    assert 0 in set(data.x_test.sum(axis=1))


def test_a_label_seen_once_stays_in_training(tmp_path: Path) -> None:
    rows = [[n, "ab"[n % 2]] for n in range(30)] + [[99, "rare"]]
    for test in (0.1, 0.5):
        data = load_dataset(f"csv({write(tmp_path / 't.csv', rows, ['x', 'y'])!r}, test={test})")
        assert data.classes == ("a", "b", "rare")
        assert 2 in data.y
        assert 2 not in data.y_test


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=60), st.floats(0.01, 0.5))
def test_every_stratum_has_its_share(rows: list[tuple[int, int]], fraction: float) -> None:
    y, party = np.array(rows).T
    test = chosen_rows(y, party, fraction)
    for label in set(y.tolist()):
        mine = y == label
        wanted = np.floor(fraction * mine.sum() + 0.5) if mine.sum() > 1 else 0
        assert test[mine].sum() == wanted < mine.sum()
        for silo in set(party[mine].tolist()):
            both = mine & (party == silo)
            assert abs(test[both].sum() - fraction * both.sum()) <= 1 + 1e-9


BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    "content",
    [
        BOM + b"a,b,y\n" + b"1,x,0\n2,z,1\n" * 5,
        b"a,b,y\r\n" + b"1,x,0\r\n2,z,1\r\n" * 5,
        b'"a","b","y"\n' + b'"1","x","0"\n\n2,"z",1\n' * 5,
        b" a, b , y\n" + b" 1, x, 0\n 2 , z,1\n" * 5,
    ],
)
def test_forms_of_the_same_table(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    data = load_dataset(f"csv:{path}")
    assert (data.features, data.classes, data.size) == (("a", "b_x", "b_z"), ("0", "1"), 8)


def test_delimiters_and_quotes(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.csv",
        [[n, 'say "a;b"\nc', n % 2] for n in range(20)] + [[1, "d", 1]] * 9,
        list("abc"),
        delimiter=";",
    )
    assert load_dataset(f"csv({path!r}, delimiter=';')").features == ("a", "b_d", 'b_say "a;b"\nc')
    tabs = write(tmp_path / "t.tsv", [[n, n % 2] for n in range(20)], list("ab"), delimiter="\t")
    for name in ("'\\t'", "tab"):
        assert load_dataset(f"csv({tabs!r}, delimiter={name})").features == ("a",)
    for wrong in ("", ",,", '"'):
        with pytest.raises(UserError, match="delimiter must be one character"):
            CSV(path, delimiter=wrong).load()


def coded(tmp_path: Path, cells: list[str], more: str = "") -> Dataset:
    rows = [[cell, n % 7, "ab"[n % 2]] for n, cell in enumerate(cells)]
    path = write(tmp_path / "t.csv", rows, ["x", "z", "y"], delimiter=";")
    return load_dataset(f"csv({path!r}, delimiter=';'{more})")


def standardised(data: Dataset, values: list[float]) -> None:
    """Column x is, but for a shift and a scale, made of these values."""
    assert data.features[:1] == ("x",)
    found, expected = np.sort(column(data, "x")), np.sort(values)
    for made in (found, expected):
        made -= made.min()
        made /= made.max()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_iso_dates_are_days(tmp_path: Path) -> None:
    days = [datetime.date(2023, 1, 1) + datetime.timedelta(days=3 * n) for n in range(496)]
    data = coded(tmp_path, list(map(str, days)))
    assert data.features == ("x", "z")
    standardised(data, [float(day.toordinal()) for day in days])
    assert infer(str(tmp_path / "t.csv"), ";")[0] == Inferred("x", "date", 0, 496)
    gaps = coded(tmp_path, ["", *map(str, days[1:])], ", missing=indicate")
    assert gaps.features == ("x", "x_missing", "z")
    with pytest.raises(UserError, match=r"column x: '2023-02-30' in line 2 is not a date\. Mend it"):
        coded(tmp_path, ["2023-02-30", *map(str, days[1:])])


def test_a_few_dates_are_days_too(tmp_path: Path) -> None:
    standardised(coded(tmp_path, ["2024-01-01", "2024-01-02", "2024-01-04"] * 10), [0.0, 1.0, 3.0] * 10)


def test_decimal_commas(tmp_path: Path) -> None:
    cells = [f"{n // 10},{n % 10}" for n in range(60)]
    standardised(coded(tmp_path, cells), [n / 10 for n in range(60)])
    standardised(coded(tmp_path, ["5"] * 58 + ["1,234", "1,5"]), [5.0] * 58 + [1.234, 1.5])
    with pytest.raises(UserError, match=r"column x: 'text' in line 62 is not a number"):
        coded(tmp_path, [*cells, "text"])


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        ([f"{n},500" for n in range(1, 61)], "1,500"),
        (["3,14", "3.15"] * 30, "3,14"),
        (["1.234.567", "2.345.678"] * 30, "1.234.567"),
        (["1,234.5", "2"] * 30, "1,234.5"),
    ],
)
def test_numbers_that_are_not_clear_are_refused(tmp_path: Path, cells: list[str], shown: str) -> None:
    with pytest.raises(UserError, match=rf"column x: it is not clear which number '{re.escape(shown)}' is"):
        coded(tmp_path, cells)
    assert coded(tmp_path, cells, ", ignore=x").features == ("z",)
    assert infer(str(tmp_path / "t.csv"), ";")[0].type == "unclear"


@pytest.mark.parametrize("shown", ["31.12.2024", "12/31/2024", "1-2-2024 23:59", "2024/12/31", "2024.1.2"])
def test_dates_that_are_not_in_the_iso_way_are_refused(tmp_path: Path, shown: str) -> None:
    cells = [shown, shown[:-1] + "3"] * 30
    with pytest.raises(UserError, match=rf"column x: '{re.escape(shown)}' may be a date.*as 2024-12-31"):
        coded(tmp_path, cells)
    assert coded(tmp_path, cells, ", ignore=x").features == ("z",)
    assert infer(str(tmp_path / "t.csv"), ";")[0].type == "unclear"
    assert len(coded(tmp_path, ["10.1.2", "10.1.3"] * 30).features) == 3  # versions


def test_several_columns_are_ignored(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", [[n, n % 3, n % 5, n % 2] for n in range(40)], ["a", "b", "c", "y"])
    for ignore in ("[a, b]", "(a, b)", "['a', b]"):
        assert load_dataset(f"csv:{path}(label=y, ignore={ignore})").features == ("c",)


def test_only_files_are_read(tmp_path: Path) -> None:
    """A device has no end, and a pipe that nobody writes to keeps its reader waiting."""
    os.mkfifo(tmp_path / "pipe")
    for kind, path, what in (
        (CSV, tmp_path, "a folder"),
        (CSV, tmp_path / "pipe", "a device or a pipe"),
        (CSV, Path("/dev/zero"), "a device or a pipe"),
        (Parquet, tmp_path / "pipe", "a device or a pipe"),
    ):
        table = kind(str(path))
        for read in (table.load, table.columns, table.fingerprint):
            with pytest.raises(UserError, match=rf"{path} is {what}, not a file. Save the table in a file"):
                read()


def test_lists_of_codes_stay_categories(tmp_path: Path) -> None:
    assert coded(tmp_path, ["1,2,3", "2,3", "a"] * 20).features[:3] == ("x_1,2,3", "x_2,3", "x_a")


@pytest.mark.parametrize(
    ("values", "rows", "taken"), [(20, 24, True), (42, 210, True), (42, 209, False), (200, 1000, True)]
)
def test_texts_with_very_many_values_are_no_categories(
    tmp_path: Path, values: int, rows: int, taken: bool
) -> None:
    """Up to 20 values always are; more need five rows each on average, as adult's 42 countries have."""
    cells = [f"country {n % values}" for n in range(rows)]
    if taken:
        assert len(coded(tmp_path, cells).features) > values * 0.7
        return
    with pytest.raises(UserError, match=rf"column x: {values} different texts in {rows} rows are.*ignore=x\.$"):
        coded(tmp_path, cells)
    assert coded(tmp_path, cells, ", ignore=x").features == ("z",)


def labelled(tmp_path: Path, labels: list[object]) -> Dataset:
    return load_dataset(f"csv:{write(tmp_path / 't.csv', list(map(list, enumerate(labels))), ['x', 'y'])}")


@pytest.mark.parametrize(
    "labels",
    [
        range(17, 87),
        [*range(17, 87), "unknown"],
        [n / 2 for n in range(21)],
        [n * n for n in range(21)],
        [f"{n},5" for n in range(30)],
        [datetime.date(2024, 1, 1) + datetime.timedelta(days=n) for n in range(30)],
    ],
)
def test_a_quantity_is_no_label(tmp_path: Path, labels: list[object]) -> None:
    said = rf"The label y has {len(labels)} different numbers, from .* to .*Cut it into ranges, or write"
    with pytest.raises(UserError, match=said):
        labelled(tmp_path, list(labels) * 20)


@pytest.mark.parametrize(
    "labels",
    [
        range(100),
        range(1, 63),
        [f"{n}.0" for n in range(62)],
        range(17, 37),
        [n / 2 for n in range(10)],
        [f"c{n}" for n in range(17, 87)],
    ],
)
def test_codes_and_few_numbers_are_labels(tmp_path: Path, labels: list[object]) -> None:
    assert len(labelled(tmp_path, list(labels) * 5).classes) == len(labels)


PLAIN = "x,y\n" + "1,a\n2,b\n" * 30


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("x,y\n", "has column names but no rows"),
        ("x,x\n1,2\n", "has the column 'x' twice"),
        ("1,2\n3,4\n", "has no column names: its first line is numbers"),
        ("x,\n1,2\n", "column 2 has no name"),
        ("x\n1\n", "has one column only"),
        ("x;y\n1;2\n", "has one column only.*delimiter=semicolon"),
        ("x\ty\n1\t2\n", "has one column only.*delimiter=tab"),
        (PLAIN + "1,2,3\n", "line 62 has 3 values, but there are 2 columns"),
        (PLAIN + "1\n", "line 62 has 1 values, but there are 2 columns"),
        (PLAIN + "abc,a\n", "column x: 'abc' in line 62 is not a number"),
        (PLAIN + "1_0,a\n", "column x: '1_0' in line 62 is not a number"),
        (PLAIN + "inf,a\n", "column x: 'inf' in line 62 is not finite"),
        (PLAIN + "-1e999,a\n", "column x: '-1e999' in line 62 is not finite"),
        (PLAIN + "nan,a\n", "column x: the value in line 62 is missing"),
        (PLAIN + "1,\n", "column y: the value in line 62 is missing.*missing=drop"),
        (PLAIN + '"1,a\n', "line 62: unexpected end of data"),
        ("x,y\n1,a\n2,a\n", "The label y is 'a' in every row"),
        ("x,y\n1,a\n2,b\n", "too few rows for a test set: 2"),
        ("x,y\n5,a\n5,b\n" * 1 + "5,a\n5,b\n" * 9, "No column varies"),
        ("x,y\n" + "".join(f"{n},{n / 7}\n" for n in range(50)), "The label y has 50 different values in 50 rows"),
        ("x,y\n" + "".join(f"id{n},{n % 2}\n" for n in range(50)), "column x: every value differs.*ignore=x"),
        (
            "x,y\n" + "".join(f"c{n % 1100},{n % 2}\n" for n in range(2500)),
            "column x: 1100 different texts in 2500 rows are too many",
        ),
        ("x,y\n" + "".join(f"{n % 9},{n % 1100}\n" for n in range(2500)), "The label y has 1100 different values"),
        ("x,x_a,x_b,y\n" + "a,1,2,p\nb,2,1,q\n" * 9, "column x_a: its coded column 'x_a' is there already"),
        ("x,y\n" + "1e308,a\n-1e308,b\n" * 9, "column x: its values are too large"),
    ],
)
def test_mistakes(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content, encoding="utf-8", newline="")
    with pytest.raises(UserError, match=said) as caught:
        load_dataset(f"csv:{path}")
    assert "\n" not in str(caught.value)


def test_other_mistakes(tmp_path: Path, table: str) -> None:
    for text, said in (
        (f"csv:{table}(label=outcom)", r"Unknown label column 'outcom'\. Did you mean 'outcome'\?"),
        (f"csv:{table}(party=wards)", "Did you mean 'ward'"),
        (f"csv:{table}(ignore=citi)", "Did you mean 'city'"),
        (f"csv:{table}(label=ward, party=ward)", "The label cannot be the party"),
        (f"csv:{table}(test=0)", "test must be above 0 and at most 0.5, got 0"),
        (f"csv:{table}(test=0.6)", "at most 0.5, got 0.6"),
        (f"csv:{tmp_path}/none.csv", "There is no file .*none.csv"),
        (f"csv:{tmp_path}", "is a folder, not a file. Save the table in a file"),
        ("csv", "csv needs path"),
    ):
        with pytest.raises(UserError, match=said):
            load_dataset(text)
    bad = tmp_path / "latin.csv"
    bad.write_bytes("x,y\n1,a\nné,b\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"latin.csv, line 3 is not UTF-8"):
        load_dataset(f"csv:{bad}")


def test_a_number_that_varies_in_test_rows_only(tmp_path: Path) -> None:
    rows = [[0.1, n, "ab"[n % 2]] for n in range(40)]
    for n in range(40):  # make each row in turn the odd one, until it is a test row
        changed = [[0.7 if k == n else 0.1, k, y] for k, (_, _, y) in enumerate(rows)]
        data = load_dataset(f"csv:{write(tmp_path / 't.csv', changed, ['x', 'n', 'y'])}")
        if not data.x[:, 0].any():
            np.testing.assert_allclose(data.x_test[:, 0].max(), 0.6, rtol=1e-6)
            return
    raise AssertionError("no row was a test row")


def test_fingerprint(tmp_path: Path, table: str) -> None:
    content = Path(table).read_bytes()
    assert CSV(table).fingerprint() == Parquet(table).fingerprint() == hashlib.sha256(content).hexdigest()
    Path(table).write_bytes(content + b"\n")
    assert CSV(table).fingerprint() == hashlib.sha256(content + b"\n").hexdigest()
    with pytest.raises(UserError, match="There is no readable file"):
        CSV(str(tmp_path / "none.csv")).fingerprint()


def test_parquet_is_read_as_csv_is(tmp_path: Path, table: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = dict(zip(HEADER, (list(cells) for cells in zip(*ROWS, strict=True)), strict=True))
    columns["smoker"] = [value == "yes" for value in columns["smoker"]]
    columns["age"] = [float(value) for value in columns["age"]]
    made = pyarrow.table(columns)
    made = made.set_column(1, "city", made["city"].dictionary_encode())
    path = str(tmp_path / "patients.parquet")
    parquet.write_table(made, path)
    data, same = load_dataset(f"parquet:{path}(party=ward)"), load_dataset(f"csv:{table}(party=ward)")
    assert (data.features, data.classes, data.group_names) == (same.features, same.classes, same.group_names)
    for name in ("x", "y", "x_test", "y_test", "group", "group_test"):
        np.testing.assert_array_equal(getattr(data, name), getattr(same, name))
    assert infer(path) == infer(table)


def test_parquet_mistakes(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    with pytest.raises(UserError, match="There is no file"):
        load_dataset(f"parquet:{path}")
    path.write_bytes(b"not parquet")
    with pytest.raises(UserError, match="Cannot read") as caught:
        load_dataset(f"parquet:{path}")
    assert "\n" not in str(caught.value)
    parquet.write_table(pyarrow.table({"x": [[1], [2]], "y": ["a", "b"]}), path)
    with pytest.raises(UserError, match=r"column x: list<.*> cannot be used"):
        load_dataset(f"parquet:{path}")
    for gap in (None, float("nan")):
        parquet.write_table(pyarrow.table({"x": [1.0, 2.0, gap] * 9, "y": ["a", "b", "b"] * 9}), path)
        with pytest.raises(UserError, match="column x: the value in row 3 is missing"):
            load_dataset(f"parquet:{path}")
    assert load_dataset(f"parquet:{path}(missing=indicate)").features == ("x", "x_missing")
    parquet.write_table(pyarrow.table({"x": [1.0, float("inf")] * 9, "y": ["a", "b"] * 9}), path)
    with pytest.raises(UserError, match="column x: 'inf' in row 2 is not finite"):
        load_dataset(f"parquet:{path}")


def test_parquet_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(
        UserError, match=r"Parquet files need pyarrow. Install it: pip install 'unalike\[parquet\]'"
    ):
        load_dataset("parquet:any.parquet")


CELL = st.sampled_from(
    ["", "1", "2.5", "a", "é", "NA", "yes", "no", "inf", " ", '"', "x,y", "\n", "\r", "\x00", "1e5"]
)


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=80) | st.lists(st.lists(CELL, min_size=1, max_size=4), max_size=12).map(lambda rows: rows)
)
def test_any_file_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, content: object
) -> None:
    path = tmp_path_factory.mktemp("any") / "t.csv"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        written = io.StringIO()
        csv.writer(written).writerows([["a", "b", "c"], *content])  # type: ignore[misc]
        path.write_bytes(written.getvalue().encode())
    for missing in ("error", "indicate", "drop"):
        said = ""
        try:
            data = load_dataset(f"csv({str(path)!r}, missing={missing}, test=0.5)")
            assert np.isfinite(data.x).all()
            assert len(data.features) == data.x.shape[1]
        except UserError as error:
            said = str(error)
        assert all(said.splitlines())
        assert len(said.splitlines()) <= 11


def test_every_table_is_read_by_one_door(tmp_path: Path, table: str) -> None:
    """A bare path, csv:PATH, and csv:PATH with options: the same columns; what is no table is refused by name."""
    semicolons = write(tmp_path / "semi (1).csv", ROWS, delimiter=";")
    expected = [(column.name, list(column.cells)) for column in read_table(table)]
    for text in (f"csv:{table}", f"csv({semicolons!r}, delimiter=';')", f"csv:{table}(label=city, ignore=ward)"):
        assert [(column.name, list(column.cells)) for column in read_table(text)] == expected
    for text in (semicolons, f"csv:{semicolons}"):  # brackets in a file's name are no options
        assert len(read_table(text)) == 1
    for text, said in (
        ("heart(missing=drop)", "heart is not one table.*csv:"),
        ("cvs:any.csv", "Unknown data set 'cvs'. Did you mean 'csv'"),
        (str(tmp_path / "none.csv"), "There is no file"),
        (f"csv:{table}(delimitre=';')", "Did you mean 'delimiter'"),
    ):
        with pytest.raises(UserError, match=said):
            read_table(text)


def test_a_site_says_how_its_table_is_read_and_nothing_else(tmp_path: Path) -> None:
    semicolons = write(tmp_path / "s.csv", ROWS, delimiter=";")
    assert len(read_site_table(f"csv:{semicolons}(delimiter=';')")) == len(HEADER)
    for option in ("label=city", "ignore=ward", "missing=drop", "test=0.3"):
        with pytest.raises(
            UserError, match=rf"{option.split('=')[0]}= is the same at all sites: the plan says it"
        ):
            read_site_table(f"csv:{semicolons}({option}, delimiter=';')")
