"""Data sets of arrays, tensors, data frames, bunches and torch data sets."""

from __future__ import annotations

import warnings
from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.utils import Bunch

import unalike
from unalike.data.table import CSV
from unalike.errors import UserError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(100, 3))
Y = np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]
PARTIES = np.array(["b", "a", "c"])[RNG.integers(0, 3, 100)]


class Pairs(torch.utils.data.Dataset):
    """A torch data set of these pairs."""

    def __init__(self, pairs: Any) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, place: int) -> Any:
        return self.pairs[place]


def test_test_rows_are_stratified_and_spread_over_parties() -> None:
    data = unalike.dataset(X, Y, parties=PARTIES)
    assert (data.classes, data.group_names, data.size, len(data.y_test)) == (
        ("no", "yes"),
        ("a", "b", "c"),
        80,
        20,
    )
    for label, name in enumerate(data.classes):
        for party, own in enumerate(data.group_names):
            there = ((name == Y) & (own == PARTIES)).sum()
            assert abs(((data.y_test == label) & (data.group_test == party)).sum() - there / 5) <= 1
    whole = np.concatenate([data.x, data.x_test])
    np.testing.assert_array_equal(np.sort(whole, axis=0), np.sort(X, axis=0))
    np.testing.assert_array_equal(data.classes[1] == np.array(data.classes)[data.y], data.x[:, 0] > 0)


@pytest.mark.parametrize(
    "x", [torch.tensor(X), sparse.csc_array(X), X.tolist(), Pairs(list(zip(torch.tensor(X), Y, strict=True)))]
)
def test_other_containers_are_the_same_data(x: Any) -> None:
    own = unalike.dataset(x) if isinstance(x, Pairs) else unalike.dataset(x, Y)
    known = unalike.dataset(X, Y)
    np.testing.assert_array_equal(own.x.toarray() if own.is_sparse else own.x, known.x)
    np.testing.assert_array_equal(own.y_test, known.y_test)
    assert own.classes == known.classes


@pytest.mark.parametrize(
    ("y", "classes", "expected"),
    [
        ([1, 7, 3], None, (("1", "3", "7"), [0, 2, 1])),
        ([1.0, 0.0, 1.0], None, (("0", "1"), [1, 0, 1])),
        ([0.5, 1.5, 0.5], None, (("0.5", "1.5"), [0, 1, 0])),
        ([True, False, True], None, (("false", "true"), [1, 0, 1])),
        (["b", "a", "b"], None, (("a", "b"), [1, 0, 1])),
        (["b", "a", "b"], ("b", "a", "c"), (("b", "a", "c"), [0, 1, 0])),
        ([0, 1, 0], ("x", "y"), (("x", "y"), [0, 1, 0])),
        (np.array(["b", "a", "b"], object), None, (("a", "b"), [1, 0, 1])),
        (torch.tensor([2, 1, 2]), None, (("1", "2"), [1, 0, 1])),
    ],
)
def test_labels(y: Any, classes: Any, expected: Any) -> None:
    data = unalike.dataset(X[:3], y, classes=classes, test=None)
    assert (data.classes, data.y.tolist()) == expected


@given(st.lists(st.text(max_size=3) | st.none(), min_size=1, max_size=12))
def test_any_texts_are_labels_or_refused_in_one_line(labels: list[str | None]) -> None:
    if None in labels:
        with pytest.raises(UserError, match="labels are missing in"):
            unalike.dataset(np.zeros((len(labels), 1)), labels, test=None)
        return
    data = unalike.dataset(np.zeros((len(labels), 1)), labels, test=None)
    assert [data.classes[place] for place in data.y] == labels


@given(arrays(np.int64, 30, elements=st.integers(-5, 5)), st.sampled_from([0.1, 0.3, 0.5]))
def test_no_row_is_lost_or_there_twice(y: Any, fraction: float) -> None:
    x = np.arange(30.0)[:, None]
    data = unalike.dataset(x, y, test=fraction, parties=y % 3)
    assert sorted([*data.x[:, 0], *data.x_test[:, 0]]) == x[:, 0].tolist()
    for rows, labels, group in ((data.x, data.y, data.group), (data.x_test, data.y_test, data.group_test)):
        own = rows[:, 0].astype(int)
        assert [int(data.classes[place]) for place in labels] == y[own].tolist()
        named = [None if place < 0 else int(data.group_names[place]) for place in group]
        assert all(name in (None, each) for name, each in zip(named, y[own] % 3, strict=True))


def test_test_rows_of_their_own() -> None:
    data = unalike.dataset(X[:60], Y[:60], parties=PARTIES[:60], test=(X[60:], Y[60:], PARTIES[60:]))
    assert (data.size, len(data.y_test)) == (60, 40)
    assert [data.group_names[place] for place in data.group_test] == PARTIES[60:].tolist()
    plain = unalike.dataset(X[:60], Y[:60], parties=PARTIES[:60], test=(X[60:], Y[60:]))
    assert plain.group_test is None
    np.testing.assert_array_equal(plain.group, data.group)


def test_numbers_to_predict() -> None:
    data = unalike.dataset(X, X @ [1, 2, 3], task="regression")
    assert (data.task, data.classes, len(data.y_test)) == ("regression", (), 20)


def test_scales() -> None:
    wide = X * [1, 1000, 1]
    with pytest.warns(UserWarning, match=r"^mine: .* of column 1 and column \d are .*standardise=True") as caught:
        plain = unalike.dataset(wide, Y)
    assert (plain.shift, plain.scale, len(caught)) == (0, 1, 1)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unalike.dataset(X * [1, 50, 0], Y)
        made = unalike.dataset(np.c_[wide, np.ones(100)], Y, standardise=True)
        thin = unalike.dataset(sparse.csr_array(np.c_[wide, np.ones(100)]), Y, standardise=True)
    seen = (made.x - made.shift) / made.scale
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(seen.std(axis=0), [1, 1, 1, 0], atol=1e-5)
    np.testing.assert_allclose(thin.scale, made.scale, rtol=1e-5)


def test_images_of_bytes_are_divided_by_255() -> None:
    x = RNG.integers(0, 256, (100, 3, 5, 5)).astype(np.uint8)
    assert unalike.dataset(x, Y).scale == 255
    assert unalike.dataset(x / 255, Y).scale == 1
    each = unalike.dataset(x, Y, standardise=True)
    np.testing.assert_allclose(((each.x - each.shift) / each.scale).std(axis=(0, 2, 3)), 1, rtol=1e-5)


def test_pictures_of_a_torch_data_set_have_their_channels_first() -> None:
    pillow = pytest.importorskip("PIL.Image")
    colour = RNG.integers(0, 256, (6, 4, 5, 3)).astype(np.uint8)
    data = unalike.dataset(
        Pairs([(pillow.fromarray(each), place % 2) for place, each in enumerate(colour)]), test=None
    )
    np.testing.assert_array_equal(data.x, colour.transpose(0, 3, 1, 2))


def test_bunches() -> None:
    for as_frame in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            iris = unalike.dataset(load_iris(as_frame=as_frame))
        assert iris.classes == ("setosa", "versicolor", "virginica")
        assert iris.features[0] == "sepal length (cm)"
        diabetes = unalike.dataset(load_diabetes(as_frame=as_frame), task="regression")
        assert (diabetes.task, diabetes.features[2]) == ("regression", "bmi")
    digits = load_digits()
    assert unalike.dataset(digits).classes == tuple(map(str, range(10)))
    assert unalike.dataset(Bunch(data=X, target=Y)).features == ()


def columns() -> dict[str, list[Any]]:
    start = datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=3)))
    return {
        "age": [20 + place % 50 for place in range(100)],
        "dose": [place / 7 for place in range(100)],
        "sex": ["m" if place % 3 else "f" for place in range(100)],
        "smokes": [place % 2 == 0 for place in range(100)],
        "admitted": [date(2024, 1 + place % 12, 1) for place in range(100)],
        "at": [start.replace(hour=place % 24) for place in range(100)],
        "site": PARTIES.tolist(),
        "outcome": Y.tolist(),
    }


FRAMES = ("pandas", "polars", "pyarrow")


def frame_of(kind: str, values: dict[str, list[Any]]) -> Any:
    module = pytest.importorskip(kind)
    return module.table(values) if kind == "pyarrow" else module.DataFrame(values)


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_are_coded_as_tables_are(kind: str, tmp_path: Any) -> None:
    values = columns()
    data = unalike.dataset(frame_of(kind, values), label="outcome", parties="site", name="table")
    lines = [",".join(values), *(",".join(map(str, row)) for row in zip(*values.values(), strict=True))]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    table = CSV(str(tmp_path / "table.csv"), label="outcome", party="site").load()
    assert data.features == table.features
    assert data.digest == table.digest
    others = {name: value for name, value in values.items() if name not in ("site", "outcome")}
    apart = unalike.dataset(frame_of(kind, others), Y, parties=PARTIES, name="table")
    assert (apart.digest, apart.schema.label) == (table.digest, "y")


@pytest.mark.parametrize("kind", FRAMES)
def test_test_rows_of_their_own_are_coded_as_the_others(kind: str) -> None:
    values = columns()
    first, rest = ({k: v[part] for k, v in values.items()} for part in (slice(70), slice(70, None)))
    rest["sex"] = ["other", *rest["sex"][1:]]
    data = unalike.dataset(frame_of(kind, first), label="outcome", parties="site", test=frame_of(kind, rest))
    assert (data.size, len(data.y_test)) == (70, 30)
    sexes = [place for place, name in enumerate(data.features) if name.startswith("sex")]
    assert data.x_test[0, sexes].tolist() == [0, 0]
    age = data.features.index("age")
    np.testing.assert_allclose(data.units.read(data.x_test)[:, age], rest["age"], rtol=1e-5)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_gaps_in_frames(kind: str) -> None:
    values = columns()
    values["age"] = [None, *values["age"][1:]]
    values["sex"] = [*values["sex"][:-1], None]
    frame = frame_of(kind, values)
    with pytest.raises(
        UserError, match=r"column age: the value in row 1 is missing.*missing=indicate or missing=drop"
    ):
        unalike.dataset(frame, label="outcome")
    told = unalike.dataset(frame, label="outcome", missing="indicate", ignore=["site"])
    assert {"age_missing", "sex_missing"} <= set(told.features)
    fewer = unalike.dataset(frame, label="outcome", missing="drop")
    assert fewer.size + len(fewer.y_test) == 98


def test_columns_of_objects_and_of_pandas_own_types() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "count": pandas.array([1, None, *range(3, 51)], dtype="Int64"),
            "flag": np.array([np.bool_(place % 2) for place in range(50)], object),
            "kind": pandas.Categorical(["a", "b"] * 25),
            "label": pandas.array(["x", "y"] * 25, dtype="string"),
        }
    )
    data = unalike.dataset(frame, label="label", missing="indicate", test=None)
    assert data.features == ("count", "count_missing", "flag", "kind_a", "kind_b")
    assert (data.x[1, :2].tolist(), data.x[:2, 2].tolist(), data.classes) == ([0, 1], [0, 1], ("x", "y"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: unalike.dataset(X), "mine has no labels. Give them as y"),
        (lambda: unalike.dataset(None, Y), "mine's x is None"),
        (lambda: unalike.dataset("digits"), "mine's x is a str. Give an array"),
        (lambda: unalike.dataset({"a": [1]}, Y), "mine's x is a dict and labels"),
        (lambda: unalike.dataset(X, Y[:5]), "mine's labels are 5, but there are 100 rows"),
        (lambda: unalike.dataset(X[:, 0], Y), r"mine's rows have the shape \(100,\)"),
        (lambda: unalike.dataset(X, np.eye(100)), r"labels have the shape \(100, 100\)"),
        (
            lambda: unalike.dataset(X, X[:, 0]),
            "The label y has 100 different values in 100 rows.*task='regression'",
        ),
        (lambda: unalike.dataset(X, np.arange(100) % 30 * 7), "30 different (values|numbers).*task='regression'"),
        (lambda: unalike.dataset(X, np.where(X[:, 0] > 0, np.nan, 1)), r"labels hold NaN .* row\(s\)"),
        (lambda: unalike.dataset(X, [None, *Y[1:]]), r"labels are missing in 1 row\(s\)"),
        (lambda: unalike.dataset(X, Y, classes=("yes", "nein")), "Unknown class 'no'. Known: nein, yes"),
        (lambda: unalike.dataset(X, Y, test=0), "test must be above 0 and at most 0.5, got 0"),
        (lambda: unalike.dataset(X, Y, test=True), "test must be a fraction such as 0.2"),
        (lambda: unalike.dataset(X, Y, test="0.2"), "test must be a fraction such as 0.2"),
        (lambda: unalike.dataset(X, Y, test=(X, Y, PARTIES, 1)), "test must be a fraction such as 0.2"),
        (lambda: unalike.dataset(X, Y, test=(X[:, :2], Y)), "Make them alike"),
        (
            lambda: unalike.dataset(X, Y, parties=PARTIES[:3]),
            r"parties has the shape \(3,\), but there are 100 rows",
        ),
        (lambda: unalike.dataset(X, Y, parties=X[:, 0]), "parties must be whole numbers or names"),
        (lambda: unalike.dataset(X, Y, parties=[None, *PARTIES[1:]]), "parties must be whole numbers or names"),
        (
            lambda: unalike.dataset(X, Y, label="a"),
            "label, ignore, categories, types and missing are for data frames",
        ),
        (lambda: unalike.dataset(X, Y, kind="tokens", standardise=True), "Leave standardise out"),
        (lambda: unalike.dataset(Pairs([])), r"must hold \(row, label\) pairs"),
        (lambda: unalike.dataset(Pairs([X[0]])), r"must hold \(row, label\) pairs"),
        (lambda: unalike.dataset(Pairs([(X[0], 0), (X[0, :2], 1)])), r"Row 1 of mine has the shape \(2,\)"),
        (lambda: unalike.dataset(frame_of("polars", columns()), Y, label="sex"), "labels are given twice"),
        (lambda: unalike.dataset(frame_of("polars", columns()), label="sexx"), "Unknown label column 'sexx'"),
        (lambda: unalike.dataset(frame_of("polars", columns()), parties="sits"), "Did you mean 'site'"),
        (lambda: unalike.dataset(frame_of("polars", columns()), Y[:3]), "y has 3 values, but there are 100 rows"),
        (lambda: unalike.dataset(frame_of("polars", columns()), classes=("a",)), "Leave classes and kind out"),
        (lambda: unalike.dataset(frame_of("polars", {"a": [], "b": []})), "The data frame has no rows"),
        (
            lambda: unalike.dataset(frame_of("polars", {"a": [[1], [2]], "b": [1, 2]})),
            "column a: list cannot be used",
        ),
    ],
)
def test_what_is_wrong_is_one_line(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_codes_of_a_frame_are_said_by_name_or_by_its_own_type() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"cp": [1, 2, 3, 4] * 20, "age": range(80), "ill": ["a", "b"] * 40})
    said = unalike.dataset(frame, label="ill", categories=["cp"])
    assert said.features == ("cp_1", "cp_2", "cp_3", "cp_4", "age")
    assert unalike.dataset(frame, label="ill", types="cp:category").digest == said.digest
    assert unalike.dataset(frame.astype({"cp": "category"}), label="ill").digest == said.digest
    halves = unalike.dataset(frame[:40], label="ill", categories=["cp"], test=frame[40:])
    assert halves.x_test[:, :4].sum() == 40
    with pytest.raises(UserError, match=r"Unknown column in types or categories 'cq'. Did you mean 'cp'\?"):
        unalike.dataset(frame, label="ill", categories=["cq"])


def test_a_data_set_is_shown_in_a_line() -> None:
    assert repr(unalike.dataset(X, Y, parties=PARTIES)) == (
        "Dataset mine: 80 rows to train on and 20 to test, each 3 numbers; 2 classes, 3 parties"
    )
    assert repr(unalike.dataset(X, X[:, 0], task="regression")).endswith("each 3 numbers; a number to predict")
