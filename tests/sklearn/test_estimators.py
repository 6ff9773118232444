"""The estimators keep scikit-learn's own rules, and are what ``unalike.run`` trains."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import unalike
from unalike.sklearn import FederatedClassifier, FederatedRegressor

SMALL = {"parties": 2, "rounds": 8, "model": "mlp(16)", "random_state": 0}


@parametrize_with_checks([FederatedClassifier(**SMALL), FederatedRegressor(**SMALL)])
def test_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def flowers():
    x, y = load_iris(return_X_y=True)
    return (x - x.mean(0)) / x.std(0), np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def diabetes():
    x, y = load_diabetes(return_X_y=True)
    return x / x.std(0), y


def test_labels_come_back_as_they_were(flowers):
    x, y = flowers
    fitted = FederatedClassifier(rounds=20, parties=4, random_state=1).fit(x, y)
    assert set(fitted.predict(x)) <= set(y)
    assert fitted.score(x, y) > 0.9
    assert fitted.predict_proba(x).shape == (150, 3)
    assert isinstance(fitted.result_, unalike.Result)
    assert fitted.result_.spec.seed == 1
    assert fitted.result_.accuracy is None  # no row was set aside, so there is no score to show


def test_numbers_come_back_in_their_own_units(diabetes):
    x, y = diabetes
    plain, other = (FederatedRegressor(rounds=10, random_state=0).fit(x, each) for each in (y, 1000 * y + 50_000))
    assert plain.score(x, y) > 0.4
    assert plain.predict(x).mean() == pytest.approx(y.mean(), rel=0.1)
    assert other.predict(x) == pytest.approx(1000 * plain.predict(x) + 50_000, rel=1e-3)


def test_it_is_what_run_trains(flowers):
    x, y = flowers
    classes, codes = np.unique(y, return_inverse=True)
    data = unalike.Dataset("X", x.astype(np.float32), codes, None, None, tuple(classes))
    fields = {"parties": 3, "rounds": 3, "lr": 0.05, "algorithm": "fedprox(mu=0.1)"}
    result = unalike.run(data=data, seed=7, held_out=0, validation=0, **fields)
    fitted = FederatedClassifier(random_state=7, **fields).fit(x, y)
    assert fitted.result_.figures["weights_sha256"] == result.figures["weights_sha256"]


def test_parties_that_the_rows_name(flowers):
    x, y = flowers
    party = np.array(["north", "south", "west"])[np.arange(len(y)) % 3]
    fitted = FederatedClassifier(rounds=3, held_out=0.2, random_state=0).fit(x, y, party=party)
    assert fitted.result_.spec.partition.startswith("natural")
    assert fitted.result_.figures["parties"]["count"] == 3
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted.fit(x, y, party=party[:-1])
    with pytest.raises(ValueError, match="parties"):
        FederatedClassifier(parties=5).fit(x, y, party=party)


def test_every_party_may_have_its_own_model(flowers):
    x, y = flowers
    party = np.array(["north", "south"])[np.arange(len(y)) % 2]
    fitted = FederatedClassifier("fedper", rounds=3, random_state=0).fit(x, y, party)
    north, south = (fitted.predict_proba(x, party=name) for name in ("north", "south"))
    assert not np.array_equal(north, south)
    with pytest.raises(ValueError, match="There is no party 'west'"):
        fitted.predict(x, party="west")
    numbered = FederatedClassifier("fedper", rounds=3, random_state=0).fit(x, y, np.where(party == "north", 1, 2))
    assert np.array_equal(numbered.predict_proba(x, party=1), north)
    assert np.array_equal(numbered.predict_proba(x, party=np.int64(2)), south)
    with pytest.raises(ValueError, match="There is no party 0"):
        numbered.predict(x, party=0)


def test_cross_validation_of_a_pipeline():
    x, y = load_breast_cancer(return_X_y=True)
    made = make_pipeline(StandardScaler(), FederatedClassifier(rounds=5, parties=5, random_state=0))
    assert cross_val_score(made, x, y, cv=3).mean() > 0.9


def test_a_grid_search_chooses_and_fits_again(flowers):
    x, y = flowers
    grid = {"algorithm": ["fedavg", "fedprox(mu=0.1)"], "lr": [1e-5, 0.1]}
    found = GridSearchCV(FederatedClassifier(rounds=4, parties=3, random_state=0), grid, cv=2).fit(x, y)
    assert found.best_params_["lr"] == 0.1
    assert found.predict(x[:2]).shape == (2,)


def test_parties_reach_every_fold_by_metadata_routing(flowers):
    x, y = flowers
    party = np.arange(len(y)) % 4
    with config_context(enable_metadata_routing=True):
        one = FederatedClassifier(rounds=2, random_state=0).set_fit_request(party=True)
        scores = cross_val_score(one, x, y, cv=GroupKFold(2), params={"party": party, "groups": party})
        search = GridSearchCV(one, {"lr": [0.1]}, cv=2).fit(x, y, party=party)
    assert len(scores) == 2
    assert search.best_estimator_.result_.spec.partition.startswith("natural")


def test_a_clone_is_new_and_a_copy_is_the_same(flowers):
    x, y = flowers
    fitted = FederatedClassifier("scaffold", **SMALL).fit(x, y)
    assert not hasattr(clone(fitted), "result_")
    assert clone(fitted).get_params() == fitted.get_params()
    copied = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copied.predict_proba(x), fitted.predict_proba(x))


def test_sparse_rows_are_as_good_as_dense_ones(flowers):
    x, y = flowers
    dense, thin = (FederatedClassifier(**SMALL).fit(rows, y) for rows in (x, sparse.csr_matrix(x)))
    assert np.allclose(dense.predict_proba(x), thin.predict_proba(sparse.csr_matrix(x)), atol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"algorithm": "fedpox"}, "fedprox"),
        ({"model": "mpl(3)"}, "mlp"),
        ({"rounds": 0}, "rounds must be from 1"),
        ({"parties": 500}, "500"),
        ({"random_state": -1}, "seed"),
    ],
)
def test_a_wrong_parameter_is_a_value_error_in_one_line(parameters, says, flowers):
    with pytest.raises(ValueError, match=says) as caught:
        FederatedClassifier(**{**SMALL, **parameters}).fit(*flowers)
    assert "\n" not in str(caught.value)


def test_one_class_is_nothing_to_learn(flowers):
    x, y = flowers
    with pytest.raises(ValueError, match="two classes or more"):
        FederatedClassifier(**SMALL).fit(x[:20], y[:20])
