import csv
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

import unalike
from unalike.data.heart import HOSPITALS
from unalike.data.split import choose_test_rows
from unalike.demo import hospitals, uneven_digits
from unalike.demo.content import Length, demonstrate
from unalike.demo.hospitals import ALL, ALONE, NEIGHBOUR, POOLED, TOGETHER
from unalike.demo.picture import demo_picture
from unalike.demo.reading import read_digits, read_hospitals
from unalike.report.figures import save

PLAN = Length((0, 1), 3)


@pytest.fixture(scope="module")
def ticks():
    return []


@pytest.fixture(scope="module")
def found(ticks):
    return demonstrate(PLAN, lambda what, work: ticks.append(work))


@pytest.fixture(scope="module")
def heart():
    return unalike.load_dataset("heart")


def test_progress_adds_up_to_the_work_that_was_announced(found, ticks):
    assert sum(ticks) == PLAN.work


def test_hospital_of_each_test_patient(heart):
    source = resources.files("unalike.data") / "vendored" / "heart.csv"
    patients = list(csv.DictReader(source.read_text().splitlines()))
    hospital = np.array([HOSPITALS.index(patient["hospital"]) for patient in patients])
    disease = np.array([int(patient["num"]) > 0 for patient in patients])
    test = choose_test_rows(hospital * 2 + disease, 0.2, 920)
    assert (disease[test] == heart.y_test).all(), "this test knows another split than the data set"
    assert (heart.group_test == hospital[test]).all()


def test_counts_are_those_of_the_training_rows(found, heart):
    assert found.hospitals.counts.sum() == len(heart.y)
    assert found.hospitals.counts.sum(axis=0).tolist() == np.bincount(heart.y).tolist()
    digits = unalike.load_dataset("digits")
    assert found.digits.counts.sum(axis=0).tolist() == np.bincount(digits.y).tolist()


def test_missing_values(found):
    source = resources.files("unalike.data") / "vendored" / "heart.csv"
    assert found.hospitals.missing[0] < 0.01 < found.hospitals.missing[1:].min()
    gaps = [
        list(p.values())[1:-1] for p in csv.DictReader(source.read_text().splitlines()) if p["hospital"] == "va"
    ]
    share = np.mean([[value == "" for value in patient] for patient in gaps])
    assert found.hospitals.missing[3] == pytest.approx(share, abs=0.04)  # all VA patients; 0 counts as missing


@pytest.mark.parametrize("method", [*TOGETHER, POOLED])
def test_accuracies_of_shared_models_are_those_of_independent_runs(found, method):
    for number, spec in enumerate(hospitals.specs(method, PLAN.seeds, PLAN.rounds)):
        result = unalike.run(spec)
        assert found.hospitals.score(method, ALL).each[number] == pytest.approx(result.accuracy, abs=1e-12)
        drawn = found.hospitals.methods[method].curves[number]
        assert [row["accuracy"] for row in drawn] == [row["accuracy"] for row in result.rows]


def test_accuracies_alone_are_those_of_independent_runs_on_that_hospitals_rows(found, heart):
    (spec, _) = hospitals.specs(ALONE, PLAN.seeds, PLAN.rounds)
    test_hospital = heart.group_test
    right = np.zeros(4)
    for number, name in enumerate(heart.group_names):
        data = hospitals.only(heart, number)
        assert len(data.x) == (heart.group == number).sum()
        mine = test_hospital == number
        own = replace(data, x_test=heart.x_test[mine], y_test=heart.y_test[mine], group_test=None)
        others = replace(data, x_test=heart.x_test[~mine], y_test=heart.y_test[~mine], group_test=None)
        assert unalike.run(spec, data=own).accuracy == pytest.approx(found.hospitals.score(ALONE, name).each[0])
        assert unalike.run(spec, data=data).accuracy == found.hospitals.alone_everywhere[name].each[0]
        right[number] = unalike.run(spec, data=others).accuracy * (~mine).sum()
    # Each of the other three models judges each patient.
    assert found.hospitals.score(NEIGHBOUR, ALL).each[0] == pytest.approx(right.sum() / (3 * len(test_hospital)))


def test_budgets_are_equal():
    together, alone, pooled = (hospitals.specs(name, (0,), 30)[0] for name in ("FedAvg", ALONE, POOLED))
    for name in ("steps", "lr", "rounds", "model", "optimiser", "validation"):
        assert getattr(together, name) == getattr(alone, name) == getattr(pooled, name)
    assert pooled.batch_size == 4 * together.batch_size == 4 * alone.batch_size


@pytest.mark.parametrize("method", uneven_digits.METHODS)
def test_digits_are_those_of_independent_runs(found, method):
    mine = found.digits.methods[method]
    for number, spec in enumerate(uneven_digits.specs(method, PLAN.seeds, PLAN.rounds)):
        figures = unalike.run(spec).figures
        assert mine.accuracy.each[number] == figures["accuracy"]
        assert mine.worst.each[number] == figures["parties"]["worst"]
        assert mine.right[number].mean() == pytest.approx(figures["accuracy"])


def with_answers(part, **rights):
    methods = {
        name: replace(method, right=rights.get(name, method.right)) for name, method in part.methods.items()
    }
    return replace(part, methods=methods)


def test_sentences_follow_from_the_figures(found):
    part = found.hospitals
    all_right, all_wrong = np.ones((2, 185)), np.zeros((2, 185))
    good = " ".join(read_hospitals(with_answers(part, FedAvg=all_right, neighbour=all_wrong, alone=all_wrong)))
    assert "0% of the patients" in good
    assert "for 100%: +100.0 points, beyond the noise" in good
    assert "cleveland, hungarian, switzerland and va gained" in good
    assert "Mind:" not in good
    bad = " ".join(read_hospitals(with_answers(part, FedAvg=all_wrong, alone=all_right, pooled=all_wrong)))
    assert "cleveland, hungarian, switzerland and va lost" in bad
    assert "not allowed, against FedAvg: +0.0 points, within the noise" in bad
    assert "Mind: for cleveland, hungarian, switzerland and va" in bad
    even = uneven_digits.REFERENCE
    same = with_answers(found.digits, **{"FedAvg": np.ones((2, 359)), even: np.ones((2, 359))})
    assert "both with FedAvg: +0.0 points, within the noise" in read_digits(same)[1]


def test_picture_shows_the_figures(found, tmp_path):
    figure = demo_picture(found.hospitals, found.digits)
    heart_map, heart_curves, heart_dots, digit_map, digit_curves, digit_dots = figure.axes
    for axes, part in ((heart_map, found.hospitals), (digit_map, found.digits)):
        assert [int(text.get_text()) for text in axes.texts] == part.counts.flatten().tolist()
    for axes, part in ((heart_curves, found.hospitals), (digit_curves, found.digits)):
        for line in axes.lines:
            seeds = [[row["accuracy"] for row in rows] for rows in part.methods[line.get_label()].curves]
            assert np.allclose(line.get_ydata(), np.mean(seeds, axis=0))
    dots = [list(container[0].get_xdata()) for container in heart_dots.containers]
    places = found.hospitals.places
    assert dots == [[found.hospitals.score(name, p).mean for p in places] for name in found.hospitals.methods]
    dots = [list(container[0].get_xdata()) for container in digit_dots.containers]
    assert dots == [[m.accuracy.mean, m.parties.mean, m.worst.mean] for m in found.digits.methods.values()]
    first = [path.read_bytes() for path in save(figure, tmp_path / "a")]
    again = [path.read_bytes() for path in save(demo_picture(found.hospitals, found.digits), tmp_path / "b")]
    assert first == again
