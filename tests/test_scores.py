"""Scores agree with scikit-learn's, and are the same whether parties pool their rows or their tallies."""

import numpy as np
import pytest
from sklearn import metrics
from sklearn.calibration import calibration_curve

from unalike import scores, tallies
from unalike.errors import UserError
from unalike.scores import SCORES, auroc_error, choose, figures_of, scores_of
from unalike.tallies import PARTS, exact_auroc, pooled, tally_of

CLASSIFICATION = [name for name, part in PARTS.items() if part.task == "classification"]
REGRESSION = [name for name, part in PARTS.items() if part.task == "regression"]


def predictions(seed, rows=400, classes=4, digits=None, skill=1.0, missing=None):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=rows)
    if missing is not None:
        labels[labels == missing] = (missing + 1) % classes
    logits = rng.normal(size=(rows, classes)) * 1.5
    logits[np.arange(rows), labels] += skill
    if digits is not None:
        logits = np.round(logits, digits)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return probabilities, labels


def all_scores(probabilities, labels):
    return figures_of(scores_of("classification"), tally_of(CLASSIFICATION, probabilities, labels))


def ranked(probabilities, labels):
    """AUROC as scikit-learn has it, of the classes that are there."""
    if probabilities.shape[1] == 2:
        return metrics.roc_auc_score(labels, probabilities[:, 1])
    each = [metrics.roc_auc_score(labels == k, probabilities[:, k]) for k in np.unique(labels)]
    return np.mean(each)


CASES = {
    "random": {"seed": 0, "skill": 0.0},
    "skilled": {"seed": 1},
    "two classes": {"seed": 2, "classes": 2},
    "ties": {"seed": 3, "digits": 0},
    "two classes, ties": {"seed": 4, "classes": 2, "digits": 0},
    "a missing class": {"seed": 5, "missing": 2},
    "few rows": {"seed": 6, "rows": 9},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_scores_of_classification_are_those_of_scikit_learn(case):
    probabilities, labels = predictions(**CASES[case])
    found, guessed = all_scores(probabilities, labels), probabilities.argmax(axis=1)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(labels, guessed))
    assert found["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(labels, guessed))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(labels, guessed, average="macro"))
    assert exact_auroc(probabilities, labels) == pytest.approx(ranked(probabilities, labels))
    if probabilities.shape[1] == 2:
        brier = metrics.brier_score_loss(labels, probabilities[:, 1])
    else:  # Brier 1950, equation 2
        brier = np.mean(np.sum((probabilities - np.eye(probabilities.shape[1])[labels]) ** 2, axis=1))
    assert found["brier"] == pytest.approx(brier)


def test_auroc_of_several_classes_is_scikit_learns_own_average():
    probabilities, labels = predictions(7)
    expected = metrics.roc_auc_score(labels, probabilities, multi_class="ovr", average="macro")
    assert exact_auroc(probabilities, labels) == pytest.approx(expected)


@pytest.mark.parametrize("case", CASES)
def test_calibration_error_is_that_of_scikit_learns_curve(case):
    probabilities, labels = predictions(**CASES[case])
    right, confidence = probabilities.argmax(axis=1) == labels, probabilities.max(axis=1)
    bins = tallies.CALIBRATION_BINS
    share, mean = calibration_curve(right, confidence, n_bins=bins)
    rows = np.bincount(np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], confidence), minlength=bins)
    expected = np.abs(share - mean) @ rows[rows > 0] / len(labels)
    assert all_scores(probabilities, labels)["calibration_error"] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_scores_of_regression_are_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    targets = rng.normal(150, 40, size=60)
    guesses = targets + rng.normal(0, 20, size=60)
    found = figures_of(scores_of("regression"), tally_of(REGRESSION, guesses - targets, targets))
    assert found["rmse"] == pytest.approx(metrics.root_mean_squared_error(targets, guesses))
    assert found["mae"] == pytest.approx(metrics.mean_absolute_error(targets, guesses))
    assert found["r2"] == pytest.approx(metrics.r2_score(targets, guesses))


@pytest.mark.parametrize("case", CASES)
def test_auroc_by_histograms_is_within_its_bound(case):
    probabilities, labels = predictions(**CASES[case])
    tally = tally_of(["odds"], probabilities, labels)
    by_histograms = SCORES["auroc"].compute(tally)
    gap = abs(by_histograms - exact_auroc(probabilities, labels))
    assert gap <= auroc_error(tally) + 1e-12
    assert gap < (0.01 if len(labels) > 100 else 0.05)


def test_the_bound_is_reached_where_a_bin_holds_all_pairs_the_right_way_round():
    probabilities = np.array([[0.5, 0.5], [0.499, 0.501]])
    labels = np.array([0, 1])
    tally = tally_of(["odds"], probabilities, labels)
    assert exact_auroc(probabilities, labels) == 1
    assert SCORES["auroc"].compute(tally) == 0.5
    assert auroc_error(tally) == 0.5


@pytest.mark.parametrize("case", CASES)
def test_pooled_tallies_are_the_tally_of_all_rows(case):
    probabilities, labels = predictions(**CASES[case])
    parts = np.array_split(np.random.default_rng(0).permutation(len(labels)), 4)
    together = pooled(tally_of(CLASSIFICATION, probabilities[part], labels[part]) for part in parts)
    whole = tally_of(CLASSIFICATION, probabilities, labels)
    assert together.keys() == whole.keys()
    for name in whole:
        np.testing.assert_allclose(together[name], whole[name], rtol=1e-12)


def test_sure_predictions_are_counted():
    probabilities, labels = np.array([[1.0, 0.0], [0.0, 1.0], [np.nan, np.nan]]), np.array([0, 1, 1])
    tally = tally_of(["odds"], probabilities, labels)
    assert tally["odds"].sum() == 3
    assert tally["odds"][0, 0, 0] == tally["odds"][1, 0, -1] == 1


def test_what_is_not_defined_is_none():
    one_class = all_scores(*predictions(0, classes=2, missing=1))
    assert one_class["auroc"] is None
    assert one_class["accuracy"] is not None
    constant = figures_of(scores_of("regression"), tally_of(REGRESSION, np.ones(3), np.full(3, 2.0)))
    assert constant["r2"] is None
    assert constant["rmse"] == 1
    for value in (0.1, 0.3, 1000.1):  # rounding must not pass for a spread
        for count in (1, 3, 7, 10, 1000):
            same = tally_of(REGRESSION, np.ones(count), np.full(count, value))
            assert figures_of(scores_of("regression"), same)["r2"] is None
    assert set(figures_of(scores_of("regression"), pooled([])).values()) == {None}


def test_a_task_has_a_score_where_nobody_chooses():
    assert choose(None, "classification").name == "accuracy"
    assert choose(None, "regression").name == "rmse"
    assert choose("macro-f1", "classification").key == "macro_f1"


def test_a_score_of_another_task_is_refused_in_one_line():
    with pytest.raises(UserError, match=r"rmse is a score of regression, but the task is classification\."):
        choose("rmse", "classification")
    with pytest.raises(UserError, match=r"Unknown score 'acuracy'\. Did you mean 'accuracy'\?"):
        choose("acuracy", "classification")


def test_better_follows_the_direction_of_the_score():
    assert scores.better("accuracy", 0.9, 0.8)
    assert scores.better("rmse", 0.8, 0.9)
    assert not scores.better("rmse", 0.8, 0.8)
    assert scores.better("rmse", 100.0, None)
    assert not scores.better("accuracy", None, 0.1)
    assert sorted([3.0, None, 1.0], key=lambda v: scores.goodness("mae", v), reverse=True) == [1.0, 3.0, None]


def test_records_of_before_there_were_scores_mean_accuracy():
    assert scores.score_of({"accuracy": 0.5}) == "accuracy"
    assert scores.value_of({"accuracy": 0.5}) == 0.5
    record = {"score": "balanced-accuracy", "accuracy": 0.5, "balanced_accuracy": 0.4}
    assert scores.value_of(record) == 0.4
    assert scores.value_of({"score": "auroc", "auroc": None}) is None


def test_values_are_shown_in_the_score_s_unit():
    assert scores.shown("accuracy", 0.9731) == "97.3%"
    assert scores.shown("auroc", 0.41211) == "0.412"
    assert scores.shown("rmse", 54321.4) == "54321"
    assert scores.shown("rmse", 0.00041234) == "0.000412"  # not 0.000
    assert scores.shown("rmse", 5.4321e20) == "5.432e+20"
    assert scores.shown("rmse", None) == "–"


WRONG = {
    "no rows": lambda tally: tally.pop("rows"),
    "another shape": lambda tally: tally.update(confusion=np.ones((2, 2))),
    "below zero": lambda tally: tally.update(distances=np.array(-1.0)),
    "not a number": lambda tally: tally.update(loss=np.array(np.nan)),
    "a confusion of other rows": lambda tally: tally.update(confusion=tally["confusion"] * 2),
    "odds of other rows": lambda tally: tally.update(odds=tally["odds"] + 1),
    "more right than rows": lambda tally: tally.update(right=tally["rows"] + 1),
    "surer than sure": lambda tally: tally.update(calibration=tally["calibration"][[0, 0, 0]] * [[1], [1], [2]]),
    "too far from what happened": lambda tally: tally.update(distances=3 * tally["rows"]),
}


@pytest.mark.parametrize("how", WRONG)
def test_what_no_rows_can_have_is_refused(how):
    tally = tally_of(CLASSIFICATION, *predictions(1)) | {"loss": np.array(3.0)}
    tallies.check_tally(tally, 4)
    WRONG[how](tally)
    refused(tally, 4)


@pytest.mark.parametrize("change", [{"absolutes": 1e6}, {"targets": [1e6, 1.0]}, {"squares": -1.0}])
def test_sums_of_errors_that_disagree_are_refused(change):
    rng = np.random.default_rng(0)
    tally = tally_of(REGRESSION, rng.normal(size=50), rng.normal(size=50))
    tallies.check_tally(tally, 0)
    refused(tally | {name: np.asarray(value) for name, value in change.items()}, 0)


def test_a_loss_may_be_below_zero():
    """As that of a density is, which a loss of the user's own may be."""
    tallies.check_tally(tally_of(REGRESSION, np.ones(3), np.ones(3)) | {"loss": np.array(-4.0)}, 0)


def refused(tally, classes):
    try:
        tallies.check_tally(tally, classes)
    except ValueError:
        return
    raise AssertionError("it was believed")
