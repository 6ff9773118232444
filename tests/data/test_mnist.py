"""MNIST and Fashion-MNIST: packed or not, wherever they are; nothing but the whole public files."""

from __future__ import annotations

import dataclasses
import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.data.images import idx, real, refusal, write_idx
from tests.memory import peak_bytes
from unalike.data import load_dataset, mnist
from unalike.data.dataset import Dataset
from unalike.data.folder import data_folder

NAMES = (mnist.TRAIN_IMAGES, mnist.TRAIN_LABELS, mnist.TEST_IMAGES, mnist.TEST_LABELS)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A data folder, and sources that expect 30 + 20 images with any checksum."""
    for name in ("MNIST", "FASHION"):
        source = dataclasses.replace(getattr(mnist, name), digests={}, elsewhere=(), train_rows=30, test_rows=20)
        monkeypatch.setattr(mnist, name, source)
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    return tmp_path


def arrays():
    rng = np.random.default_rng(5)
    shapes = ((30, 28, 28), (30,), (20, 28, 28), (20,))
    return [rng.integers(0, 256 if len(shape) == 3 else 10, shape, dtype=np.uint8) for shape in shapes]


def write(folder: Path, ending: str = "") -> None:
    for name, array in zip(NAMES, arrays(), strict=True):
        write_idx(folder / f"{name}{ending}", array)


def check(data: Dataset) -> None:
    x, y, x_test, y_test = arrays()
    np.testing.assert_array_equal(data.x[:, 0], x)
    np.testing.assert_array_equal(data.y, y)
    np.testing.assert_array_equal(data.x_test[:, 0], x_test)
    np.testing.assert_array_equal(data.y_test, y_test)
    assert data.x.dtype == data.x_test.dtype == np.uint8
    assert data.y.dtype == data.y_test.dtype == np.int64
    assert data.x.flags.writeable
    assert data.scale == 255
    assert data.scale.dtype == np.float32
    assert data.shape == (1, 28, 28)
    assert len(data.classes) == 10


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("folder", ["MNIST/raw", "mnist", "."])
def test_mnist_is_read_from_each_folder_packed_or_not(small, folder, ending):
    write(small / folder, ending)
    check(load_dataset("mnist"))


@pytest.mark.parametrize("folder", ["FashionMNIST/raw", "fashion-mnist", "."])
def test_fashion_mnist_is_read_from_each_folder(small, folder):
    write(small / folder, ".gz")
    check(load_dataset("fmnist"))


def test_fashion_mnist_is_read_from_where_a_package_installed_it(small, tmp_path_factory, monkeypatch):
    installed = tmp_path_factory.mktemp("share")
    write(installed, ".gz")
    monkeypatch.setattr(mnist, "FASHION", dataclasses.replace(mnist.FASHION, elsewhere=(installed,)))
    check(load_dataset("fmnist"))


def test_the_dotted_names_of_some_tools(small):
    for name, array in zip(NAMES, arrays(), strict=True):
        write_idx(small / name.replace("-idx", ".idx"), array)
    check(load_dataset("mnist"))


def test_a_packed_file_without_the_ending(small):
    write(small)
    path = small / mnist.TRAIN_IMAGES
    path.write_bytes(gzip.compress(path.read_bytes()))
    check(load_dataset("mnist"))


def test_absent_files_say_how_to_get_them(small):
    text = refusal("mnist")
    assert "MNIST is not in" in text
    assert "Yann LeCun" in text
    assert "MNIST/raw/train-images-idx3-ubyte.gz" in text
    assert "dataset-fashion-mnist" in refusal("fmnist")


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_missing_file_is_named(small, name):
    write(small, ".gz")
    (small / f"{name}.gz").unlink()
    assert f"has no {name}.gz" in refusal("mnist")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, -1])
def test_truncated_files_are_refused(small, name, ending, kept):
    write(small, ending)
    path = small / f"{name}{ending}"
    content = path.read_bytes()
    path.write_bytes(content[:-1] if kept == -1 else content[: int(len(content) * kept)])
    assert str(path) in refusal("mnist")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: b"\0\0\x09\x03" + content[4:], "begins with 00000903, not 00000803"),
        (lambda content: idx(np.zeros((31, 28, 28), np.uint8)), "31 x 28 x 28 values, not 30 x 28 x 28"),
        (lambda content: idx(np.zeros((30, 28, 27), np.uint8)), "30 x 28 x 27"),
        (lambda content: content + b"\0", "holds more than 23,536 bytes"),
        (lambda content: content[:-1], "must have 23536 bytes (unpacked), but has 23535"),
        (lambda content: b"<html>", "begins with 3c68746d"),
        (lambda content: gzip.compress(content)[:-4] + b"\0\0\0\0", "Cannot read"),
    ],
)
def test_other_content_is_refused(small, change, said):
    write(small)
    path = small / NAMES[0]
    path.write_bytes(change(path.read_bytes()))
    text = refusal("mnist")
    assert said in text
    assert str(path) in text
    assert text.endswith("Download it again.")


def test_a_label_out_of_range_is_refused(small):
    write(small)
    labels = arrays()[3]
    labels[7] = 10
    write_idx(small / NAMES[3], labels)
    assert "has the label 10; labels are 0 to 9" in refusal("mnist")


def test_the_checksum_is_of_the_unpacked_content(small, monkeypatch):
    import hashlib

    write(small, ".gz")
    digests = {n: hashlib.md5(idx(a)).hexdigest() for n, a in zip(NAMES, arrays(), strict=True)}
    monkeypatch.setattr(mnist, "MNIST", dataclasses.replace(mnist.MNIST, digests=digests))
    check(load_dataset("mnist"))
    path = small / f"{NAMES[0]}.gz"
    path.write_bytes(gzip.compress(idx(arrays()[0]), compresslevel=1, mtime=7))  # packed anew: the same content
    check(load_dataset("mnist"))
    changed = arrays()[0]
    changed[3, 4, 5] ^= 1
    write_idx(path, changed)
    assert "not the public file" in refusal("mnist")


def test_only_as_much_as_expected_is_unpacked(small, monkeypatch):
    write(small, ".gz")
    (small / f"{NAMES[0]}.gz").write_bytes(gzip.compress(idx(arrays()[0]) + bytes(60_000_000), compresslevel=1))
    said = []
    assert peak_bytes(lambda: said.append(refusal("mnist"))) < 20_000_000
    assert "holds more than 23,536 bytes" in said[0]


def test_the_real_mnist():
    real("MNIST/raw", "mnist", "train-images-idx3-ubyte.gz")
    data = load_dataset("mnist")
    assert data.x.shape == (60_000, 1, 28, 28)
    assert data.x_test.shape == (10_000, 1, 28, 28)
    assert np.bincount(data.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert abs(data.x.mean() / 255 - 0.1307) < 1e-4  # the mean that everyone standardises by
    assert data.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


def test_the_real_fashion_mnist():
    if not any(path.exists() for path in mnist.FASHION.elsewhere):
        real("FashionMNIST/raw", "fashion-mnist")
    data = load_dataset("fmnist")
    assert data.x.shape == (60_000, 1, 28, 28)
    assert set(np.bincount(data.y)) == {6000}
    assert set(np.bincount(data.y_test)) == {1000}
    assert abs(data.x.mean() / 255 - 0.2860) < 1e-4
    assert data.classes[data.y[0]] == "ankle boot"


def test_the_real_mnist_does_not_pass_for_fashion(tmp_path, monkeypatch):
    raw = real("MNIST/raw")
    shutil.copytree(raw, tmp_path / "fashion-mnist")
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert "not the public file" in refusal("fmnist")
