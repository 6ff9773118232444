"""Files for xgboost: it loads them, and predicts what we predict, missing values included."""

import json

import numpy as np
import pytest

from tests.trees.grown_model import CLASSES, grown_arrays
from tests.trees.xgboost_arrays import NAMES, example
from unalike.data.dataset import Units
from unalike.trees.columns import Columns
from unalike.trees.ensemble import Ensemble
from unalike.trees.xgboost_file import usable_names, xgboost_bytes

xgboost = pytest.importorskip("xgboost")
TARGET = (100.0, 20.0)


def ours(objective, **settings):
    x, y = example(objective)
    y = y.astype(np.int64) if objective in CLASSES else y
    arrays, settings, _ = grown_arrays(objective, x, y, target=TARGET, **settings)
    return x, Ensemble.of(arrays, settings, CLASSES.get(objective, 0), TARGET)


def loaded(ensemble, tmp_path, columns=None):
    path = tmp_path / "model.json"
    path.write_bytes(xgboost_bytes(ensemble, columns or Columns.of((), ensemble.features)))
    return xgboost.Booster(model_file=str(path))


def predicted(ensemble, x):
    if not ensemble.classes:
        return ensemble.predict(x)
    probabilities = ensemble.predict_proba(x)
    return probabilities[:, 1] if ensemble.outputs == 1 else probabilities


@pytest.mark.parametrize("objective", NAMES)
def test_xgboost_predicts_the_same(objective, tmp_path):
    x, ensemble = ours(objective)
    booster = loaded(ensemble, tmp_path)
    assert np.isnan(x).any()
    assert ensemble.predict(x).std() > 0
    assert booster.num_boosted_rounds() == 3
    assert booster.num_features() == x.shape[1]
    rows = xgboost.DMatrix(x, feature_names=booster.feature_names)
    np.testing.assert_allclose(booster.predict(rows), predicted(ensemble, x), rtol=1e-6, atol=1e-6)


def test_two_classes_by_softmax_are_two_outputs_there_too(tmp_path):
    x, y = example("binary")
    arrays, settings, _ = grown_arrays("softmax", x, y.astype(np.int64) * 2)
    ensemble = Ensemble.of(arrays, settings, 3)
    booster = loaded(ensemble, tmp_path)
    found = booster.predict(xgboost.DMatrix(x, feature_names=booster.feature_names))
    np.testing.assert_allclose(found, ensemble.predict_proba(x), atol=1e-6)


def test_it_reads_the_tables_own_units(tmp_path):
    x, ensemble = ours("binary")
    units = Units(np.array([54.0, 0, 130, 245, 1]), np.array([9.0, 1, 18, 50, 0.1]))
    names = ("age", "sex_male", "pressure", "cholesterol", "peak")
    booster = loaded(ensemble, tmp_path, Columns.of(names, 5, units, gaps=True))
    assert booster.feature_names == list(names)
    table = x.astype(np.float64) * units.scale + units.shift
    found = booster.predict(xgboost.DMatrix(table, feature_names=booster.feature_names))
    np.testing.assert_allclose(found, predicted(ensemble, x), atol=1e-6)


def test_what_was_coded_as_zero_where_it_was_missing_may_be_missing_there(tmp_path):
    x, ensemble = ours("binary")
    units = Units(np.full(5, 50.0), np.full(5, 10.0))
    booster = loaded(ensemble, tmp_path, Columns.of((), 5, units, gaps=False))
    table = x.astype(np.float64) * 10 + 50
    found = booster.predict(xgboost.DMatrix(table, feature_names=booster.feature_names))
    np.testing.assert_allclose(found, predicted(ensemble, np.nan_to_num(x)), atol=1e-6)


def test_importances_are_the_same_there(tmp_path):
    from unalike.trees.importance import importance_of

    _, ensemble = ours("softmax")
    booster, own = loaded(ensemble, tmp_path), importance_of(ensemble, ("x0", "x1", "x2", "x3", "x4"))
    for kind, name in (("total_gain", "gain"), ("total_cover", "cover"), ("weight", "splits")):
        theirs = booster.get_score(importance_type=kind)
        assert theirs == pytest.approx({row["column"]: row[name] for row in own}, rel=1e-5)


def test_a_tree_that_is_one_leaf_and_training_that_never_began(tmp_path):
    x, ensemble = ours("squared-error", gain=1e9)
    assert (ensemble.nodes["left"] < 0).all()
    rows = xgboost.DMatrix(x, feature_names=["x0", "x1", "x2", "x3", "x4"])
    np.testing.assert_allclose(loaded(ensemble, tmp_path).predict(rows), ensemble.predict(x), rtol=1e-6)


@pytest.mark.parametrize("objective", NAMES)
def test_a_model_without_trees_predicts_its_start(objective, tmp_path):
    """Training that ends by patience keeps no tree where none lowered the loss."""
    x, y = example(objective)
    y = y.astype(np.int64) if objective in CLASSES else y
    arrays, settings, _ = grown_arrays(objective, x, y, target=TARGET)
    for name, empty in (("left", -1), ("right", -1), ("feature", -1), ("value", 0), ("cover", 0)):
        arrays[name][:] = empty
    ensemble = Ensemble.of(arrays, settings, CLASSES.get(objective, 0), TARGET)
    assert not ensemble.trees
    booster = loaded(ensemble, tmp_path)
    rows = xgboost.DMatrix(x, feature_names=booster.feature_names)
    np.testing.assert_allclose(booster.predict(rows), predicted(ensemble, x), rtol=1e-6)


def test_names_that_xgboost_does_not_take_are_changed_and_stay_apart():
    names = ("income_<=50K", "income__=50K", "a[1]", "", "plain", "größe")
    made = usable_names(names)
    assert len(set(made)) == len(names)
    assert made[4:] == ("plain", "größe")
    xgboost.DMatrix(np.zeros((1, len(names))), feature_names=list(made))


def test_the_file_is_plain_json_without_nan():
    _, ensemble = ours("binary")
    made = json.loads(xgboost_bytes(ensemble, Columns.of((), 5)), parse_constant=pytest.fail)
    assert made["learner"]["objective"]["name"] == "binary:logistic"
