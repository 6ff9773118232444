import json
import math
import os
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.studies.made_up import record, scored, write_run
from unalike.runs.results import Line, Spread, first_round, read_record, read_records, settings, spread
from unalike.runs.run import record_failure
from unalike.runs.spec import RunSpec

FIELDS = {"dataset": "digits", "partition": "label-dirichlet(0.5)", "model": "mlp(8)"}


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=9))
def test_spread(values):
    mean, std, seeds = spread(values)
    assert mean == pytest.approx(statistics.fmean(values))
    assert std == pytest.approx(statistics.stdev(values))
    assert seeds == len(values)


def test_spread_of_few():
    assert spread([]) is None
    assert spread([3.0]) == (3.0, 0.0, 1)
    assert str(Spread(82.94, 1.25, 3)) == "82.9±1.2"
    assert str(Spread(82.94, 0.0, 1)) == "82.9"


def test_reads_what_a_run_wrote(tmp_path):
    spec = write_run(tmp_path, algorithm="fedprox(mu=0.1)", seed=4, **FIELDS)
    (found,) = read_records(tmp_path)
    assert (found.key, found.state, found.seed, found.problem) == (spec.key, "finished", 4, None)
    assert (found.algorithm, found.partition, found.dataset) == (
        "fedprox(0.1)",
        "label-dirichlet(0.5)",
        "digits",
    )
    assert found.value == pytest.approx(80.0)
    assert [row["round"] for row in found.rounds] == [1, 2, 3]
    assert found.folder == tmp_path / spec.folder


def test_states(tmp_path):
    write_run(tmp_path / "a", result=False, **FIELDS)
    write_run(tmp_path / "b", result=False, failure="loss is not finite", **FIELDS)
    write_run(tmp_path / "c", failure="an earlier attempt", **FIELDS)
    found = {name: read_records(tmp_path / name)[0] for name in "abc"}
    assert [found[name].state for name in "abc"] == ["unfinished", "failed", "finished"]
    assert found["b"].problem == "loss is not finite"
    assert found["a"].value is None
    assert found["c"].problem is None


def test_a_refused_setting_is_told_from_a_divergence(tmp_path):
    for name, final in (("diverged", True), ("refused", False)):
        record_failure(tmp_path / name, RunSpec(), "a reason", final=final)
        (found,) = read_records(tmp_path / name)
        assert (found.state, found.refused) == ("failed", not final)


def test_a_result_without_all_its_rounds_is_not_finished(tmp_path):
    spec = write_run(tmp_path, **FIELDS)
    rounds = tmp_path / spec.folder / "rounds.jsonl"
    rounds.write_text("".join(rounds.read_text().splitlines(keepends=True)[:2]))
    assert read_record(tmp_path / spec.folder).state == "unfinished"


def test_a_result_of_another_run_does_not_count(tmp_path):
    spec = write_run(tmp_path, **FIELDS)
    (tmp_path / spec.folder / "result.json").write_text(json.dumps({"key": "other", "accuracy": 1.0}))
    assert read_record(tmp_path / spec.folder).state == "unfinished"


def test_what_is_no_run_is_passed_over(tmp_path):
    assert read_records(tmp_path / "missing") == []
    (tmp_path / "file.txt").write_text("x")
    for name, text in {"a": "x = [", "b": "x = 1", "c": 'dataset = "digits"\nseed = "one"', "d": ""}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "spec.toml").write_text(text)
    (tmp_path / "e" / "spec.toml").mkdir(parents=True)
    assert read_records(tmp_path) == []


def test_damaged_figures_are_no_accuracy():
    for value in (None, "high", math.nan, [1]):
        assert record(accuracy=value, curve=(0.1, 0.2, 0.3)).value is None


def test_settings_differ_in_more_than_algorithm_and_seed():
    records = [
        record("fedavg", seed=0),
        record("fedavg", seed=1, engine="compiled", threads=2),
        record("fedprox(mu=0.1)", seed=0, code="abc"),
        record("fedavg", lr=0.5),
        record("fedavg", partition="label-count(k=2)"),
    ]
    found = settings(records)
    assert [(one.partition, len(one.lines)) for one in found] == [("iid", 1), ("iid", 2), ("label-count(2)", 1)]
    line = found[1].lines[0]
    assert (line.algorithm, [each.seed for each in line.records]) == ("fedavg", [0, 1])
    assert "lr" not in found[1].spec
    assert found[0].spec["lr"] == 0.5
    assert "seed" not in found[0].spec


@given(st.permutations(range(6)))
def test_the_order_of_records_does_not_matter(order):
    records = [record(name, 0.5, seed, key=f"{name}{seed}") for name in ("fedavg", "moon") for seed in range(3)]
    assert settings([records[index] for index in order]) == settings(records)


def test_a_seed_counts_once():
    """Another engine's run of the same thing, and a copy in another folder, are no further seed."""
    twice = [record(accuracy=0.8, changed=1.0), record(accuracy=0.6, engine="compiled", changed=2.0)]
    for records in (twice, twice[::-1]):
        (line,) = settings(records)[0].lines
        assert line.value == (pytest.approx(60.0), 0.0, 1)  # the later


def test_a_finished_run_counts_before_a_later_one_that_is_not():
    records = [record(changed=1.0), record(state="failed", engine="compiled", changed=2.0)]
    assert settings(records)[0].lines[0].records[0].state == "finished"


def test_runs_on_other_rows_are_left_out():
    """The file behind csv:PATH has changed: the latest rows count, seed by seed."""
    records = [
        record("fedavg", data_sha256="old", changed=1.0),
        record("moon", data_sha256="old", changed=2.0),
        record("fedprox", data_sha256="new", changed=3.0),
        record("moon", seed=1, data_sha256="seed 1", changed=1.0),  # distortions go by the seed
    ]
    found = {line.algorithm: [each.seed for each in line.records] for line in settings(records)[0].lines}
    assert found == {"fedprox": [0], "moon": [1]}


def test_the_time_of_a_run_is_its_results(tmp_path):
    spec = write_run(tmp_path, **FIELDS)
    os.utime(tmp_path / spec.folder / "result.json", (1000, 1000))
    assert read_record(tmp_path / spec.folder).changed == 1000


def test_a_line_over_seeds():
    line = Line("fedavg", (record(accuracy=0.8), record(accuracy=0.6, seed=1), record(seed=2, state="failed")))
    assert line.value == (pytest.approx(70.0), pytest.approx(10 * math.sqrt(2)), 2)
    assert line.mean("bytes_up") == 100
    assert line.mean("nonsense") is None
    assert line.mean("degrees") is None


def test_a_curve_has_the_rounds_that_all_seeds_have():
    line = Line("fedavg", (record(curve=(0.1, None, 0.5)), record(curve=(0.3, 0.4, 0.5), seed=1)))
    assert [(number, made.mean) for number, made in line.curve()] == [(1, pytest.approx(0.2)), (3, 0.5)]
    assert Line("fedavg", ()).curve() == []


def test_rounds_to_a_target():
    one, other = record(curve=(0.1, 0.57, 0.4)), record(curve=(0.6, 0.7, 0.9), seed=1)
    assert Line("fedavg", (one, other)).rounds_to(57) == (1.5, pytest.approx(math.sqrt(0.5)), 2)  # 100 * 0.57 < 57
    assert Line("fedavg", (one, other)).rounds_to(58) is None  # a seed never gets there
    assert Line("fedavg", ()).rounds_to(1) is None
    assert first_round(record(curve=(None, 0.9, 0.9)), 0.0) == 2


# ---- other scores than accuracy


def test_a_run_goes_by_the_score_that_it_names(tmp_path):
    write_run(tmp_path, by="rmse", accuracies=(90.0, 60.0, 53.2), **FIELDS)
    (found,) = read_records(tmp_path)
    assert (found.score, found.value) == ("rmse", 53.2)
    assert record(accuracy=0.5).score == "accuracy"  # the first records name none
    assert scored("auroc", value=0.9).value == 0.9
    assert scored("balanced-accuracy", value=0.9).value == pytest.approx(90)


def test_runs_of_different_scores_are_no_setting():
    found = settings([scored("rmse", "fedavg"), scored("mae", "moon"), scored("rmse", "moon")])
    assert [(one.scale.name, [line.algorithm for line in one.lines]) for one in found] == [
        ("mae", ["moon"]),
        ("rmse", ["fedavg", "moon"]),
    ]
    assert found[0].spec["score"] == "mae"


def test_a_score_by_default_and_by_choice_are_the_same_setting():
    by_choice = record("moon")
    by_choice = replace(by_choice, spec={**by_choice.spec, "score": "accuracy"})
    (found,) = settings([record("fedavg"), by_choice])
    assert len(found.lines) == 2


def test_a_run_that_never_ran_goes_by_the_score_of_its_setting():
    (found,) = settings([scored("rmse", "fedavg"), scored("rmse", "moon", state="failed")])
    assert [(line.algorithm, line.scale.name) for line in found.lines] == [("fedavg", "rmse"), ("moon", "rmse")]
    (alone,) = settings([record(state="unfinished", curve=(None,))])
    assert alone.scale.name == "accuracy"


def test_a_line_of_a_score_where_less_is_better():
    line = Line("fedavg", (scored("rmse", value=50.0, curve=(90.0, 55.0, 50.0)),
                           scored("rmse", value=54.0, seed=1, curve=(80.0, 60.0, 54.0))))  # fmt: skip
    assert line.value == (52, pytest.approx(math.sqrt(8)), 2)
    assert [made.mean for _, made in line.curve()] == [85, 57.5, 52]
    assert line.rounds_to(60) == (2, 0, 2)
    assert line.rounds_to(54).mean == 3
    assert line.rounds_to(53) is None


def test_a_score_that_nobody_knows_is_left_out_with_a_line(tmp_path):
    spec = write_run(tmp_path, by="glory", **FIELDS)
    (found,) = read_records(tmp_path)
    assert (found.damaged, found.problem) == (True, f"{spec.folder}: its score 'glory' is not known here.")
    assert settings([found])
