"""The digits: the right images, and a test set that never moves."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from unalike.data import load_dataset
from unalike.data.sklearn_files import packaged
from unalike.errors import UserError


def test_shapes_types_and_scale() -> None:
    digits = load_dataset("digits")
    assert digits.x.shape == (1438, 1, 8, 8)
    assert digits.x_test.shape == (359, 1, 8, 8)
    assert digits.x.dtype == digits.x_test.dtype == np.uint8
    assert digits.shape == (1, 8, 8)
    assert digits.classes == tuple("0123456789")
    assert digits.group is None
    batch = (digits.x - digits.shift) / digits.scale
    assert batch.dtype == np.float32
    assert (batch.min(), batch.max()) == (0, 1)


def test_every_image_is_there_once_with_its_label() -> None:
    digits = load_dataset("digits")
    pixels, labels = load_digits(return_X_y=True)
    expected = sorted((*row, label) for row, label in zip(pixels.astype(int).tolist(), labels, strict=True))
    rows = np.concatenate([digits.x, digits.x_test]).reshape(-1, 64).astype(int).tolist()
    found = sorted((*row, label) for row, label in zip(rows, [*digits.y, *digits.y_test], strict=True))
    assert found == expected


def test_a_fifth_of_each_class_is_the_test_set() -> None:
    digits = load_dataset("digits")
    train, test = np.bincount(digits.y), np.bincount(digits.y_test)
    np.testing.assert_array_equal(test, np.rint((train + test) / 5))


def test_the_test_set_is_fixed() -> None:
    np.random.seed(1)  # noqa: NPY002 - global state must not matter
    first = load_dataset("digits").x_test
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(first, load_dataset("digits").x_test)
    # Recorded once: published figures are comparable only as long as this stays.
    assert (
        hashlib.sha256(first.tobytes()).hexdigest()
        == "c4857d84be775f556f2f5d9dbe5dfc54c7c1bb22232cbbbfa5fe679101b24364"
    )


def test_the_file_is_what_scikit_learn_reads() -> None:
    pixels, labels = load_digits(return_X_y=True)
    table = np.loadtxt(packaged("digits.csv.gz"), delimiter=",", dtype=np.uint8)
    np.testing.assert_array_equal(table[:, :-1], pixels)
    np.testing.assert_array_equal(table[:, -1], labels)


def test_loading_does_not_import_scikit_learn() -> None:
    code = (
        "import sys; from unalike.data import load_dataset; "
        "[load_dataset(name) for name in ('digits', 'breast-cancer', 'wine')]; "
        "sys.exit('sklearn' in sys.modules or 'scipy.stats' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_without_scikit_learn_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install scikit-learn"):
        load_dataset("digits")
