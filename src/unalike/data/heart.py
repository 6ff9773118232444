"""Heart disease in four hospitals, each a natural party with its own gaps in the records."""

from __future__ import annotations

import csv
from importlib import resources
from typing import Literal

import numpy as np

from unalike.data.dataset import Array, Dataset, Units, register_dataset
from unalike.data.split import choose_test_rows

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")

# Mean and standard deviation of the 303 Cleveland patients, rounded. They are constants, not computed
# from all patients, because hospitals that may not pool their records cannot know the pooled mean either.
CONTINUOUS: dict[str, tuple[float, float]] = {
    "age": (54, 9),
    "trestbps": (132, 18),
    "chol": (247, 52),
    "thalach": (150, 23),
    "oldpeak": (1.0, 1.2),
    "ca": (0.7, 0.9),
}
CATEGORIES: dict[str, tuple[int, ...]] = {
    "cp": (1, 2, 3, 4),
    "restecg": (0, 1, 2),
    "slope": (1, 2, 3),
    "thal": (3, 6, 7),
}
FEATURES = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg"),
    *("thalach", "exang", "oldpeak", "slope", "ca", "thal"),
)
ALWAYS_RECORDED = ("age", "sex", "cp")  # by all four hospitals, so an indicator would be constant
# No living patient has a cholesterol or a blood pressure of 0: it stands for "not measured" in all 123 Swiss
# records and 49 of the VA's (cholesterol), and in one of the VA's (blood pressure).
ZERO_IS_MISSING = ("trestbps", "chol")

_SPLIT_SEED = 920  # constant: every run, whatever its seed, is tested on the same patients


@register_dataset("heart", paper="Detrano et al. 1989; UCI Heart Disease, doi:10.24432/C52P4X")
class Heart:
    """920 patients of four hospitals, 13 clinical features, healthy or heart disease; natural parties.

    A patient is diseased where ``num > 0``. A fixed fifth of each hospital's patients, stratified by label,
    is the test set. Continuous features are standardised by fixed constants (``CONTINUOUS``), categories
    become one column each.

    ``missing="indicate"``: a missing value is 0 (after standardising; all columns of a category), and a
    column ``<feature>_missing`` is 1. ``missing="keep"``: it is NaN, which trees can read and nets cannot.
    ``missing="drop"``: patients with any missing value are left out, and so are the indicators. That leaves 297
    patients of Cleveland, one each of the Hungarian hospital and the VA, none of Switzerland; a hospital without
    training patients is then no natural party. The test patients are those of ``indicate`` that are complete.
    """

    missing: Literal["indicate", "drop", "keep"] = "indicate"

    def load(self) -> Dataset:
        """Read the patients from the file that comes with the package."""
        table, hospital, disease = _read()
        test = choose_test_rows(hospital * 2 + disease, 0.2, _SPLIT_SEED)
        x, names, units = _encode(table, self.missing)
        keep = np.ones(len(x), bool)
        if self.missing == "drop":
            keep = ~np.any([np.isnan(column) for column in table.values()], axis=0)
        train, test = keep & ~test, keep & test
        present, group = np.unique(hospital[train], return_inverse=True)
        return Dataset(
            name="heart",
            x=x[train],
            y=disease[train],
            x_test=x[test],
            y_test=disease[test],
            classes=("healthy", "disease"),
            features=names,
            group=group,
            group_names=tuple(HOSPITALS[k] for k in present),
            group_test=np.array([list(present).index(k) if k in present else -1 for k in hospital[test]]),
            units=units,
            gaps=self.missing == "keep",
        )

    def tables(self) -> dict[str, list[dict[str, str]]]:
        """Every hospital's own table as it might lie there: uncoded, with gaps, and the outcome in words."""
        made: dict[str, list[dict[str, str]]] = {name: [] for name in HOSPITALS}
        for patient in _patients():
            row = {
                name: "" if name in ZERO_IS_MISSING and float(patient[name] or 0) == 0 else patient[name]
                for name in FEATURES
            }
            made[patient["hospital"]].append(row | {"outcome": "disease" if int(patient["num"]) else "healthy"})
        return made


def _patients() -> list[dict[str, str]]:
    source = resources.files("unalike.data") / "vendored" / "heart.csv"
    return list(csv.DictReader(source.read_text(encoding="utf-8").splitlines()))


def _read() -> tuple[dict[str, Array], Array, Array]:
    """The columns by feature (NaN where missing), each patient's hospital and whether there is disease."""
    patients = _patients()
    table = {name: np.array([float(patient[name] or "nan") for patient in patients]) for name in FEATURES}
    for name in ZERO_IS_MISSING:
        table[name][table[name] == 0] = np.nan
    hospital = np.array([HOSPITALS.index(patient["hospital"]) for patient in patients])
    disease = np.array([int(int(patient["num"]) > 0) for patient in patients])
    return table, hospital, disease


def _encode(table: dict[str, Array], missing: str) -> tuple[Array, tuple[str, ...], Units]:
    """The float32 matrix that models are trained on, the names of its columns, and their units."""
    columns: dict[str, Array] = {}
    for name, values in table.items():
        gone = np.isnan(values)
        if name in CATEGORIES:
            made = {f"{name}_{value}": values == value for value in CATEGORIES[name]}
        else:
            mean, deviation = CONTINUOUS.get(name, (0, 1))
            made = {name: np.where(gone, 0.0, (values - mean) / deviation)}
        columns |= {key: np.where(gone, np.nan, one) for key, one in made.items()} if missing == "keep" else made
    if missing == "indicate":
        gaps = [name for name in FEATURES if name not in ALWAYS_RECORDED]
        columns |= {f"{name}_missing": np.isnan(table[name]) for name in gaps}
    shift, scale = zip(*(CONTINUOUS.get(name, (0.0, 1.0)) for name in columns), strict=True)
    return (
        np.stack(list(columns.values()), axis=1).astype(np.float32),
        tuple(columns),
        Units(np.array(shift), np.array(scale)),
    )
