import json

import pytest

from tests.studies.made_up import DEGREES, write_run
from unalike import run
from unalike.measure.situation import Situation
from unalike.ranking.advice import recommend
from unalike.ranking.blocks import run_blocks
from unalike.ranking.evidence import own_comparisons
from unalike.ranking.tree import grow
from unalike.runs.results import read_records, settings
from unalike.runs.spec import RunSpec

BASE = {"dataset": "digits", "partition": "label-count(3)", "model": "mlp(8)", "rounds": 1, "epochs": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    made = {}
    for algorithm in ("fedavg", "fedprox(mu=0.1)"):
        for seed in (0, 1):
            made[algorithm, seed] = run(
                RunSpec.from_mapping({**BASE, "algorithm": algorithm, "seed": seed}), runs=runs
            )
    run(RunSpec.from_mapping({**BASE, "partition": "iid"}), runs=runs)
    return runs, made


def test_compares_runs_that_differ_in_the_algorithm_alone(folder):
    runs, made = folder
    here = Situation(**made["fedavg", 0].figures["degrees"])
    (comparison,) = own_comparisons(runs, here)
    gains = [made["fedprox(mu=0.1)", seed].accuracy - made["fedavg", seed].accuracy for seed in (0, 1)]
    assert comparison == pytest.approx({"fedprox(0.1)": 50 * sum(gains)})


def test_only_seeds_in_common_with_fedavg_count(folder, tmp_path):
    """A third algorithm on another seed neither counts nor takes the others away."""
    import shutil

    runs, made = folder
    copy = tmp_path / "runs"
    shutil.copytree(runs, copy)
    run(RunSpec.from_mapping({**BASE, "algorithm": "moon", "seed": 7}), runs=copy)
    here = Situation(**made["fedavg", 0].figures["degrees"])
    assert own_comparisons(copy, here) == own_comparisons(runs, here)


def test_rows_at_one_place_are_no_evidence(folder, tmp_path):
    import shutil

    runs, made = folder
    shutil.copytree(runs, copy := tmp_path / "runs")
    run(RunSpec.from_mapping({**BASE, "algorithm": "pooled", "seed": 0}), runs=copy)
    here = Situation(**made["fedavg", 0].figures["degrees"])
    assert own_comparisons(copy, here) == own_comparisons(runs, here)
    blocks = run_blocks(settings(read_records(copy)))
    assert {name for block in blocks for name in block.trials} == {"fedavg", "fedprox"}


def test_other_situations_are_no_evidence(folder):
    runs, _ = folder
    assert (
        own_comparisons(runs, Situation(0.05, 0.05, 0.0, 0.0, 0.05, 0.05)) == []
    )  # alike: one run, no comparison
    assert own_comparisons(runs, Situation(0.3, 0.01, 0.3, 0.0, 0.1, 0.05)) == []  # milder


def test_damaged_and_foreign_folders_are_passed_over(folder, tmp_path):
    _, made = folder
    here = Situation(**made["fedavg", 0].figures["degrees"])
    assert own_comparisons(tmp_path / "missing", here) == []
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "result.json").write_text("{")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "spec.toml").write_text("x = [")
    (tmp_path / "b" / "result.json").write_text(json.dumps({"accuracy": 0.5, "degrees": {"nonsense": 1}}))
    assert own_comparisons(tmp_path, here) == []


def test_runs_of_a_task_are_compared_by_their_own_score(tmp_path):
    for partition, by, values in (("iid", "rmse", (50.0, 45.0)), ("shards(2)", "accuracy", (0.5, 0.7))):
        for algorithm, value in zip(("fedavg", "moon"), values, strict=True):
            write_run(tmp_path, by=by, accuracies=(value,), algorithm=algorithm, partition=partition)
    here = Situation(**{**DEGREES, "feature_expected": None})
    assert own_comparisons(tmp_path, here) == [pytest.approx({"moon": 20})]
    assert own_comparisons(tmp_path, here, "regression") == [pytest.approx({"moon": 10})]  # percent of FedAvg's


def similar(folder, algorithm, values, **fields):
    for number, value in enumerate(values):
        failed = value is None
        write_run(folder, accuracies=(0.1, 0.5 if failed else value), result=not failed,
                  failure="diverged" if failed else None, algorithm=algorithm, partition=f"shards({number + 2})",
                  **fields)  # fmt: skip


HERE = Situation(**{**DEGREES, "feature_expected": None})


def test_a_run_that_failed_counts_as_one_with_nothing_right(tmp_path):
    """Else an algorithm that diverges in four settings of five would stand as one that is always better."""
    similar(tmp_path, "fedavg", [0.5] * 5)
    similar(tmp_path, "moon", [0.6, None, None, None, None])
    assert own_comparisons(tmp_path, HERE) == [pytest.approx({"moon": gain}) for gain in (10, -50, -50, -50, -50)]


def test_of_several_parameters_the_one_that_validation_rows_choose_is_compared(tmp_path):
    similar(tmp_path, "fedavg", [0.5] * 2)
    for mu, value in ((0.1, 0.4), (1.0, 0.9)):
        similar(tmp_path, f"fedprox({mu})", [value] * 2)
    (first, second) = own_comparisons(tmp_path, HERE)  # no validation figures: each is apart
    assert first == second == pytest.approx({"fedprox(0.1)": -10, "fedprox(1.0)": 40})


@pytest.mark.parametrize("moon", [[0.6] * 5, [0.4] * 5, [0.9, 0.9, None, None, 0.6]])
def test_the_tree_and_the_advice_agree_on_the_same_runs(tmp_path, moon):
    similar(tmp_path, "fedavg", [0.5] * 5)
    similar(tmp_path, "moon", moon)
    similar(tmp_path, "scaffold", [0.7] * 4)  # too few
    leaves = grow(run_blocks(settings(read_records(tmp_path))))
    (leaf,) = [one for one in leaves if one.kind == HERE.kind]
    advice = recommend(HERE, own_comparisons(tmp_path, HERE))
    assert leaf.best == advice.ranking[0]
    assert "your own" in advice.source
