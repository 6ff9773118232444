"""Which settings and algorithms are compared, and the lines of the table; the paper's own counts as a check."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.studies.made_up import ALIKE, record, scored
from unalike.errors import UserError
from unalike.ranking.blocks import UNKNOWN, Block, Trial, parse_target, published_blocks, run_blocks
from unalike.ranking.leaderboard import complete, leaderboard
from unalike.runs.results import settings
from unalike.runs.scales import scale_of

PARTITIONS = ("label-dirichlet(0.5)", "label-count(2)", "label-count(3)")


def block(name, kind="label skew", **scores):
    """``fedavg=80`` for seed 0, ``fedavg={0: 80, 1: None}`` for several, None where the run failed."""
    by_seed = {name: value if isinstance(value, dict) else {0: value} for name, value in scores.items()}
    made = {name: {seed: Trial(each, name) for seed, each in found.items()} for name, found in by_seed.items()}
    return Block(name, kind, made)


def overall(records, **options):
    return leaderboard(run_blocks(settings(records), **options))[0]


# ---- the paper's own table


def best(kind):
    tables = {table.category: table for table in leaderboard(published_blocks("niid-bench-table3"))}
    return tables[kind].ranking.wins


def test_counts_of_best_are_those_that_the_paper_prints():
    """Table 3, "number of times that performs best"."""
    assert best("quantity skew") == {"fedavg": 3, "fedprox": 5, "scaffold": 0, "fednova": 0}
    assert best("alike") == {"fedavg": 2, "fedprox": 3, "scaffold": 5, "fednova": 3}


def test_counts_of_best_under_feature_skew_but_for_cells_that_could_not_be_read():
    """The paper prints 4, 3, 5, 2. Of its six rows two lack cells here: mnist, where FedAvg, FedProx and SCAFFOLD
    are equal (and FedNova must be, by the paper's count), and cifar10, where SCAFFOLD must be best."""
    assert best("feature skew") == {"fedavg": 4 - 1, "fedprox": 3 - 1, "scaffold": 5 - 2, "fednova": 2 - 1}


def test_the_papers_rows_are_settings():
    first, *others = leaderboard(published_blocks("niid-bench-table3"))
    assert first.ranking.settings == 41
    assert "3 of 44 settings" in first.left_out[0]
    assert [table.category for table in others] == [
        "one label each", "label skew", "feature skew", "quantity skew", "alike",
    ]  # fmt: skip
    assert first.entries[0].algorithm == "fedprox"
    assert first.entries[0].bytes is None


def test_the_other_papers_table():
    first = leaderboard(published_blocks("rfedavg-tables1-2"))[0]
    assert first.ranking.settings == 16
    assert [entry.algorithm for entry in first.entries][:2] == ["rfedavg+", "rfedavg"]


def test_an_unknown_table():
    with pytest.raises(UserError, match="published table 'niid'"):
        published_blocks("niid")


# ---- which settings and algorithms


def test_every_cell_of_what_is_compared_is_there():
    blocks = [
        block("1", fedavg=1, fedprox=2, moon=3),
        block("2", fedavg=1, fedprox=2),
        block("3", fedavg=1, fedprox=2),
        block("4", fedavg=1, fedprox=2),
        block("5", moon=3),
    ]
    names, used = complete(blocks, ["fedavg", "fedprox", "moon"])
    assert names == ["fedavg", "fedprox"]
    assert [each.name for each in used] == ["1", "2", "3", "4"]
    table = leaderboard(blocks)[0]
    assert any("moon" in line for line in table.left_out)
    assert any("1 of 5 settings" in line for line in table.left_out)


def test_one_algorithm_less_where_that_gives_more():
    """Dropping moon from three algorithms doubles the settings: 1 x 5 degrees of freedom against 2 x 2."""
    blocks = [block(str(i), fedavg=1, fedprox=2, **({"moon": 3} if i < 3 else {})) for i in range(6)]
    assert complete(blocks, ["fedavg", "fedprox", "moon"])[0] == ["fedavg", "fedprox"]
    assert len(complete(blocks[:4], ["fedavg", "fedprox", "moon"])[0]) == 3  # 2 x 2 against 1 x 3


def test_what_no_single_setting_has_alone():
    """No setting has exactly fedavg and fedprox, yet these two are what all share."""
    blocks = [
        block(str(i), fedavg=1, fedprox=2, **{name: 3}) for i, name in enumerate(("moon", "fednova", "scaffold"))
    ]
    names, used = complete(blocks, ["fedavg", "fedprox", "moon", "fednova", "scaffold"])
    assert names == ["fedavg", "fedprox"]
    assert len(used) == 3


presence = st.lists(st.sets(st.sampled_from("abcd")), min_size=1, max_size=6)


@given(presence)
def test_no_other_choice_has_more_degrees_of_freedom(patterns):
    blocks = [block(str(i), **dict.fromkeys(sorted(names), 1.0)) for i, names in enumerate(patterns)]
    names, used = complete(blocks, "abcd")
    assert all(set(names) <= set(each.trials) for each in used)

    def freedom(chosen):
        return (len(chosen) - 1) * (sum(set(chosen) <= each for each in patterns) - 1)

    subsets = (s for size in (2, 3, 4) for s in itertools.combinations("abcd", size))
    possible = [s for s in subsets if any(set(s) <= each for each in patterns)]
    assert bool(names) == bool(possible)
    if possible:
        assert (len(names) - 1) * (len(used) - 1) == max(map(freedom, possible))


def test_seeds_must_be_shared():
    blocks = [
        block("1", fedavg={0: 80, 1: 60}, fedprox={1: 70, 2: 0}),
        block("2", fedavg={0: 50}, fedprox={1: 60}),
    ]
    table = leaderboard(blocks)[0]
    assert table.settings == ("1",)
    assert {entry.algorithm: entry.value for entry in table.entries} == {"fedavg": 60, "fedprox": 70}


def test_only_those_that_are_wanted():
    blocks = [block("1", fedavg=1, fedprox=2, moon=3)]
    assert len(leaderboard(blocks, algorithms=["fedavg", "moon"])[0].entries) == 2
    with pytest.raises(UserError, match="Did you mean 'moon'"):
        leaderboard(blocks, algorithms=["mon"])


@pytest.mark.parametrize("blocks", [[], [block("1", fedavg=1)], [block("1", fedavg=1, moon=2)]])
def test_too_little_says_so(blocks):
    table = leaderboard(blocks)[0]
    assert "Nothing can be concluded" in table.ranking.doubt


# ---- from runs


def test_a_failed_seed_puts_an_algorithm_last_in_its_setting():
    records = [
        record(
            name,
            0.1 if (name, partition) == ("fedavg", PARTITIONS[0]) else accuracy,
            seed,
            state,
            partition=partition,
        )
        for partition in PARTITIONS
        for name, accuracy in (("fedavg", 0.5), ("moon", 0.9))
        for seed in (0, 1)
        for state in ("failed" if (name, seed, partition) == ("moon", 1, PARTITIONS[0]) else "finished",)
    ]
    table = overall(records)
    entries = {entry.algorithm: entry for entry in table.entries}
    assert (entries["moon"].mean_rank, entries["moon"].wins, entries["moon"].failed) == (
        pytest.approx(4 / 3),
        2,
        1,
    )
    assert (entries["fedavg"].wins, entries["fedavg"].failed) == (1, 0)
    assert entries["moon"].value == pytest.approx(90.0)  # both, where nobody failed
    assert entries["fedavg"].value == pytest.approx(50.0)


def test_a_finished_run_without_a_number_failed():
    records = [record("fedavg", 0.5), record("moon", None, loss=None, curve=(0.1, None, None))]
    assert {entry.algorithm: entry.failed for entry in overall(records).entries} == {"fedavg": 0, "moon": 1}


def test_a_run_without_test_rows_is_not_ranked():
    untested = record("moon", None, loss=None, curve=(None,), test_rows=0)
    assert {entry.algorithm for entry in overall([record("fedavg"), record("fedprox"), untested]).entries} == {
        "fedavg", "fedprox"
    }  # fmt: skip


def test_a_refused_setting_is_no_failure_of_the_algorithm():
    refused = replace(record("moon", state="failed"), refused=True)
    table = overall([record("fedavg"), record("fedprox"), refused])
    assert {entry.algorithm for entry in table.entries} == {"fedavg", "fedprox"}


def test_unfinished_runs_do_not_count():
    table = overall([record("fedavg"), record("fedprox"), record("moon", state="unfinished")])
    assert {entry.algorithm for entry in table.entries} == {"fedavg", "fedprox"}


def tuned(accuracies, validations):
    """FedProx with two mu in two settings; test and validation accuracies by mu."""
    return [
        each
        for partition in PARTITIONS[:2]
        for mu, accuracy, validation in zip((0.1, 1.0), accuracies, validations, strict=True)
        for each in (record(f"fedprox(mu={mu})", accuracy, partition=partition, validation_accuracy=validation),)
    ] + [record("fedavg", 0.5, partition=partition) for partition in PARTITIONS[:2]]


def test_parameters_are_selected_on_validation_rows_never_on_test():
    table = overall(tuned(accuracies=(0.9, 0.4), validations=(0.6, 0.7)))
    entries = {entry.algorithm: entry.value for entry in table.entries}
    assert entries == {"fedavg": pytest.approx(50.0), "fedprox(1.0)": pytest.approx(40.0)}


def test_without_validation_figures_parametrisations_stand_apart():
    table = overall(tuned(accuracies=(0.9, 0.4), validations=(None, None)))
    assert {entry.algorithm for entry in table.entries} == {"fedavg", "fedprox(0.1)", "fedprox(1.0)"}
    one_known = overall(tuned(accuracies=(0.9, 0.4), validations=(0.6, None)))
    assert len(one_known.entries) == 3


def test_apart_when_asked():
    table = overall(tuned(accuracies=(0.9, 0.4), validations=(0.6, 0.7)), apart=True)
    assert {entry.algorithm for entry in table.entries} == {"fedavg", "fedprox(0.1)", "fedprox(1.0)"}


def test_a_parametrisation_that_failed_is_not_selected():
    records = tuned(accuracies=(0.9, 0.4), validations=(0.6, 0.7))
    failed = [record("fedprox(mu=0.001)", partition=p, state="failed") for p in PARTITIONS[:2]]
    assert {entry.algorithm for entry in overall(records + failed).entries} == {"fedavg", "fedprox(1.0)"}


def test_a_parametrisation_that_failed_on_one_seed_is_not_selected_for_the_other():
    records = [
        record("fedavg", 0.5, seed) for seed in (0, 1)
    ] + [
        record("fedprox(mu=0.1)", 0.4, seed, validation_accuracy=0.3) for seed in (0, 1)
    ] + [
        record("fedprox(mu=1.0)", 0.9, 0, validation_accuracy=0.9),
        record("fedprox(mu=1.0)", seed=1, state="failed"),
    ]  # fmt: skip
    assert {entry.algorithm for entry in overall(records).entries} == {"fedavg", "fedprox(0.1)"}


def test_other_parameters_in_other_settings_are_one_line():
    records = [record("fedavg", partition=p) for p in PARTITIONS[:2]]
    records += [record(f"fedprox(mu={mu})", partition=p) for mu, p in zip((0.1, 1.0), PARTITIONS, strict=False)]
    assert {entry.algorithm for entry in overall(records).entries} == {"fedavg", "fedprox"}


def test_kinds_of_skew_are_measured():
    records = [record(name, partition=p) for name in ("fedavg", "moon") for p in PARTITIONS]
    records += [record(name, partition="iid", degrees=ALIKE) for name in ("fedavg", "moon")]
    records += [record(name, partition="shards(2)", degrees={"odd": 1}) for name in ("fedavg", "moon")]
    tables = leaderboard(run_blocks(settings(records)))
    assert [(t.category, t.ranking.settings) for t in tables] == [
        ("all settings", 5), ("label skew", 3), ("alike", 1), (UNKNOWN, 1),
    ]  # fmt: skip


def test_a_random_split_that_looks_skewed_under_one_of_two_seeds_is_alike():
    records = [
        record(name, seed=seed, partition="iid", degrees=degrees)
        for name in ("fedavg", "moon")
        for seed, degrees in ((1, ALIKE), (2, {**ALIKE, "label": 0.066, "label_expected": 0.0439}))
    ]
    assert [table.category for table in leaderboard(run_blocks(settings(records)))] == ["all settings", "alike"]


def test_costs_and_rounds_to_a_target():
    records = [
        record("fedavg", 0.8, curve=(0.5, 0.8, 0.8)),
        record("moon", 0.9, curve=(0.8, 0.7, 0.9), bytes_up=300, seconds=6.0),
    ]
    entries = {entry.algorithm: entry for entry in overall(records).entries}
    assert (entries["moon"].bytes, entries["moon"].seconds) == (350, 6.0)
    assert (entries["fedavg"].rounds_to_target, entries["moon"].rounds_to_target) == (2, 1)  # FedAvg's own 80 %
    entries = {entry.algorithm: entry for entry in overall(records, target=85.0).entries}
    assert (entries["moon"].rounds_to_target, entries["moon"].reached, entries["fedavg"].reached) == (None, 1, 0)


def test_targets():
    accuracy, rmse, r2 = (scale_of(name) for name in ("accuracy", "rmse", "r2"))
    assert parse_target(None, [accuracy, rmse]) is None
    assert parse_target("fedavg", [accuracy, rmse]) is None
    assert parse_target("80.5", [accuracy, accuracy]) == 80.5
    assert parse_target("101", [rmse]) == 101
    assert parse_target("-0.5", [r2]) == -0.5
    for text, scale in itertools.product(("0", "nan", "high", "inf", ""), (accuracy, rmse)):
        with pytest.raises(UserError, match="--target must be"):
            parse_target(text, [scale])
    with pytest.raises(UserError, match="--target must be accuracy in percent, above 0 and up to 100"):
        parse_target("101", [accuracy])
    with pytest.raises(UserError, match="several scores: accuracy, rmse"):
        parse_target("80", [rmse, accuracy])


def test_settings_are_named_by_what_tells_them_apart():
    records = [record(name, rounds=rounds) for name in ("fedavg", "moon") for rounds in (3, 5)]
    assert overall(records).settings == ("digits, iid, rounds 3", "digits, iid, rounds 5")


# ---- other scores than accuracy


def errors(**by_algorithm):
    """RMSEs on two partitions; an algorithm's error is what is given, and 10 more on the second."""
    return [
        scored("rmse", name, value + 10 * place, partition=partition)
        for place, partition in enumerate(PARTITIONS[:2])
        for name, value in by_algorithm.items()
    ]


def test_the_lowest_error_is_first():
    table = overall(errors(fedavg=53.2, moon=49.0, fedprox=60.0))
    assert [(entry.algorithm, entry.mean_rank, entry.wins) for entry in table.entries] == [
        ("moon", 1, 2),
        ("fedavg", 2, 0),
        ("fedprox", 3, 0),
    ]
    assert (table.score, table.entries[0].value) == ("rmse", pytest.approx(54.0))


def test_who_failed_comes_last_where_less_is_better():
    failed = [scored("rmse", "moon", state="failed", partition=each) for each in PARTITIONS[:2]]
    table = overall([*errors(fedavg=53.2, fedprox=1e9), *failed])
    assert [entry.algorithm for entry in table.entries] == ["fedavg", "fedprox", "moon"]
    assert table.entries[-1].failed == 2


def test_the_lowest_validation_error_selects_parameters():
    records = errors(fedavg=50.0)
    for partition in PARTITIONS[:2]:
        for mu, test, validation in ((0.1, 10.0, 70.0), (1.0, 90.0, 60.0)):
            name = f"fedprox(mu={mu})"
            records.append(scored("rmse", name, test, partition=partition, validation_accuracy=validation))
    assert {entry.algorithm for entry in overall(records).entries} == {"fedavg", "fedprox(1.0)"}


def test_rounds_to_an_error():
    records = [
        scored("rmse", "fedavg", 50.0, curve=(90.0, 50.0, 50.0)),
        scored("rmse", "moon", 45.0, curve=(50.0, 60.0, 45.0)),
    ]
    entries = {entry.algorithm: entry for entry in overall(records).entries}
    assert (entries["fedavg"].rounds_to_target, entries["moon"].rounds_to_target) == (2, 1)
    entries = {entry.algorithm: entry for entry in overall(records, target=48.0).entries}
    assert (entries["moon"].reached, entries["fedavg"].reached) == (1, 0)


def test_settings_of_different_scores_are_ranked_together_but_not_averaged():
    mixed = [*errors(fedavg=53.2, moon=49.0), record("fedavg", 0.7), record("moon", 0.8)]
    table = overall(mixed)
    assert [(entry.algorithm, entry.wins, entry.value) for entry in table.entries] == [
        ("moon", 3, None),
        ("fedavg", 0, None),
    ]
    assert table.score is None


def test_errors_of_different_targets_are_not_averaged_but_accuracies_are():
    for score, common in (("rmse", None), ("auroc", "auroc")):
        records = [
            scored(score, name, 0.5, dataset=data) for name in ("fedavg", "moon") for data in ("heart", "wine")
        ]
        assert overall(records).score == common


def test_runs_of_two_scores_of_one_split_are_two_settings():
    records = [scored(score, name, 0.5) for score in ("auroc", "accuracy") for name in ("fedavg", "moon")]
    assert overall(records).settings == ("digits, iid, score accuracy", "digits, iid, score auroc")
