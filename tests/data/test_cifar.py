"""CIFAR: the files as Python 2 and as today's numpy wrote them; nothing but whole ones."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from tests.data.images import python2_pickle, real, refusal
from unalike.data import cifar, load_dataset

ROWS = {"cifar10": 20, "cifar100": 200}
TEST_ROWS = {"cifar10": 10, "cifar100": 100}


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A data folder, and sources that expect few images."""
    for attribute, name in (("CIFAR10", "cifar10"), ("CIFAR100", "cifar100")):
        source = dataclasses.replace(getattr(cifar, attribute), train_rows=ROWS[name], test_rows=TEST_ROWS[name])
        monkeypatch.setattr(cifar, attribute, source)
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    return tmp_path


def part(rows: int, classes: int, seed: int):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (rows, 3072), dtype=np.uint8)
    return pixels, rng.permutation(np.arange(rows) % classes).tolist()


def batches():
    return {f"data_batch_{k}": part(20, 10, k) for k in range(1, 6)} | {"test_batch": part(10, 10, 6)}


def dump(protocol, content):
    """Bytes keys and lists, pickled by Python 2 (protocol 0 stands for that) or by this Python."""
    if protocol:
        return pickle.dumps(content, protocol=protocol)
    arrays = {key: value for key, value in content.items() if isinstance(value, np.ndarray)}
    return python2_pickle(arrays, {key: value for key, value in content.items() if key not in arrays})


def write10(folder, protocol=0):
    folder = folder / "cifar-10-batches-py"
    folder.mkdir()
    for name, (pixels, labels) in batches().items():
        names = [b"a_s_%06d.png" % k for k in range(len(labels))]
        content = {b"data": pixels, b"labels": labels, b"filenames": names}
        (folder / name).write_bytes(dump(protocol, content))
    (folder / "batches.meta").write_bytes(dump(protocol, {b"label_names": [b"class %d" % k for k in range(10)]}))
    return folder


def write100(folder, protocol=0):
    folder = folder / "cifar-100-python"
    folder.mkdir()
    for name, rows in (("train", 200), ("test", 100)):
        pixels, fine = part(rows, 100, rows)
        content = {b"data": pixels, b"fine_labels": fine, b"coarse_labels": [label // 5 for label in fine]}
        (folder / name).write_bytes(dump(protocol, content))
    names = {b"fine_label_names": [b"f%d" % k for k in range(100)]}
    names[b"coarse_label_names"] = [b"c%d" % k for k in range(20)]
    (folder / "meta").write_bytes(dump(protocol, names))
    return folder


@pytest.mark.parametrize("protocol", [0, 2, 3, 4, 5])
def test_cifar10_has_every_image_in_its_place(small, protocol):
    write10(small, protocol)
    data = load_dataset("cifar10")
    train = [batches()[f"data_batch_{k}"] for k in range(1, 6)]
    pixels = np.concatenate([pixels for pixels, _ in train])
    np.testing.assert_array_equal(data.x.reshape(100, 3072), pixels)
    np.testing.assert_array_equal(data.y, np.concatenate([labels for _, labels in train]))
    np.testing.assert_array_equal(data.x_test.reshape(10, 3072), batches()["test_batch"][0])
    np.testing.assert_array_equal(data.y_test, batches()["test_batch"][1])
    # The file has 1,024 red values, then green, then blue; each row by row.
    assert data.x[3, 1, 2, 5] == pixels[3, 1024 + 2 * 32 + 5]
    assert data.x.dtype == np.uint8
    assert data.x.flags.writeable
    assert data.x_test.flags.writeable
    assert data.scale == 255
    assert data.classes == tuple(f"class {k}" for k in range(10))


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_cifar100_fine_and_coarse(small, protocol):
    write100(small, protocol)
    fine, coarse = load_dataset("cifar100"), load_dataset("cifar100(labels=coarse)")
    np.testing.assert_array_equal(fine.x.reshape(200, 3072), part(200, 100, 200)[0])
    np.testing.assert_array_equal(fine.y, part(200, 100, 200)[1])
    np.testing.assert_array_equal(coarse.y_test, fine.y_test // 5)
    assert (len(fine.classes), len(coarse.classes)) == (100, 20)
    assert (fine.classes[7], coarse.classes[7]) == ("f7", "c7")


def test_absent_data_say_how_to_get_them(small):
    text = refusal("cifar10")
    assert "CIFAR-10 is not in" in text
    assert "cifar-10-python.tar.gz) and unpack it" in text
    assert "cifar-100-python.tar.gz" in refusal("cifar100")


def test_the_archive_alone_is_to_be_unpacked(small):
    (small / "cifar-10-python.tar.gz").write_bytes(b"")
    assert "unpack it" in refusal("cifar10")


@pytest.mark.parametrize("name", ["data_batch_1", "data_batch_4", "test_batch", "batches.meta"])
def test_a_missing_file_is_named(small, name):
    (write10(small) / name).unlink()
    assert f"has no {name}." in refusal("cifar10")


@pytest.mark.parametrize("name", ["data_batch_3", "test_batch", "batches.meta"])
def test_a_truncated_file_is_named(small, name):
    path = write10(small) / name
    path.write_bytes(path.read_bytes()[:-20])
    assert str(path) in refusal("cifar10")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.pop("data"), "must hold data of 20 x 3072, found no array"),
        (lambda c: c.update(data=c["data"][:19]), "found 19 x 3072"),
        (lambda c: c.update(data=c["data"].reshape(20, 3, 1024)), "found 20 x 3 x 1024"),
        (lambda c: c.update(data=c["data"].astype(np.float32)), "numpy.dtype"),
        (lambda c: c.pop("labels"), "must hold 20 labels"),
        (lambda c: c["labels"].pop(), "must hold 20 labels"),
        (lambda c: c["labels"].__setitem__(3, 10), "has the label 10; labels are 0 to 9"),
        (lambda c: c["labels"].__setitem__(3, -1), "has the label -1"),
        (lambda c: c["labels"].__setitem__(3, "3"), "whole numbers"),
        (lambda c: c["labels"].__setitem__(3, True), "whole numbers"),
        (lambda c: c["labels"].__setitem__(3, (c["labels"][3] + 1) % 10), "as many images of each class"),
    ],
)
def test_wrong_content_is_refused(small, change, said):
    path = write10(small) / "data_batch_2"
    pixels, labels = batches()["data_batch_2"]
    content = {"data": pixels, "labels": labels}
    change(content)
    path.write_bytes(pickle.dumps(content))
    text = refusal("cifar10")
    assert said in text
    assert "data_batch_2" in text


def test_labels_in_an_array_are_read(small):
    path = write10(small) / "data_batch_2"
    pixels, labels = batches()["data_batch_2"]
    path.write_bytes(pickle.dumps({"data": pixels, "labels": np.array(labels, np.uint8)}))
    assert load_dataset("cifar10").y[20:40].tolist() == labels


def test_class_names_must_be_names(small):
    path = write10(small) / "batches.meta"
    for names in ([b"a"] * 9, [1] * 10, None, [[b"a"]] * 10):
        path.write_bytes(pickle.dumps({"label_names": names}))
        assert "must list 10 label_names" in refusal("cifar10")


def test_the_real_cifar10():
    real("cifar-10-batches-py")
    data = load_dataset("cifar10")
    assert data.x.shape == (50_000, 3, 32, 32)
    assert data.x_test.shape == (10_000, 3, 32, 32)
    # The means that everyone standardises by.
    np.testing.assert_allclose(data.x.mean(axis=(0, 2, 3)) / 255, [0.4914, 0.4822, 0.4465], atol=1e-4)
    assert [data.classes[k] for k in data.y[:3]] == ["frog", "truck", "truck"]


def test_the_real_cifar100():
    real("cifar-100-python")
    data = load_dataset("cifar100")
    assert data.x.shape == (50_000, 3, 32, 32)
    np.testing.assert_allclose(data.x.mean(axis=(0, 2, 3)) / 255, [0.5071, 0.4865, 0.4409], atol=1e-3)
