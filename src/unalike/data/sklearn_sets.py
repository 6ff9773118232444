"""Two small clinical and chemical tables that come with scikit-learn: nothing to download."""

from __future__ import annotations

from typing import Any

import numpy as np

from unalike.data.dataset import Dataset, register_dataset
from unalike.data.split import choose_test_rows

_SPLIT_SEED = 569  # constant: every run, whatever its seed, is tested on the same rows


@register_dataset("breast-cancer", paper="Street et al. 1993; UCI Breast Cancer Wisconsin, doi:10.24432/C5DW2B")
class BreastCancer:
    """569 breast tumours, 30 features of their cell nuclei, malignant or benign; comes with scikit-learn.

    A fixed fifth of each class is the test set. Features are standardised by the mean and standard deviation of
    the training rows: the file and the split are public and fixed, so these are public constants too.
    """

    def load(self) -> Dataset:
        """Read the table from scikit-learn."""
        from sklearn.datasets import load_breast_cancer  # slow to import, so only when it is needed

        return _split("breast-cancer", load_breast_cancer())


@register_dataset("wine", paper="Aeberhard & Forina 1992; UCI Wine, doi:10.24432/C5PC7J")
class Wine:
    """178 Italian wines, 13 chemical measurements, three cultivars; comes with scikit-learn.

    A fixed fifth of each class is the test set. Features are standardised by the mean and standard deviation of
    the training rows: the file and the split are public and fixed, so these are public constants too.
    """

    def load(self) -> Dataset:
        """Read the table from scikit-learn."""
        from sklearn.datasets import load_wine  # slow to import, so only when it is needed

        return _split("wine", load_wine())


def _split(name: str, table: Any) -> Dataset:
    """The table with its fixed test rows; standardised when a batch is made."""
    x, y = table.data.astype(np.float32), table.target.astype(np.int64)
    test = choose_test_rows(y, 0.2, _SPLIT_SEED)
    return Dataset(
        name=name,
        x=x[~test],
        y=y[~test],
        x_test=x[test],
        y_test=y[test],
        classes=tuple(map(str, table.target_names)),
        features=tuple(str(feature).replace(" ", "_") for feature in table.feature_names),
        shift=x[~test].mean(axis=0, dtype=np.float64).astype(np.float32),
        scale=x[~test].std(axis=0, dtype=np.float64).astype(np.float32),
    )
