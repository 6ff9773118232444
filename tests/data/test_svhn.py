"""SVHN: MATLAB's axes turned, the digit 0 found again, nothing but whole files."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.io import savemat

from tests.data.images import real, refusal
from tests.memory import peak_bytes
from unalike.data import load_dataset, svhn

ROWS = {"train": 12, "test": 10, "extra": 20}


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setattr(svhn, "ROWS", ROWS)
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    return tmp_path


def content(part: str):
    rng = np.random.default_rng(len(part))
    x = rng.integers(0, 256, (32, 32, 3, ROWS[part]), dtype=np.uint8)
    return {"X": x, "y": (np.arange(ROWS[part]) % 10 + 1).astype(np.uint8)[:, None]}


def write(folder, *parts: str, **options) -> None:
    folder.mkdir(exist_ok=True)
    for part in parts:
        savemat(folder / f"{part}_32x32.mat", content(part), **options)


@pytest.mark.parametrize("folder", [".", "SVHN", "svhn"])
@pytest.mark.parametrize("packed", [False, True])
def test_axes_and_labels(small, folder, packed):
    write(small / folder, "train", "test", do_compression=packed)
    data = load_dataset("svhn")
    assert data.x.shape == (12, 3, 32, 32)
    assert data.x_test.shape == (10, 3, 32, 32)
    assert data.x.dtype == np.uint8
    assert data.x.flags.c_contiguous
    assert data.x[4, 2, 7, 9] == content("train")["X"][7, 9, 2, 4]
    np.testing.assert_array_equal(data.x_test.transpose(2, 3, 1, 0), content("test")["X"])
    assert data.y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]
    assert data.y.dtype == np.int64
    assert data.scale == 255
    assert data.group is None


def test_extra_images_come_after_the_others(small):
    write(small, "train", "test", "extra")
    assert load_dataset("svhn").size == 12
    data = load_dataset("svhn(extra=true)")
    np.testing.assert_array_equal(data.x[:12], load_dataset("svhn").x)
    np.testing.assert_array_equal(data.x[12:].transpose(2, 3, 1, 0), content("extra")["X"])
    assert data.y[12:].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] * 2


@pytest.mark.parametrize("part", ["train", "test", "extra"])
def test_an_absent_file_is_named(small, part):
    write(small, *(set(ROWS) - {part}))
    text = refusal("svhn(extra=true)")
    assert f"{part}_32x32.mat" in text
    assert "Stanford" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.pop("X"), "must hold X, uint8 of (32, 32, 3, 12), found none"),
        (lambda c: c.update(X=c["X"][..., :11]), "found uint8 of (32, 32, 3, 11)"),
        (lambda c: c.update(X=c["X"].astype(np.int8)), "found int8"),
        (lambda c: c.update(X=c["X"].astype(np.float64)), "holds more than 36,960 bytes"),
        (lambda c: c.pop("y"), "must hold y, 12 labels, found none"),
        (lambda c: c.update(y=c["y"][:5]), "found 5"),
        (lambda c: c.update(y=c["y"] - 1), "has the label 0; labels are 1 to 10"),
        (lambda c: c.update(y=c["y"] + 1), "has the label 11"),
        (lambda c: c.update(y=c["y"] + 0.5), "has the label 1.5"),
        (lambda c: c.update(y=np.full(12, np.nan)), "has the label nan"),
        (lambda c: c.update(y=np.array(["a"] * 12, object)), "must hold y"),
    ],
)
def test_wrong_content_is_refused(small, change, said):
    write(small, "test")
    changed = content("train")
    change(changed)
    savemat(small / "train_32x32.mat", changed)
    text = refusal("svhn")
    assert said in text
    assert "train_32x32.mat" in text


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kept", [0, 10, 128, 300, 20_000, -10])
def test_a_truncated_file_is_refused(small, kept, packed):
    write(small, "train", "test", do_compression=packed)
    path = small / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:kept])
    assert str(path) in refusal("svhn")


@pytest.mark.parametrize("name", ["X", "y", "z"])
def test_a_bomb_is_not_unpacked(small, name):
    """68 MB of zeros in a file of a hundred KB."""
    write(small, "test")
    bomb = {**content("train"), name: np.zeros((32, 32, 3, 22_000), np.uint8)}
    savemat(small / "train_32x32.mat", bomb, do_compression=True)
    del bomb
    said = []
    assert peak_bytes(lambda: said.append(refusal("svhn"))) < 10_000_000
    assert "holds more than 36,960 bytes" in said[0]


def test_other_formats_are_refused(small):
    write(small, "test")
    for content in (b"<html>" * 100, b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(512)):
        (small / "train_32x32.mat").write_bytes(content)
        assert "cannot be read as a MATLAB 5 file" in refusal("svhn")


def test_the_real_svhn():
    real("train_32x32.mat", "SVHN/train_32x32.mat", "svhn/train_32x32.mat")
    data = load_dataset("svhn")
    assert data.x.shape == (73_257, 3, 32, 32)
    assert np.bincount(data.y)[:2].tolist() == [4948, 13861]
