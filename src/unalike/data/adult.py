"""Adult (census income) in LIBSVM's binary coding, a9a."""

from __future__ import annotations

import numpy as np

from unalike.data.dataset import Dataset, register_dataset
from unalike.data.folder import find, or_get
from unalike.data.libsvm import read_libsvm

FEATURES = 123
ROWS, TEST_ROWS = 32_561, 16_281
_LINE = 8 * FEATURES  # bytes: every feature of a row, written as 123:1 and a blank
_HOW = or_get("adult", "Download {} from the LIBSVM data page, binary classification, into that folder.")


@register_dataset("adult", paper="Kohavi 1996, doi:10.24432/C5XW20; a9a of Platt 1999 and LIBSVM")
class Adult:
    """48,842 people of the 1994 census, 123 binary features, income above 50,000 dollars or not.

    LIBSVM's ``a9a`` (32,561 training rows) and ``a9a.t`` (16,281 test rows), as in NIID-Bench. Continuous
    columns of the census are cut into quantiles and all columns coded as 0 or 1 by the file's authors.
    """

    def load(self) -> Dataset:
        """Read both files from the data folder."""
        read = []
        for name, rows in (("a9a", ROWS), ("a9a.t", TEST_ROWS)):
            places = [
                f"{folder}{name}{packed}" for folder in ("", "adult/", "a9a/") for packed in ("", ".gz", ".bz2")
            ]
            path = find(f"adult's {name}", places, _HOW.format(name))
            # a9a.t never has feature 123: the width is the data set's, not the largest index of the file
            x, y = read_libsvm(path, FEATURES, rows, _LINE)
            read.append((x.toarray().astype(np.float32), y))
        (x, y), (x_test, y_test) = read
        return Dataset(
            name="adult",
            x=x,
            y=y,
            x_test=x_test,
            y_test=y_test,
            classes=("<=50K", ">50K"),
            features=tuple(f"a9a_{number}" for number in range(1, FEATURES + 1)),
        )
