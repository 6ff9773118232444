"""Scores of the parties' own models, apart from those of global ones."""

from dataclasses import replace

import pytest

from tests.studies.made_up import record
from unalike.ranking.blocks import run_blocks
from unalike.ranking.deployed import by_global_model, by_own_models, command_of, family
from unalike.ranking.leaderboard import leaderboard
from unalike.runs.results import settings

PARTITIONS = ("label-dirichlet(0.5)", "label-count(2)", "label-count(3)")


def parties(mean, worst=0.5):
    return {"count": 10, "mean": mean, "worst_10_percent": worst}


def shared(algorithm="fedavg", accuracy=0.6, own=0.7, **other):
    """A run with one model for all."""
    made = record(algorithm, accuracy, **other)
    return replace(made, figures={**made.figures, "parties": parties(own)})


def personal(algorithm="a-personal-one", own=0.9, worst=0.8, **other):
    """A run without a global model."""
    return record(algorithm, None, loss=None, personal=parties(own, worst), curve=(None,) * 3, **other)


def tables(records):
    return leaderboard(run_blocks(settings(by_own_models(records))), personal=True)


def values(table):
    return {entry.algorithm: entry.value for entry in table.entries}


def test_parties_own_means_are_ranked_beside_the_baselines():
    records = [
        one
        for partition in PARTITIONS
        for one in (
            shared(partition=partition),
            shared("fedprox", own=0.99, partition=partition),
            personal(partition=partition),
        )
    ]
    table = tables(records)[0]
    assert values(table) == pytest.approx({"a-personal-one": 90.0, "fedavg": 70.0})
    assert [entry.worst_tenth for entry in table.entries] == pytest.approx([80.0, 50.0])
    assert table.personal
    assert table.category == "own models: all settings"


def test_no_table_has_both_kinds_of_score():
    """A personal algorithm that trains a global model too is ranked by what its parties use, and nowhere else."""
    both = shared("a-personal-one", 0.95, 0.6, personal=parties(0.9))
    records = [shared(), shared("fedprox", 0.8), both]
    (block,) = run_blocks(settings(by_global_model(records)))
    assert {name: trial[0].value for name, trial in block.trials.items()} == pytest.approx(
        {"fedavg": 60.0, "fedprox": 80.0}
    )
    assert all(trial[0].worst_tenth is None for trial in block.trials.values())
    assert values(tables(records)[0]) == pytest.approx({"a-personal-one": 90.0, "fedavg": 70.0})


def test_fine_tuning_is_a_part_of_the_name_and_not_of_the_setting():
    tuned = [
        shared(algorithm, fine_tune=epochs, personal=parties(own), validation_accuracy=own)
        for algorithm, epochs, own in (("fedavg", 1, 0.8), ("fedavg", 5, 0.85), ("fedprox(mu=0.1)", 1, 0.75))
    ]
    table = tables([shared(validation_accuracy=0.7), *tuned])[0]
    assert table.ranking.settings == 1
    assert values(table) == pytest.approx({"fedavg": 70.0, "fedavg-tuned(5)": 85.0, "fedprox(0.1), tuned 1": 75.0})


def test_fine_tuned_runs_keep_their_global_score_in_the_global_table():
    tuned = [shared(name, value, fine_tune=1, personal=parties(0.9)) for name, value in
             (("fedavg", 0.6), ("fedprox", 0.8))]  # fmt: skip
    (block,) = run_blocks(settings(by_global_model(tuned)))
    assert {name: trial[0].value for name, trial in block.trials.items()} == pytest.approx(
        {"fedavg": 60.0, "fedprox": 80.0}
    )


def test_settings_without_a_model_of_a_partys_own_are_none_of_these():
    assert by_own_models([shared(), shared("fedprox")]) == []
    elsewhere = [shared(), personal(partition=PARTITIONS[0])]
    assert [one.algorithm for one in by_own_models(elsewhere)] == ["a-personal-one"]


def test_parties_without_held_out_rows_have_no_score():
    nothing = {"count": 0}
    empty = shared()
    empty = replace(empty, figures={**empty.figures, "parties": nothing})
    assert by_own_models([empty, record("x", None, loss=None, personal=nothing)]) == []
    assert [one.algorithm for one in by_own_models([empty, personal()])] == ["a-personal-one"]


def test_rounds_count_by_the_parties_own_mean():
    own = personal()
    own = replace(own, rounds=tuple({"round": k, "personal": {"mean": 0.3 * k}} for k in (1, 2, 3)))
    (block,) = run_blocks(settings(by_own_models([own])), target=55.0)
    assert block.trials["a-personal-one"][0].rounds_to_target == 2


def test_a_failed_run_of_a_personal_algorithm_fails_among_its_like():
    """What failed has no figures: the registered class says that it would have had personal models."""
    failed = record("ditto", state="failed")
    records = [shared(), personal(), failed, record("fedprox", state="failed")]
    assert {each.algorithm for each in by_global_model(records)} == {"fedavg", "fedprox"}
    last = tables(records)[0].entries[-1]
    assert (last.algorithm, last.failed) == ("ditto", 1)


def test_names():
    assert family("fedprox(0.1)") == "fedprox"
    assert family("fedprox(0.1), tuned 5") == "fedprox, tuned"
    assert command_of("fedprox(0.1), tuned 5") == {"algorithm": "fedprox(0.1)", "fine-tune": "5"}
    assert command_of("scaffold") == {"algorithm": "scaffold"}
