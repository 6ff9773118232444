"""The four hospitals: counts from the data set's own description, gaps made visible, a fixed test set."""

from __future__ import annotations

import csv
import hashlib
from importlib import resources

import numpy as np
import pytest

from unalike.data import Dataset, load_dataset
from unalike.data.heart import CONTINUOUS, HOSPITALS
from unalike.errors import UserError

# heart-disease.names, 10. Class Distribution: patients and those with num = 0, for each hospital
PATIENTS = {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}
HEALTHY = {"cleveland": 164, "hungarian": 188, "switzerland": 8, "va": 51}
# Counted by hand in the four raw files: "?" plus, for chol and trestbps, zeros.
GAPS = {
    "trestbps": (0, 1, 2, 56 + 1),
    "chol": (0, 23, 123, 7 + 49),
    "fbs": (0, 8, 75, 7),
    "restecg": (0, 1, 1, 0),
    "thalach": (0, 1, 1, 53),
    "exang": (0, 1, 1, 53),
    "oldpeak": (0, 0, 6, 56),
    "slope": (0, 190, 17, 102),
    "ca": (4, 291, 118, 198),
    "thal": (2, 266, 52, 166),
}


@pytest.fixture(scope="module")
def heart() -> Dataset:
    return load_dataset("heart")


@pytest.fixture(scope="module")
def patients() -> list[dict[str, str]]:
    text = (resources.files("unalike.data") / "vendored" / "heart.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def everyone(heart: Dataset) -> np.ndarray:
    return np.concatenate([heart.x, heart.x_test])


def column(heart: Dataset, name: str) -> np.ndarray:
    return everyone(heart)[:, heart.features.index(name)]


def test_file_holds_the_published_counts(patients: list[dict[str, str]]) -> None:
    for hospital in HOSPITALS:
        nums = [int(patient["num"]) for patient in patients if patient["hospital"] == hospital]
        assert len(nums) == PATIENTS[hospital]
        assert nums.count(0) == HEALTHY[hospital]
    assert len(patients) == 920


def test_licence_stands_beside_the_file() -> None:
    text = (resources.files("unalike.data") / "vendored" / "heart.LICENSE.txt").read_text(encoding="utf-8")
    for words in ("CC BY 4.0", "10.24432/C52P4X", "Janosi", "Steinbrunn", "Pfisterer", "Detrano"):
        assert words in text


def test_shape_groups_and_labels(heart: Dataset) -> None:
    assert heart.x.dtype == heart.x_test.dtype == np.float32
    assert heart.x.shape == (735, 32)
    assert len(heart.features) == len(set(heart.features)) == 32
    assert heart.classes == ("healthy", "disease")
    assert heart.group_names == HOSPITALS
    labels = np.concatenate([heart.y, heart.y_test])
    assert np.bincount(labels).tolist() == [411, 509]


def test_a_fifth_of_each_hospital_stratified_is_the_test_set(heart: Dataset) -> None:
    assert heart.group is not None
    wanted_test = np.zeros(2, int)
    for k, hospital in enumerate(HOSPITALS):
        sick = PATIENTS[hospital] - HEALTHY[hospital]
        tested = (round(HEALTHY[hospital] / 5), round(sick / 5))
        trained = np.bincount(heart.y[heart.group == k], minlength=2)
        assert trained.tolist() == [HEALTHY[hospital] - tested[0], sick - tested[1]]
        wanted_test += tested
    assert np.bincount(heart.y_test).tolist() == wanted_test.tolist()


def test_the_test_set_is_fixed(heart: Dataset) -> None:
    np.random.seed(7)  # noqa: NPY002 - global state must not matter
    np.testing.assert_array_equal(load_dataset("heart").x_test, heart.x_test)
    # Recorded once: published figures are comparable only as long as this stays.
    ages = np.rint(column(heart, "age")[len(heart.x) :] * 9 + 54).astype(np.uint8)
    assert (
        hashlib.sha256(ages.tobytes()).hexdigest()
        == "18cdd99e96fe6e9cd0efdc18fd72af72d2056a249d734e452ee8d5a0032a10db"
    )


def test_gaps_are_counted_and_zero(heart: Dataset) -> None:
    for name, gaps in GAPS.items():
        missing = column(heart, f"{name}_missing") == 1
        assert missing.sum() == sum(gaps), name
        columns = [c for c in heart.features if c == name or (c.startswith(f"{name}_") and "missing" not in c)]
        for each in columns:
            assert (column(heart, each)[missing] == 0).all(), each
        if len(columns) > 1:  # a category: exactly one column where it is known
            filled = sum(column(heart, each) for each in columns)
            np.testing.assert_array_equal(filled == 1, ~missing)
    assert not {"age_missing", "sex_missing", "cp_missing"} & set(heart.features)
    assert (sum(column(heart, f"cp_{value}") for value in (1, 2, 3, 4)) == 1).all()


def test_switzerland_has_no_cholesterol(heart: Dataset) -> None:
    assert heart.group is not None
    swiss = heart.x[heart.group == 2]
    assert (swiss[:, heart.features.index("chol_missing")] == 1).all()
    assert (swiss[:, heart.features.index("chol")] == 0).all()


def test_values_are_standardised_by_the_constants(heart: Dataset, patients: list[dict[str, str]]) -> None:
    for name, (mean, deviation) in CONTINUOUS.items():
        zero_is_gap = name in ("chol", "trestbps")
        known = [float(p[name]) for p in patients if p[name] and not (zero_is_gap and p[name] == "0")]
        gap = column(heart, f"{name}_missing") == 1 if name != "age" else np.zeros(920, bool)
        found = column(heart, name)[~gap] * deviation + mean
        np.testing.assert_allclose(np.sort(found), np.sort(known), rtol=0, atol=1e-4)


def test_constants_are_clevelands_rounded(patients: list[dict[str, str]]) -> None:
    for name, constants in CONTINUOUS.items():
        known = [float(p[name]) for p in patients if p["hospital"] == "cleveland" and p[name]]
        digits = 1 if name in ("oldpeak", "ca") else 0
        assert constants == (round(np.mean(known), digits), round(np.std(known), digits)), name


def test_first_patient_by_hand(heart: Dataset) -> None:
    # 63, male, typical angina, 145, 233, sugar, hypertrophy, 150, no angina, 2.3, downsloping, 0, fixed defect
    by_hand = {"age": 1.0, "sex": 1.0, "cp_1": 1.0, "trestbps": 13 / 18, "chol": -14 / 52, "fbs": 1.0}
    by_hand |= {"restecg_2": 1.0, "thalach": 0.0, "oldpeak": 1.3 / 1.2, "slope_3": 1.0, "ca": -0.7 / 0.9}
    by_hand |= {"thal_6": 1.0}
    row = np.array([by_hand.get(name, 0.0) for name in heart.features])
    assert (np.abs(everyone(heart) - row).max(axis=1) < 1e-6).sum() == 1


def test_drop_keeps_complete_patients_only(heart: Dataset) -> None:
    complete = load_dataset("heart(missing=drop)")
    assert complete.features == heart.features[:22]
    assert len(complete.x) + len(complete.x_test) == 297 + 1 + 0 + 1
    assert complete.group is not None
    assert complete.group_names == ("cleveland", "hungarian", "va")  # no Swiss patient is complete
    assert np.bincount(complete.group).min() >= 1
    for part, whole in ((complete.x, heart.x), (complete.x_test, heart.x_test)):
        known = whole[(whole[:, 22:] == 0).all(axis=1), :22]
        np.testing.assert_array_equal(part, known)


def test_missing_has_three_choices() -> None:
    with pytest.raises(UserError, match="heart's missing must be one of indicate, drop, keep, got 'guess'"):
        load_dataset("heart(missing=guess)")


def test_kept_gaps_are_nan_and_all_else_is_as_ever(heart: Dataset) -> None:
    kept = load_dataset("heart(missing=keep)")
    assert kept.features == heart.features[:22]
    for part, whole in ((kept.x, heart.x), (kept.x_test, heart.x_test)):
        gone = np.isnan(part)
        assert gone[:, kept.features.index("chol")].tolist() == (
            whole[:, heart.features.index("chol_missing")].astype(bool).tolist()
        )
        assert not gone[:, [kept.features.index(name) for name in ("age", "sex", "cp_1", "cp_4")]].any()
        np.testing.assert_array_equal(np.where(gone, 0, part), whole[:, :22])
        thal = [place for place, name in enumerate(kept.features) if name.startswith("thal_")]
        assert (gone[:, thal].sum(axis=1) % len(thal) == 0).all()  # all columns of a category, or none
