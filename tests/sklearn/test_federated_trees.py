"""Trees as estimators of scikit-learn: its own rules, missing values, and what they go by."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.inspection import permutation_importance
from sklearn.utils.estimator_checks import parametrize_with_checks

from unalike.sklearn import FederatedClassifier, FederatedRegressor

TREES = {
    "algorithm": "histogram",
    "model": "trees(depth=3, least_rows=1, bins=32)",
    "parties": 2,
    "rounds": 8,
    "random_state": 0,
}


@parametrize_with_checks([FederatedClassifier(**TREES), FederatedRegressor(**TREES)])
def test_the_rules_of_scikit_learn_hold_for_trees(estimator, check):
    check(estimator)


def test_trees_learn_from_rows_with_gaps_and_say_what_they_go_by():
    x, y = load_breast_cancer(return_X_y=True)
    x = x.copy()
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    fitted = FederatedClassifier(**TREES).fit(x[::2], y[::2])
    assert fitted.score(x[1::2], y[1::2]) > 0.9
    shares = fitted.feature_importances_
    assert shares.shape == (30,)
    assert shares.sum() == pytest.approx(1)
    found = permutation_importance(fitted, x[1::2], y[1::2], n_repeats=2, random_state=0).importances_mean
    assert shares[found.argmax()] > np.median(shares)


def test_the_same_trees_whoever_holds_which_row():
    x, y = load_diabetes(return_X_y=True)
    even = FederatedRegressor(**TREES).fit(x, y)
    skewed = FederatedRegressor(**TREES).fit(x, y, party=np.digitize(y, [80, 150]))
    assert even.score(x, y) > 0.5
    assert (even.predict(x) == skewed.predict(x)).all()


def test_importance_has_the_names_of_a_data_frame():
    pytest.importorskip("pandas")
    frame = load_diabetes(as_frame=True)
    fitted = FederatedRegressor(**TREES).fit(frame.data, frame.target)
    assert {row["column"] for row in fitted.result_.importance()} <= set(frame.data.columns)


def test_nets_have_no_importance_and_no_gaps():
    x, y = load_breast_cancer(return_X_y=True)
    net = FederatedClassifier(rounds=1, parties=2, model="logistic", random_state=0)
    assert not hasattr(net, "feature_importances_")
    x[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        net.fit(x, y)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [({"batch_size": 64}, "batch.size"), ({"lr": 0.7}, "eta"), ({"algorithm": "fedavg"}, "histogram")],
)
def test_what_means_nothing_to_trees_is_refused(wrong, reason):
    x, y = load_diabetes(return_X_y=True)
    with pytest.raises(ValueError, match=reason):
        FederatedRegressor(**{**TREES, **wrong}).fit(x, y)
