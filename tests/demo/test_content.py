import csv
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
import torch

import unalike
from unalike.data.heart import HOSPITALS
from unalike.data.split import choose_test_rows
from unalike.demo import hospitals, uneven_digits
from unalike.demo.content import Length, demonstrate
from unalike.demo.hospitals import ALL, ALONE, FEDAVG, NEIGHBOUR, OWN, POOLED
from unalike.demo.picture import SHOWN, demo_picture
from unalike.demo.reading import read_digits, read_hospitals
from unalike.report.figures import save
from unalike.rounds.rows import batch_of
from unalike.runs.run import Watcher

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


@pytest.mark.parametrize("method", [FEDAVG, POOLED])
def test_accuracies_of_shared_models_are_those_of_independent_runs(found, method):
    for number, spec in enumerate(hospitals.specs(method, PLAN.seeds, PLAN.rounds)):
        result = unalike.run(replace(spec, evaluate_every=1))
        assert found.hospitals.score(method, ALL).each[number] == pytest.approx(result.accuracy, abs=1e-12)
        drawn = found.hospitals.methods[method].curves[number]
        assert [row["accuracy"] for row in drawn] == pytest.approx([row["accuracy"] for row in result.rows])


def test_accuracies_of_own_models_are_those_of_independent_runs_on_that_hospitals_patients(found, heart):
    """Where all hospitals but one have their test patients taken away, a run's party score is that hospital's."""
    for method in (ALONE, OWN):
        (spec, _) = hospitals.specs(method, PLAN.seeds, PLAN.rounds)
        keep = Models()
        unalike.run(spec, watcher=keep)
        for number, name in enumerate(heart.group_names):
            mine = heart.group_test == number
            right = keep.answers(number)
            assert found.hospitals.score(method, name).each[0] == pytest.approx(right[mine].mean())
            if method == ALONE:
                assert found.hospitals.alone_everywhere[name].each[0] == pytest.approx(right.mean())
        if method == ALONE:  # each of the other three models judges each patient
            wrong = sum(keep.answers(k)[heart.group_test != k].sum() for k in range(4))
            assert found.hospitals.score(NEIGHBOUR, ALL).each[0] == pytest.approx(wrong / (3 * len(heart.y_test)))


class Models(Watcher):
    """Asks each party's model by the net itself, not by the package's judging."""

    def started(self, simulation):
        self.simulation = simulation

    def answers(self, number):
        one = self.simulation
        test = batch_of(one.federation.test, torch.arange(len(one.federation.test)))
        return (one.task.logits(one.models(one.state).personal(number)[0], test).argmax(dim=1) == test.y).numpy()


def test_budgets_are_equal():
    together, alone, own, pooled = (hospitals.specs(name, (0,), 30)[0] for name in (FEDAVG, ALONE, OWN, POOLED))
    for name in ("steps", "lr", "rounds", "model", "optimiser", "validation"):
        assert len({getattr(spec, name) for spec in (together, alone, own, pooled)}) == 1
    assert pooled.batch_size == 4 * together.batch_size == 4 * alone.batch_size == 4 * own.batch_size


@pytest.mark.parametrize("split", uneven_digits.SPLITS)
@pytest.mark.parametrize("method", uneven_digits.METHODS)
def test_digits_are_those_of_independent_runs(found, split, method):
    """What a run records of the worst tenth of its parties, on test images of their own digits."""
    mine = found.digits.methods[split][method]
    for number, spec in enumerate(uneven_digits.specs(split, method, PLAN.seeds, PLAN.rounds)):
        figures = unalike.run(spec).figures
        recorded = figures["parties_by_labels" if method == FEDAVG else "personal_by_labels"]
        assert mine.worst.each[number] == pytest.approx(recorded["worst_10_percent"])
        assert mine.accuracy.each[number] == pytest.approx(recorded["mean"], abs=0.01)  # images count, not parties


def with_answers(methods, **rights):
    return {name: replace(method, right=rights.get(name, method.right)) for name, method in methods.items()}


def test_sentences_follow_from_the_figures(found):
    part = found.hospitals
    right, wrong = np.ones((2, 185)), np.zeros((2, 185))

    def read(**rights):
        return " ".join(read_hospitals(replace(part, methods=with_answers(part.methods, **rights))))

    good = read(FedAvg=right, neighbour=wrong, alone=wrong, Ditto=right)
    assert "0% of the patients" in good
    assert "for 100%: +100.0 points, beyond the noise" in good
    assert "cleveland, hungarian, switzerland and va gained" in good
    assert "So taking part beats training alone with FedAvg (cleveland), " in good
    assert "Mind:" not in good
    bad = read(FedAvg=wrong, alone=right, pooled=wrong, Ditto=right)
    assert "cleveland, hungarian, switzerland and va lost" in bad
    assert "not allowed, against FedAvg: +0.0 points, within the noise" in bad
    assert "Against its model trained alone: +0.0 points, within the noise" in bad
    assert "nothing here is shown to beat a hospital's own model" in bad
    assert "Mind: for cleveland, hungarian, switzerland and va" in bad


@pytest.mark.parametrize(
    ("alone", "together", "own", "words"),
    [
        (0, 0, 1, "beats both"),
        (1, 0, 1, "others have little to add"),
        (0, 1, 1, "one model for all is as good"),
        (1, 1, 1, "Neither is shown to be beaten"),
    ],
)
def test_what_is_said_of_digits(found, alone, together, own, words):
    part = found.digits
    rights = {name: np.full((2, 359), value) for name, value in ((ALONE, alone), (FEDAVG, together), (OWN, own))}
    methods = {split: with_answers(each, **rights) for split, each in part.methods.items()}
    *splits, last = read_digits(replace(part, methods=methods))
    assert all(words in text for text in splits)
    assert "shown to be worse" in last


def test_a_method_that_is_beaten_is_not_praised(found):
    methods = {
        split: with_answers(each, Ditto=np.zeros((2, 359)), alone=np.ones((2, 359)))
        for split, each in found.digits.methods.items()
    }
    assert "shown to be worse" not in " ".join(read_digits(replace(found.digits, methods=methods)))


def test_picture_shows_the_figures(found, tmp_path):
    figure = demo_picture(found.hospitals, found.digits)
    heart_map, heart_curves, heart_dots, digit_map, digit_curves, digit_dots = figure.axes
    for axes, counts in ((heart_map, found.hospitals.counts), (digit_map, found.digits.counts[:SHOWN])):
        assert [int(text.get_text()) for text in axes.texts] == counts.flatten().tolist()
    five = found.digits.methods[uneven_digits.FIVE]
    for axes, methods in ((heart_curves, found.hospitals.methods), (digit_curves, five)):
        for line in axes.lines:
            seeds = [[row["accuracy"] for row in rows] for rows in methods[line.get_label()].curves]
            assert np.allclose(line.get_ydata(), np.mean(seeds, axis=0))
    dots = [list(container[0].get_xdata()) for container in heart_dots.containers]
    places = found.hospitals.places
    assert dots == [[found.hospitals.score(name, p).mean for p in places] for name in found.hospitals.methods]
    dots = [list(container[0].get_xdata()) for container in digit_dots.containers]
    assert dots == [
        [
            figure.mean
            for split in found.digits.methods.values()
            for figure in (split[name].accuracy, split[name].worst)
        ]
        for name in uneven_digits.METHODS
    ]
    first = [path.read_bytes() for path in save(figure, tmp_path / "a")]
    again = [path.read_bytes() for path in save(demo_picture(found.hospitals, found.digits), tmp_path / "b")]
    assert first == again
