"""The two tables of scikit-learn: every row once, fixed and stratified test rows, standardised."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from unalike.data import load_dataset
from unalike.data.sklearn_files import read_table
from unalike.errors import UserError

SETS = [
    (
        "breast-cancer",
        load_breast_cancer,
        (456, 113),
        "ad1fd63477b9d3d564e44ec10acdbddfb3b21086030f12e3244a19577d481c13",
    ),
    ("wine", load_wine, (142, 36), "3fb9054feb1b4d8f555cb53f31bef39f25483b41667a53293d34f1b3e4e5551a"),
]


@pytest.mark.parametrize(("name", "source", "sizes", "digest"), SETS, ids=["breast-cancer", "wine"])
def test_rows_split_and_scale(name: str, source, sizes: tuple[int, int], digest: str) -> None:
    data, table = load_dataset(name), source()
    assert (len(data.y), len(data.y_test)) == sizes
    rows = np.column_stack([np.concatenate([data.x, data.x_test]), np.concatenate([data.y, data.y_test])])
    expected = np.column_stack([table.data.astype(np.float32), table.target])
    assert sorted(rows.tolist()) == sorted(expected.tolist())
    np.testing.assert_array_equal(np.bincount(data.y_test), np.rint(np.bincount(table.target) / 5))
    batch = (data.x - data.shift) / data.scale
    assert batch.dtype == np.float32
    np.testing.assert_allclose(batch.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(batch.std(axis=0), 1, atol=1e-3)
    assert len(data.features) == data.x.shape[1]
    # Recorded once: published figures are comparable only as long as this stays.
    assert hashlib.sha256(data.x_test.tobytes()).hexdigest() == digest


def test_classes() -> None:
    assert load_dataset("breast-cancer").classes == ("malignant", "benign")
    assert load_dataset("wine").classes == ("class_0", "class_1", "class_2")


@pytest.mark.parametrize(("name", "source", "file"), [
    ("breast-cancer", load_breast_cancer, "breast_cancer.csv"), ("wine", load_wine, "wine_data.csv"),
])  # fmt: skip
def test_the_file_is_what_scikit_learn_reads(name: str, source, file: str) -> None:
    table, (x, y, classes) = source(), read_table(file)
    np.testing.assert_array_equal(x, table.data)  # every bit: no tolerance
    np.testing.assert_array_equal(y, table.target)
    assert classes == tuple(table.target_names)
    assert load_dataset(name).features == tuple(str(each).replace(" ", "_") for each in table.feature_names)


def test_a_damaged_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / "wine_data.csv").write_text("3,2,a,b\n1,2,0\n3,4,1\n")
    monkeypatch.setattr("unalike.data.sklearn_files.packaged", lambda name: tmp_path / name)
    with pytest.raises(UserError, match="damaged"):
        load_dataset("wine")
