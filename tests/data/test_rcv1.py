"""RCV1: sparse all the way, and NIID-Bench's sizes from the training file alone."""

from __future__ import annotations

import bz2
import os
from pathlib import Path

import numpy as np
import pytest

from unalike.data import load_dataset, rcv1
from unalike.errors import UserError


def lines(count: int) -> bytes:
    """Row r has the value r + 1 in column r + 1, so that a row tells which it is; labels alternate."""
    return "".join(f"{(-1, 1)[row % 2]} {row + 1}:{row + 1} 47236:0.5\n" for row in range(count)).encode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    (tmp_path / "rcv1_train.binary.bz2").write_bytes(bz2.compress(lines(20_242)))
    return tmp_path


def test_fixed_split_of_the_training_file(folder: Path) -> None:
    data = load_dataset("rcv1")
    assert data.is_sparse
    assert (data.x.shape, data.x_test.shape, data.x.dtype) == ((15_182, 47_236), (5_060, 47_236), np.float32)
    for x, y in ((data.x, data.y), (data.x_test, data.y_test)):
        assert x.format == "csr"
        assert x.nnz == 2 * len(y)
        np.testing.assert_array_equal((x.max(axis=1).toarray().ravel() - 1) % 2, y)
    rows = np.concatenate([x.max(axis=1).toarray().ravel() for x in (data.x, data.x_test)])
    assert sorted(rows) == list(range(1, 20_243))
    again = load_dataset("rcv1(split)")
    assert (again.x_test != data.x_test).nnz == 0


def test_the_test_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"rcv1_test.binary is not in .*LIBSVM data page"):
        load_dataset("rcv1(test=file)")
    monkeypatch.setitem(rcv1.ROWS, "test", 7)
    (folder / "rcv1").mkdir()
    (folder / "rcv1" / "rcv1_test.binary").write_bytes(lines(7))
    data = load_dataset("rcv1(test=file)")
    assert (data.x.shape[0], data.x_test.shape[0]) == (20_242, 7)
    assert load_dataset("rcv1").x_test.shape[0] == 5_060  # another file beside it changes nothing


def test_a_short_file(folder: Path) -> None:
    (folder / "rcv1_train.binary").write_bytes(lines(50))
    with pytest.raises(UserError, match="has 50 rows, the public file 20,242"):
        load_dataset("rcv1")


def test_one_class_only(folder: Path) -> None:
    (folder / "rcv1_train.binary.bz2").write_bytes(bz2.compress(b"-1 5:1\n" * 20_242))
    with pytest.raises(UserError, match="All 15,182 training rows of rcv1 have the label 'markets or government'"):
        load_dataset("rcv1")


FOUND = [
    p for p in Path(os.environ.get("UNALIKE_DATA", ".")).glob("rcv1_train.binary*") if "UNALIKE_DATA" in os.environ
]


@pytest.mark.skipif(not FOUND, reason="rcv1 is not there")
def test_the_real_file() -> None:
    data = load_dataset("rcv1")
    assert data.x.nnz + data.x_test.nnz == 1_498_952
