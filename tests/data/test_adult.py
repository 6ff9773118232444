"""Adult: a9a's two files, padded to 123 columns."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from unalike.data import adult, load_dataset
from unalike.errors import UserError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    monkeypatch.setattr(adult, "ROWS", 3)
    monkeypatch.setattr(adult, "TEST_ROWS", 2)
    (tmp_path / "adult").mkdir()
    (tmp_path / "a9a").write_text("-1 3:1 123:1 \n+1 1:1 \n-1 2:1 \n")
    (tmp_path / "adult" / "a9a.t.gz").write_bytes(gzip.compress(b"+1 122:1\n-1 1:1\n"))
    return tmp_path


def test_small_files_of_the_format(folder: Path) -> None:
    data = load_dataset("adult")
    assert (data.x.shape, data.x_test.shape, data.x.dtype) == ((3, 123), (2, 123), np.float32)
    assert data.y.tolist() == [0, 1, 0]
    assert data.y_test.tolist() == [1, 0]
    assert [np.flatnonzero(row).tolist() for row in data.x] == [[2, 122], [0], [1]]
    assert data.x_test[:, 122].tolist() == [0, 0]
    assert data.classes == ("<=50K", ">50K")
    assert len(data.features) == 123


def test_a_short_or_absent_file(folder: Path) -> None:
    (folder / "a9a").write_text("-1 3:1\n")
    with pytest.raises(UserError, match=r"a9a has 1 rows, the public file 3. Download it again"):
        load_dataset("adult")
    (folder / "a9a").unlink()
    with pytest.raises(UserError, match=r"adult's a9a is not in .*LIBSVM data page"):
        load_dataset("adult")


@pytest.mark.skipif(not Path(os.environ.get("UNALIKE_DATA", ""), "a9a").is_file(), reason="a9a is not there")
def test_the_real_files() -> None:
    data = load_dataset("adult")
    assert (data.x.shape, data.x_test.shape) == ((32_561, 123), (16_281, 123))
    assert set(np.unique(data.x)) == {0, 1}
    assert np.bincount(data.y).tolist() == [24_720, 7_841]  # the census file's own counts
    assert np.bincount(data.y_test).tolist() == [12_435, 3_846]
    assert not data.x_test[:, 122].any()
    assert data.x[:, 122].any()
