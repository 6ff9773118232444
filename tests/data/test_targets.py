"""Numbers to predict: checked one by one, standardised by the training rows, cut into tenths."""

import numpy as np
import pytest

from unalike.data import Dataset, load_dataset, trainable
from unalike.data.given import given
from unalike.data.targets import cut_points, range_names, ranges
from unalike.errors import UserError

X = np.arange(12, dtype=np.float32).reshape(6, 2)
Y = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])


def dataset(y=Y, y_test=Y, **fields):
    return Dataset("mine", X, y, X, y_test, (), task="regression", **fields)


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([1.0, np.nan, 3, 4, 5, np.inf], r"mine's training targets hold NaN or infinite values in 2 row\(s\)\."),
        (Y[:, None], r"have the shape \(6, 1\), not one number for each row\. Use y\.ravel\(\)"),
        (np.ones((6, 2)), r"have the shape \(6, 2\), not one number for each row"),
        (Y[:5], r"mine's training targets are 5, but there are 6 rows\."),
        (list("abcdef"), r"are of type <U1, not numbers"),
    ],
)
def test_targets_that_are_none_are_one_line(y, said):
    with pytest.raises(UserError, match=said):
        dataset(y=y)


def test_test_targets_are_checked_too():
    with pytest.raises(UserError, match="mine's test targets hold NaN"):
        dataset(y_test=[np.nan] * 6)


def test_other_mistakes():
    with pytest.raises(UserError, match="has classes, but its task is regression"):
        Dataset("mine", X, Y, X, Y, ("a",), task="regression")
    with pytest.raises(UserError, match=r"mine's task is 'ranking'\. Use classification or regression"):
        Dataset("mine", X, Y, X, Y, (), task="ranking")
    with pytest.raises(UserError, match="The target of mine is 3 in every training row"):
        trainable(dataset(y=np.full(6, 3)))


def test_targets_are_standardised_by_the_training_rows():
    data = dataset(y=[1, 2, 4, 8, 16, 32], y_test=Y * 100)
    assert data.y.dtype == np.float64
    assert (data.target.shift, data.target.scale) == (Y.mean(), Y.std())


def test_data_that_a_program_gives_are_named_by_their_targets():
    assert given(dataset()) == given(dataset())
    assert given(dataset()) != given(dataset(y=Y + 1))
    assert given(dataset()) != given(dataset(target=type(dataset().target)(np.zeros(()), np.full((), 2.0))))


@pytest.mark.parametrize("values", [np.arange(100.0), np.repeat([1.0, 2.0, 3.0], 20), np.r_[np.zeros(95), 1:6]])
def test_every_range_has_rows(values):
    cuts = cut_points(values)
    place = ranges(values, cuts)
    assert np.bincount(place, minlength=len(cuts) + 1).min() > 0
    names = range_names(values, cuts)
    assert len(set(names)) == len(names) == len(cuts) + 1


def test_names_of_narrow_ranges_stay_apart():
    values = 1e6 + np.arange(100) / 1000
    names = range_names(values, cut_points(values))
    assert len(set(names)) == 10


def test_diabetes_is_scikit_learns():
    from sklearn.datasets import load_diabetes

    data, theirs = load_dataset("diabetes"), load_diabetes(scaled=False)
    assert data.task == "regression"
    assert list(data.features) == theirs.feature_names
    np.testing.assert_array_equal(np.sort(np.r_[data.y, data.y_test]), np.sort(theirs.target))
    rows = {(*row, y) for row, y in zip(theirs.data.astype(np.float32).tolist(), theirs.target, strict=True)}
    assert {(*row, y) for row, y in zip(data.x.tolist(), data.y, strict=True)} < rows
    assert data.size == 352
    assert np.bincount(data.labels_test).min() >= 8


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["age,sex,hospital,cost"]
    for number in range(60):
        age, sex = rng.integers(20, 90), rng.choice(["f", "m"])
        lines.append(f"{age},{sex},h{number % 3},{1000.5 * age + number}")
    path = tmp_path / "patients.csv"
    path.write_text("\n".join(lines))
    return path


def test_a_table_of_ones_own(table):
    text = f"csv:{table}(label=cost, party=hospital, task=regression)"
    data = load_dataset(text)
    assert (data.task, data.classes, data.size, len(data.y_test)) == ("regression", (), 48, 12)
    assert data.y.min() > 20_000
    assert data.features[0] == "age"
    assert data.group_names == ("h0", "h1", "h2")
    assert abs((data.y_test > np.median(data.y)).mean() - 0.5) < 0.1  # stratified: as many above as below


def test_a_parquet_table_of_ones_own(table, tmp_path):
    parquet, csv = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.csv")
    parquet.write_table(csv.read_csv(table), tmp_path / "patients.parquet")
    ours = load_dataset(f"parquet:{tmp_path / 'patients.parquet'}(label=cost, task=regression)")
    np.testing.assert_allclose(ours.y, load_dataset(f"csv:{table}(label=cost, task=regression)").y)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("label=cost", r"Numbers are predicted with task=regression\."),
        ("label=sex, task=regression", r"The label sex has binary values such as 'f'|category values such as 'f'"),
        ("label=cost, task=regresion", r"csv's task must be one of classification, regression, got 'regresion'"),
    ],
)
def test_mistakes_with_a_table(table, fields, said):
    with pytest.raises(UserError, match=said):
        load_dataset(f"csv:{table}({fields})")


def test_a_missing_or_broken_target_names_its_line(table):
    lines = table.read_text().splitlines()
    lines[5] = "30,f,h1,"
    table.write_text("\n".join(lines))
    with pytest.raises(UserError, match="column cost: the value in line 6 is missing"):
        load_dataset(f"csv:{table}(label=cost, task=regression)")
    lines[5] = "30,f,h1,dear"
    table.write_text("\n".join(lines))
    with pytest.raises(UserError, match="column cost: 'dear' in line 6 is not a number"):
        load_dataset(f"csv:{table}(label=cost, task=regression)")


@pytest.mark.parametrize("rows", [5, 8, 20, 49, 51])
def test_a_small_table_has_a_test_set(tmp_path, rows):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{n % 7},{n * n}\n" for n in range(rows)))
    data = load_dataset(f"csv:{tmp_path / 't.csv'}(label=y, task=regression)")
    assert abs(len(data.y_test) - rows / 5) <= 1


def test_a_constant_target_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{n},5\n" for n in range(30)))
    with pytest.raises(UserError, match="The label y is '5' in every row"):
        load_dataset(f"csv:{tmp_path / 't.csv'}(label=y, task=regression)")
