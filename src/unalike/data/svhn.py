"""Street View House Numbers, cropped digits, from the MATLAB files."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from unalike.data.dataset import Array, Dataset, register_dataset
from unalike.data.folder import find, or_get
from unalike.data.matlab import read_matlab
from unalike.errors import UserError

_PIXELS = 3 * 32 * 32
ROWS = {"train": 73_257, "test": 26_032, "extra": 531_131}


@register_dataset(
    "svhn", paper="Netzer et al. 2011, Reading Digits in Natural Images with Unsupervised Feature Learning"
)
class Svhn:
    """99,289 photographs of house numbers' digits, 32x32 pixels, 10 classes; 26,032 are the test set.

    ``extra=true`` adds the 531,131 somewhat easier images of extra_32x32.mat to the training images (2 GB).
    """

    extra: bool = False
    model: ClassVar[str] = "simple-cnn"

    def load(self) -> Dataset:
        """Read train_32x32.mat and test_32x32.mat, and with ``extra`` extra_32x32.mat too."""
        x, y = _parts(("train", "extra") if self.extra else ("train",))
        x_test, y_test = _parts(("test",))
        return Dataset(
            name="svhn",
            x=x,
            y=y,
            x_test=x_test,
            y_test=y_test,
            classes=tuple("0123456789"),
            scale=np.full((), 255, np.float32),
        )


def _parts(parts: tuple[str, ...]) -> tuple[Array, Array]:
    """The images [n, 3, 32, 32] and labels of all parts, read one part at a time into their place."""
    paths = [_path(part) for part in parts]  # all of them are there before the first is read
    rows = [ROWS[part] for part in parts]
    x = np.empty((sum(rows), 3, 32, 32), np.uint8)
    y = np.empty(sum(rows), np.int64)
    start = 0
    for path, count in zip(paths, rows, strict=True):
        images, labels = _read(path, count)
        x[start : start + count] = images.transpose(3, 2, 0, 1)  # the file has [32, 32, 3, n]
        y[start : start + count] = labels % 10  # the file calls the digit 0 "10"
        start += count
    return x, y


def _path(part: str) -> Path:
    file = f"{part}_32x32.mat"
    how = f"Get {file} (format 2, cropped digits) from the SVHN page of Stanford's Ng group or any mirror."
    how = how if part == "extra" else or_get("svhn", how)
    return find("SVHN", [file, f"SVHN/{file}", f"svhn/{file}"], how)


def _read(path: Path, rows: int) -> tuple[Array, Array]:
    """The arrays X and y of a file, checked."""
    content = read_matlab(path, most=rows * (_PIXELS + 8))  # a label is a byte, or at most a double
    images, labels = content.get("X"), content.get("y")
    if images is None or images.dtype != np.uint8 or images.shape != (32, 32, 3, rows):
        found = f"{images.dtype} of {images.shape}" if images is not None else "none"
        raise UserError(f"{path} must hold X, uint8 of (32, 32, 3, {rows}), found {found}. Download it again.")
    if labels is None or labels.size != rows:
        found = str(labels.size) if labels is not None else "none"
        raise UserError(f"{path} must hold y, {rows} labels, found {found}. Download it again.")
    labels = labels.reshape(-1)
    wrong = labels[~np.isin(labels, np.arange(1, 11))]
    if len(wrong):
        raise UserError(f"{path} has the label {wrong[0]}; labels are 1 to 10. Download it again.")
    return images, labels.astype(np.int64)
