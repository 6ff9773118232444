"""Handwritten digits that come with scikit-learn: nothing to download."""

from __future__ import annotations

import numpy as np

from unalike.data.dataset import Dataset, register_dataset
from unalike.data.sklearn_files import packaged
from unalike.data.split import choose_test_rows
from unalike.data.unpack import unpacked

_ROWS = 1797
_SPLIT_SEED = 1797  # constant: every run, whatever its seed, is tested on the same images


@register_dataset("digits", paper="Alpaydin & Kaynak 1998, doi:10.24432/C50P49")
class Digits:
    """1,797 images of handwritten digits, 8x8 pixels, 10 classes; a fixed fifth of each is the test set.

    The pixels stay whole numbers from 0 to 16 (uint8) and are divided by 16 when a batch is made.
    """

    def load(self) -> Dataset:
        """Read the images from scikit-learn's file."""
        with unpacked(packaged("digits.csv.gz"), most=_ROWS * 65 * 3) as file:  # 64 pixels and a label, 16 at most
            table = np.loadtxt(file, delimiter=",", dtype=np.uint8)
        x = table[:, :-1].reshape(-1, 1, 8, 8)
        y = table[:, -1].astype(np.int64)
        test = choose_test_rows(y, 0.2, _SPLIT_SEED)
        return Dataset(
            name="digits",
            x=x[~test],
            y=y[~test],
            x_test=x[test],
            y_test=y[test],
            classes=tuple("0123456789"),
            scale=np.float32(16) * np.ones((), np.float32),
        )
