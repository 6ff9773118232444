"""Which runs a study has, which parameter tuning chooses, and how a part or a smaller scale is selected."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.studies.fake_runs import failed, finished
from unalike.errors import UserError
from unalike.runs.results import Record
from unalike.runs.spec import RunSpec
from unalike.studies.plan import parse_only, plan_study
from unalike.studies.planned import look_at
from unalike.studies.study_file import built_in_studies, load_study, read_study

TUNED = """
    title = "tuned"
    seeds = [0, 1]
    [base]
    rounds = 2
    steps = 1
    validation = 0.0
    [axes]
    algorithm = ["fedavg", "fedprox", "fedprox(0.5)"]
    [tune.fedprox]
    mu = [0.1, 1.0, 10.0]
    [tuning]
    validation = 0.2
    seeds = [7, 8]
    rounds = 3
"""


@cache
def tuned():
    return plan_study(read_study("tuned", TUNED, "tuned.toml"))


def choose(figures, score="accuracy"):
    """What is chosen where the candidates' runs end so: (validation, test score), None for a failed one."""
    (tuning,) = tuned().tunings
    place = {
        run.key: figure
        for runs, pair in zip(tuning.candidates.values(), figures, strict=True)
        for run, figure in zip(runs, pair, strict=True)
    }

    def look(planned):
        figure = place[planned.key]
        if figure is None:
            return Record(planned.key, {}, "failed", problem="diverged")
        named = {"score": score, f"validation_{score}": figure[0], score: figure[1]}
        return Record(planned.key, {}, "finished", named)

    return tuning.choose(look)


def test_tuning_runs_differ_as_the_study_says():
    plan = tuned()
    (tuning,) = plan.tunings
    assert list(tuning.candidates) == ["fedprox(mu=0.1)", "fedprox(mu=1.0)", "fedprox(mu=10.0)"]
    specs = [run.spec for run in plan.tuning_runs()]
    assert {(s.validation, s.rounds, s.steps) for s in specs} == {(0.2, 3, 1)}
    assert sorted({s.seed for s in specs}) == [7, 8]
    assert len(plan.goals) == 6
    assert plan.total == 12
    assert [goal.planned is None for goal in plan.goals] == [False, False, True, True, False, False]
    final = plan.goals[2].tuned("fedprox(mu=1.0)").spec
    assert (final.validation, final.rounds, final.algorithm, final.seed) == (0.0, 2, "fedprox(mu=1.0)", 0)


def test_a_case_may_say_how_its_own_tuning_runs_differ():
    text = """
        title = "tuned"
        [base]
        rounds = 6
        algorithm = "fedprox"
        [[axes.case]]
        dataset = ["digits", "fcube"]
        tuning = { rounds = 2, steps = 3 }
        [[axes.case]]
        dataset = "heart"
        [tune.fedprox]
        mu = [0.1, 1.0]
        [tuning]
        rounds = 4
        validation = 0.2
    """
    plan = plan_study(read_study("tuned", text, "tuned.toml"))
    specs = [run.spec for run in plan.tuning_runs()]
    found = {(s.dataset.split("(")[0], s.rounds, s.steps, s.validation) for s in specs}
    assert found == {("digits", 2, 3, 0.2), ("fcube", 2, 3, 0.2), ("heart", 4, None, 0.2)}
    finals = [goal.tuned("fedprox(1.0)").spec for goal in plan.goals]
    assert {(s.rounds, s.steps) for s in finals} == {(6, None)}


def test_the_best_on_validation_rows_is_chosen_and_test_rows_take_no_part():
    poor_test = [[(0.5, 0.99), (0.5, 0.99)], [(0.7, 0.01), (0.6, 0.01)], [(0.4, 0.9), (0.8, 0.9)]]
    assert choose(poor_test).algorithm == "fedprox(mu=1.0)"


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=6, max_size=6), st.lists(st.floats(0, 1), min_size=6, max_size=6))
def test_no_test_figure_can_change_the_choice(first, second):
    validation = [(0.3, 0.4), (0.35, 0.36), (0.2, 0.5)]

    def pairs(test):
        return [[(v, test[2 * k + i]) for i, v in enumerate(pair)] for k, pair in enumerate(validation)]

    assert choose(pairs(first)) == choose(pairs(second))


def test_of_equals_the_first_and_a_failed_run_loses():
    assert choose([[(0.5, 0), (0.5, 0)]] * 3).algorithm == "fedprox(mu=0.1)"
    assert choose([[(0.9, 0), None], [(0.1, 0), (0.1, 0)], [(0.0, 0), (0.1, 0)]]).algorithm == "fedprox(mu=1.0)"
    errors = [[(70.0, 1), (70.0, 1)], [(60.0, 9), (61.0, 9)], [(50.0, 1), None]]
    assert choose(errors, "rmse").algorithm == "fedprox(mu=1.0)"  # the lowest of those that did not fail
    lost = choose([[None, None], [None, (0.9, 0)], [None, (0.9, 0)]])
    assert (lost.algorithm, lost.problem) == ("", "no value could be tuned: diverged")


def test_nothing_is_chosen_before_all_have_ended(tmp_path):
    plan = tuned()
    (tuning,) = plan.tunings
    runs = list(plan.tuning_runs())
    for number, run in enumerate(runs):
        assert not tuning.choose(lambda planned: look_at(planned, tmp_path)).algorithm
        finished(tmp_path, run.spec, validation_accuracy=number / 10)
    assert tuning.choose(lambda planned: look_at(planned, tmp_path)).algorithm == "fedprox(mu=10.0)"


def test_what_is_there_of_a_run(tmp_path):
    (goal,) = plan_study(read_study("x", "title='x'\n[base]\nrounds = 3", "x")).goals
    assert look_at(goal.planned, tmp_path).state == "unfinished"
    failed(tmp_path, goal.planned.spec, "it diverged")
    assert look_at(goal.planned, tmp_path).problem == "it diverged"
    folder = finished(tmp_path, goal.planned.spec)
    assert look_at(goal.planned, tmp_path).state == "finished"
    (folder / "rounds.jsonl").write_text("")  # damaged: it must be played again
    assert look_at(goal.planned, tmp_path).state == "unfinished"


DECIDES = {"model", "rounds", "batch_size", "lr", "optimiser", "validation", "held_out"}
"""What a run is besides data, algorithm and local work: a paper's, so no default may change it."""
OF_NETS = {"batch_size", "lr", "optimiser"}
"""What trees have no use for."""


@pytest.mark.parametrize("name", sorted(name for name in built_in_studies() if name != "quick"))
def test_a_study_of_a_paper_leaves_nothing_to_the_defaults(name):
    plan = plan_study(load_study(name))
    for fields in (each.fields for each in (*plan.goals, *plan.tuning_runs())):
        trees = str(fields["model"]).startswith("trees")
        split = (
            {"optimiser"} if str(fields["partition"]).startswith("vertical") else set()
        )  # it means nothing there
        assert fields.keys() >= (DECIDES - OF_NETS if trees else DECIDES - split)
        assert trees or "epochs" in fields or "steps" in fields


def test_niid_table3_has_the_papers_setting():
    plan = plan_study(load_study("niid-table3"))
    specs = [goal.planned.spec for goal in plan.goals if goal.planned]
    images = {"mnist", "fmnist", "cifar10", "svhn", "femnist"}
    assert {(s.rounds, s.epochs, s.batch_size, s.sample) for s in specs} == {(50, 10, 64, 1.0)}
    assert {s.optimiser for s in specs} == {"sgd(momentum=0.9, weight_decay=0.0)"}
    for spec in specs:
        name = spec.dataset.split("(")[0]
        assert spec.lr == (0.1 if name == "rcv1" else 0.01)
        assert spec.model == ("simple-cnn" if name in images else "mlp(32,16,8)")


def test_niid_table3_has_the_keys_of_plain_runs():
    """So that runs made by hand count, and the study's are found by ``unalike run``."""
    plan = plan_study(load_study("niid-table3"), only={"dataset": ["adult"]})
    keys = {goal.planned.key for goal in plan.goals if goal.planned}
    base = {
        "model": "mlp(32,16,8)", "rounds": 50, "epochs": 10, "batch_size": 64, "lr": 0.01,
        "optimiser": "sgd(momentum=0.9)", "validation": 0.0, "held_out": 0.0, "evaluate_every": 1,
    }  # fmt: skip
    run = {**base, "dataset": "adult", "partition": "label-dirichlet(0.5)", "algorithm": "fedavg", "seed": 0}
    assert RunSpec.from_mapping(run).key in keys
    tuning = {**run, "algorithm": "fedprox(0.1)", "validation": 0.1}
    assert RunSpec.from_mapping(tuning).key in {run.key for run in plan.tuning_runs()}
    cube = plan_study(load_study("niid-table3"), only={"dataset": ["fcube"], "algorithm": ["fedavg"]})
    assert {goal.planned.spec.parties for goal in cube.goals} == {4}
    news = plan_study(load_study("niid-table3"), only={"dataset": ["rcv1"], "algorithm": ["fedavg"]})
    assert {goal.planned.spec.lr for goal in news.goals} == {0.1}


def test_scale():
    study = read_study("x", "title='x'\n[base]\nrounds = 50\npublic = 0.2\n[axes]\nrounds = [50, 4]", "x")
    specs = [goal.planned.spec for goal in plan_study(study, 0.1).goals]
    assert [(s.rounds, s.public) for s in specs] == [(5, 0.92), (1, 0.92)]
    for wrong in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(UserError, match="--scale must be above 0"):
            plan_study(study, wrong)


def test_only_knows_an_algorithm_by_what_it_is():
    plan = plan_study(read_study("tuned", TUNED, "tuned.toml"), only=parse_only(["algorithm=fedprox(mu=0.5)"]))
    assert {goal.fields["algorithm"] for goal in plan.goals} == {"fedprox(0.5)"}
    with pytest.raises(UserError, match="has no run with"):  # 0.01 is the default, but fedprox alone is tuned
        plan_study(load_study("niid-table3"), only=parse_only(["dataset=fcube", "algorithm=fedprox(0.01)"]))


def test_only():
    study = load_study("niid-table3")

    def places(*texts):
        goals = plan_study(study, only=parse_only(texts)).goals
        return {
            (g.fields["dataset"], g.fields["partition"], g.fields["algorithm"], g.fields["seed"]) for g in goals
        }

    some = places(
        "dataset=adult,partition=label-dirichlet(beta=0.5)", "seed=1", "algorithm=fedprox,algorithm=fedavg"
    )
    assert some == {("adult", "label-dirichlet(0.5)", name, 1) for name in ("fedavg", "fedprox")}
    assert len(places("dataset=adult", "dataset=fcube")) == (4 + 2) * 4 * 3
    assert {p for _, p, _, _ in places("partition=label-count", "dataset=mnist")} == {
        f"label-count({k})" for k in (1, 2, 3)
    }
    assert {d for d, _, _, _ in places("lr=0.1")} == {"rcv1"}
    assert parse_only(["model=mlp(32,16,8),seed=0"]) == {"model": ["mlp(32,16,8)"], "seed": ["0"]}
    for text, said in (
        ("dataset", "Cannot read --only"),
        ("dataset=", "Cannot read --only"),
        ("datasat=adult", "Unknown field in --only 'datasat'. Did you mean 'dataset'"),
        ("dataset=adlt", "has no run with dataset=adlt"),
    ):
        with pytest.raises(UserError, match=said):
            places(text)


def test_missing_files_are_a_problem_of_their_runs_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    text = "title = 'x'\n[axes]\ndataset = ['digits', 'sent140']"
    here, missing = (goal.planned for goal in plan_study(read_study("x", text, "x")).goals)
    assert here.spec is not None
    record = look_at(missing, Path(tmp_path))
    assert record.state == "failed"
    assert record.problem.startswith("data not found: sent140 is not in")
    assert "Download" in record.problem
    text = "title = 'x'\n[axes]\ndataset = ['csv:none.csv(label=y)', 'digits']"
    missing, here = (goal.planned for goal in plan_study(read_study("x", text, "x")).goals)
    assert here.spec is not None
    assert missing.problem == "data not found: There is no readable file none.csv. Check the path."
