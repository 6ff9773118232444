"""Small clinical and chemical tables that come with scikit-learn: nothing to download."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unalike.data.dataset import Array, Dataset, register_dataset
from unalike.data.sklearn_files import read_numbers, read_table
from unalike.data.split import choose_test_rows
from unalike.data.targets import strata
from unalike.tallies import Kind

_SPLIT_SEED = 569  # constant: every run, whatever its seed, is tested on the same rows

# The files have no names of the features.
_NUCLEUS = (
    *("radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave_points"),
    *("symmetry", "fractal_dimension"),
)
_TUMOUR = (
    *(f"mean_{each}" for each in _NUCLEUS),
    *(f"{each}_error" for each in _NUCLEUS),
    *(f"worst_{each}" for each in _NUCLEUS),
)
_WINE = (
    *("alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols", "flavanoids"),
    *("nonflavanoid_phenols", "proanthocyanins", "color_intensity", "hue", "od280/od315_of_diluted_wines"),
    "proline",
)
_PATIENT = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")


@register_dataset("breast-cancer", paper="Street et al. 1993; UCI Breast Cancer Wisconsin, doi:10.24432/C5DW2B")
class BreastCancer:
    """569 breast tumours, 30 features of their cell nuclei, malignant or benign; comes with scikit-learn.

    A fixed fifth of each class is the test set. Features are standardised by the mean and standard deviation of
    the training rows: the file and the split are public and fixed, so these are public constants too.
    """

    def load(self) -> Dataset:
        """Read the table from scikit-learn's file."""
        return _classes("breast-cancer", "breast_cancer.csv", _TUMOUR)


@register_dataset("wine", paper="Aeberhard & Forina 1992; UCI Wine, doi:10.24432/C5PC7J")
class Wine:
    """178 Italian wines, 13 chemical measurements, three cultivars; comes with scikit-learn.

    A fixed fifth of each class is the test set. Features are standardised by the mean and standard deviation of
    the training rows: the file and the split are public and fixed, so these are public constants too.
    """

    def load(self) -> Dataset:
        """Read the table from scikit-learn's file."""
        return _classes("wine", "wine_data.csv", _WINE)


@register_dataset("diabetes", paper="Efron et al. 2004, Least angle regression, doi:10.1214/009053604000000067")
class Diabetes:
    """442 patients with diabetes, ten features: how far the disease is a year on, a number; of scikit-learn.

    The target goes from 25 to 346. A fixed fifth of each tenth of its range is the test set. Features and target
    are standardised by the mean and standard deviation of the training rows, which are public constants here;
    scores are in the target's own units.
    """

    model: ClassVar[str] = "linear"

    def load(self) -> Dataset:
        """Read the table from scikit-learn's files."""
        x, y = read_numbers("diabetes_data_raw.csv.gz"), read_numbers("diabetes_target.csv.gz")
        return _split("diabetes", x, y, _PATIENT, "regression")


def _classes(name: str, file: str, features: tuple[str, ...]) -> Dataset:
    data, y, classes = read_table(file)
    return _split(name, data, y, features, "classification", classes)


def _split(
    name: str, data: Array, y: Array, features: tuple[str, ...], task: Kind, classes: tuple[str, ...] = ()
) -> Dataset:
    """The table with its fixed test rows; standardised when a batch is made."""
    x = data.astype(np.float32)
    test = choose_test_rows(y if task == "classification" else strata(y), 0.2, _SPLIT_SEED)
    return Dataset(
        name=name,
        x=x[~test],
        y=y[~test],
        x_test=x[test],
        y_test=y[test],
        classes=classes,
        features=features,
        shift=x[~test].mean(axis=0, dtype=np.float64).astype(np.float32),
        scale=x[~test].std(axis=0, dtype=np.float64).astype(np.float32),
        task=task,
    )
