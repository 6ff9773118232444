"""CIFAR-10 and CIFAR-100, from the files of their "python version"."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from unalike.data.dataset import Array, Dataset, register_dataset
from unalike.data.folder import find, or_get
from unalike.data.unpickle import read_pickle
from unalike.errors import UserError

_SHAPE = (3, 32, 32)


@dataclass(frozen=True)
class CifarFiles:
    """The folder that the download unpacks to, its files, and how many images each of them has."""

    name: str
    title: str
    folder: str
    archive: str
    train: tuple[str, ...]
    train_rows: int
    test: str
    meta: str
    test_rows: int = 10_000

    @property
    def how(self) -> str:
        """What a user reads who does not have the files."""
        return or_get(
            self.name,
            f"Get the python version of {self.title} from Alex Krizhevsky's page at the University of Toronto "
            f"({self.archive}) and unpack it there.",
        )


CIFAR10 = CifarFiles(
    name="cifar10",
    title="CIFAR-10",
    folder="cifar-10-batches-py",
    archive="cifar-10-python.tar.gz",
    train=tuple(f"data_batch_{k}" for k in range(1, 6)),
    train_rows=10_000,
    test="test_batch",
    meta="batches.meta",
)
CIFAR100 = CifarFiles(
    name="cifar100",
    title="CIFAR-100",
    folder="cifar-100-python",
    archive="cifar-100-python.tar.gz",
    train=("train",),
    train_rows=50_000,
    test="test",
    meta="meta",
)


@register_dataset("cifar10", paper="Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images")
class Cifar10:
    """60,000 colour photographs, 32x32 pixels, 10 classes; 10,000 are the test set.

    The pickles are read without running anything in them (see ``unpickle``).
    """

    model: ClassVar[str] = "simple-cnn"

    def load(self) -> Dataset:
        """Read the five training batches and the test batch."""
        return load_pickles(CIFAR10, "labels", "label_names", 10)


@register_dataset("cifar100", paper="Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images")
class Cifar100:
    """60,000 colour photographs, 32x32 pixels, 100 classes (or 20 coarse ones); 10,000 are the test set.

    The pickles are read without running anything in them (see ``unpickle``).
    """

    labels: Literal["fine", "coarse"] = "fine"
    model: ClassVar[str] = "simple-cnn"

    def load(self) -> Dataset:
        """Read the training file and the test file."""
        count = 100 if self.labels == "fine" else 20
        return load_pickles(CIFAR100, f"{self.labels}_labels", f"{self.labels}_label_names", count)


def load_pickles(source: CifarFiles, labels: str, names: str, count: int) -> Dataset:
    """Read the data set that ``source`` describes; ``labels`` and ``names`` are keys of its files."""
    folder = find(source.title, [source.folder], source.how)
    for file in (source.meta, *source.train, source.test):  # before reading a minute's worth of the others
        if not (folder / file).is_file():
            raise UserError(f"{source.title} is not complete: {folder} has no {file}. {source.how}")
    classes = _names(folder / source.meta, names, count)
    x, y = _images(source, [folder / file for file in source.train], source.train_rows, labels, count)
    x_test, y_test = _images(source, [folder / source.test], source.test_rows, labels, count)
    return Dataset(
        name=source.name,
        x=x,
        y=y,
        x_test=x_test,
        y_test=y_test,
        classes=classes,
        scale=np.full((), 255, np.float32),
    )


def _names(path: Path, key: str, count: int) -> tuple[str, ...]:
    """The names of the classes, bytes or text in the file."""
    names = read_pickle(path).get(key)
    if not isinstance(names, list) or len(names) != count or {*map(type, names)} - {str, bytes}:
        raise UserError(f"{path} must list {count} {key}. Unpack the download again.")
    return tuple(name.decode("latin-1") if isinstance(name, bytes) else name for name in names)


def _images(source: CifarFiles, paths: list[Path], rows: int, key: str, count: int) -> tuple[Array, Array]:
    """The images and labels of all files, read one file at a time into their place."""
    x = np.empty((len(paths) * rows, *_SHAPE), np.uint8)
    y = np.empty(len(x), np.int64)
    for k, path in enumerate(paths):
        here = slice(k * rows, (k + 1) * rows)
        content = read_pickle(path)
        x[here] = _pixels(path, content.get("data"), rows)
        y[here] = _labels(path, content.get(key), rows, key, count)
    if (np.bincount(y, minlength=count) != len(y) // count).any():  # as the data sets' page says
        files = ", ".join(path.name for path in paths)
        raise UserError(
            f"{source.title} has as many images of each class, but {files} in {paths[0].parent} do not. "
            "A file is there twice or changed; unpack the download again."
        )
    return x, y


def _pixels(path: Path, data: Any, rows: int) -> Array:
    if not isinstance(data, np.ndarray) or data.shape != (rows, int(np.prod(_SHAPE))):
        found = " x ".join(map(str, data.shape)) if isinstance(data, np.ndarray) else "no array"
        raise UserError(f"{path} must hold data of {rows} x 3072, found {found}. Unpack the download again.")
    return data.reshape(rows, *_SHAPE)


def _labels(path: Path, labels: Any, rows: int, key: str, count: int) -> Array:
    if isinstance(labels, np.ndarray):
        labels = labels.tolist()
    if not isinstance(labels, list) or len(labels) != rows or not all(type(label) is int for label in labels):
        raise UserError(f"{path} must hold {rows} {key}, whole numbers. Unpack the download again.")
    if min(labels) < 0 or max(labels) >= count:
        wrong = min(labels) if min(labels) < 0 else max(labels)
        raise UserError(f"{path} has the label {wrong}; {key} are 0 to {count - 1}. Unpack the download again.")
    return np.array(labels, np.int64)
