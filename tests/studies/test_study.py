"""What a study shows: from run folders, finished or not, beside the published numbers."""

from __future__ import annotations

import pytest

from tests.studies.fake_runs import failed, finished
from unalike.ranking.comparison import compare
from unalike.ranking.published import published
from unalike.runs.spec import RunSpec
from unalike.studies.plan import plan_study
from unalike.studies.study import load_study, parse_only, study_results
from unalike.studies.study_file import read_study

ONLY = parse_only(["dataset=adult,partition=label-count(1)"])
TABLE3 = load_study("niid-table3")


def goals(**only):
    return plan_study(TABLE3, only={**ONLY, **only})


def test_nothing_yet(tmp_path):
    results = study_results(TABLE3, tmp_path, only=ONLY)
    assert (results.done, results.total, results.failed) == (0, 4 * 3 + 4, [])
    assert {cell.ours for cell in results.compared} == {None}
    assert {cell.algorithm for cell in results.compared} == {
        "fedavg",
        "scaffold",
        "fednova",
    }  # fedprox is not tuned


def test_ours_beside_the_papers_with_notes_and_the_tuned_parameter(tmp_path):
    plan = goals()
    for run, value in zip(plan.tuning_runs(), (0.7, 0.9, 0.8, 0.9), strict=True):
        finished(tmp_path, run.spec, accuracy=1 - value, validation_accuracy=value)
    for goal in plan.goals:
        planned = goal.planned or goal.tuned("fedprox(mu=0.01)")
        finished(tmp_path, planned.spec, accuracy=0.81 + planned.spec.seed / 100)
    results = study_results(TABLE3, tmp_path, only=ONLY)
    assert results.done == results.total == 16
    cells = {cell.algorithm: cell for cell in results.compared}
    assert set(cells) == {"fedavg", "fedprox", "scaffold", "fednova"}  # 0.01 is FedProx's default
    average = cells["fedavg"]
    assert str(average.ours) == "82.0±1.0"
    assert str(average.paper) == "82.5±2.2"
    assert average.difference == pytest.approx(-0.5)
    assert average.within
    assert cells["scaffold"].note
    assert not cells["scaffold"].within
    (tuned,) = results.tuned.values()
    assert tuned.chosen == "fedprox(mu=0.01)"
    assert (tuned.score, tuned.validation) == ("accuracy", {  # in percent
        "fedprox(mu=0.001)": 70, "fedprox(mu=0.01)": 90, "fedprox(mu=0.1)": 80, "fedprox(mu=1.0)": 90,
    })  # fmt: skip
    # Tuning runs are no results.
    assert {
        record.spec["validation"] for one in results.settings for line in one.lines for record in line.records
    } == {0.0}


def test_part_of_the_seeds_and_failures(tmp_path):
    first, second, third = (goal.planned.spec for goal in goals(algorithm=["fednova"]).goals)
    finished(tmp_path, first, accuracy=0.5)
    failed(tmp_path, second, "it diverged")
    results = study_results(TABLE3, tmp_path, only={**ONLY, "algorithm": ["fednova"]})
    assert (results.done, results.total) == (1, 3)
    assert [(record.key, record.problem) for record in results.failed] == [(second.key, "it diverged")]
    (cell,) = results.compared
    assert cell.ours.seeds == 1
    states = [record.state for record in results.settings[0].lines[0].records]
    assert states == ["finished", "failed", "unfinished"]
    assert third.key in {record.key for record in results.settings[0].lines[0].records}


def test_a_smaller_scale_says_so_and_has_runs_of_its_own(tmp_path):
    finished(tmp_path, goals(algorithm=["fedavg"]).goals[0].planned.spec)
    results = study_results(TABLE3, tmp_path, scale=0.1, only=ONLY)
    assert results.done == 0
    assert results.warning.startswith("At scale 0.1: 10 % of the study's rounds")
    assert "not comparable" in results.warning
    assert study_results(TABLE3, tmp_path, only=ONLY).warning == ""


def test_every_published_cell_has_a_run():
    """The built-in studies cover the papers' tables whole, under the names that comparisons look for."""
    for name in ("niid-table3", "rfedavg-silo", "rfedavg-device"):
        study = load_study(name)
        wanted = {
            (cell.dataset, cell.our_partition, cell.algorithm)
            for cell in published(study.published)
            if cell.setting == study.published_setting
        }
        assert len(wanted) > 40
        found = {
            (str(goal.fields["dataset"]), str(goal.fields["partition"]), goal.fields["algorithm"].split("(")[0])
            for goal in plan_study(study).goals
        }
        assert wanted <= {(d, _brief(p), a) for d, p, a in found}


def _brief(partition):
    from unalike.partition import PARTITIONS
    from unalike.runs.results import brief

    return brief(PARTITIONS, partition)


def test_cells_are_found_where_parameters_are_as_by_default(tmp_path):
    """``fcube(seed=0)`` and ``similarity(s=0.0)`` are the paper's fcube and Sim 0%."""
    from unalike.runs.results import read_records, settings

    spec = RunSpec(dataset="fcube", partition="fcube", parties=4, rounds=1)
    finished(tmp_path, spec, accuracy=0.99)
    (cell,) = compare(settings(read_records(tmp_path)), "niid-bench-table3")
    assert str(cell.paper) == "99.8±0.2"
    silo = RunSpec(dataset="mnist", partition="similarity(0)", rounds=1, model="fedavg-cnn")
    finished(tmp_path / "silo", silo)
    (cell,) = compare(settings(read_records(tmp_path / "silo")), "rfedavg-tables1-2", "cross-silo")
    assert str(cell.paper) == "97.07±0.34"


def test_a_tuned_value_that_is_in_the_axes_too_is_one_run(tmp_path):
    text = """
        title = "x"
        [base]
        rounds = 1
        validation = 0.0
        [axes]
        algorithm = ["fedprox", "fedprox(0.5)"]
        [tune.fedprox]
        mu = [0.5]
    """
    study = read_study("x", text, "x")
    plan = plan_study(study)
    for run in plan.tuning_runs():
        finished(tmp_path, run.spec, validation_accuracy=0.5)
    finished(tmp_path, plan.goals[1].planned.spec)
    results = study_results(study, tmp_path)
    assert results.done == results.total == 3
    assert [line.algorithm for one in results.settings for line in one.lines] == ["fedprox(0.5)"]
    assert len(results.settings[0].lines[0].records) == 1
