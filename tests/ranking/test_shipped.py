import csv
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

from tests.ranking.test_advice import SITUATIONS
from unalike.algorithms import ALGORITHMS
from unalike.errors import UserError
from unalike.ranking.advice import recommend
from unalike.ranking.blocks import Block, Trial, comparisons
from unalike.ranking.published import OURS, published
from unalike.ranking.shipped import PUBLISHED, SHIPPED, blocks_of, evidence, gaps, our_blocks
from unalike.ranking.splits import PAPER
from unalike.ranking.tree import grow
from unalike.runs.results import brief

RUNS = Path(__file__).parents[2] / "docs" / "results" / "niid-table3.csv"


def test_ours_are_the_runs_of_the_results_page():
    """Every final run of docs/results/niid-table3.csv is there once, with its accuracy."""
    with RUNS.open(encoding="utf-8") as file:
        final = [row for row in csv.DictReader(file) if float(row["validation"]) == 0 and row["rounds"] == "50"]
    runs = Counter(
        (
            brief(ALGORITHMS, row["algorithm"]),
            row["dataset"].split("(")[0],
            row["seed"],
            f"{100 * float(row['accuracy']):.2f}",
        )
        for row in final
    )
    shipped = Counter(
        (trial.text, block.dataset, str(seed), f"{trial.value:.2f}")
        for block in our_blocks()
        for trials in block.trials.values()
        for seed, trial in trials.items()
    )
    assert shipped == runs
    assert max(shipped.values()) < 4


def test_ours_are_cells_of_the_published_table():
    cells = {f"{cell.dataset}, {cell.partition}" for cell in published(PUBLISHED)}
    kinds = {block.name: block.kind for block in blocks_of(PUBLISHED)}
    assert our_blocks()
    for block in our_blocks():
        assert block.name in cells
        assert block.kind == kinds[block.name]
        assert "fedavg" in block.trials


def test_no_algorithm_text_is_unknown():
    for block in our_blocks():
        for trials in block.trials.values():
            assert all(ALGORITHMS.build(trial.text) for trial in trials.values())


def made(table, name="a", **values):
    trials = {
        algorithm: {
            seed: Trial(value, algorithm, seeds=3 if table == PUBLISHED else 1) for seed, value in enumerate(found)
        }
        for algorithm, found in values.items()
    }
    return Block(name, "label skew", trials, table=table)


def test_a_setting_of_two_tables_counts_once_with_the_mean_over_all_seeds():
    theirs = made(PUBLISHED, fedavg=[80.0], scaffold=[76.0])  # -4 over three seeds
    ours = made(OURS, fedavg=[80.0, 82.0], scaffold=[88.0, 88.0])  # +8 and +6
    assert comparisons([theirs, ours]) == [pytest.approx({"scaffold": (3 * -4 + 8 + 6) / 5})]
    assert comparisons([ours]) == [pytest.approx({"scaffold": 7.0})]
    assert len(comparisons([theirs, made(OURS, "b", fedavg=[1.0], scaffold=[2.0])])) == 2


def test_settings_of_ones_own_runs_are_never_taken_for_one():
    own = Block("a", "label skew", {"fedavg": {0: Trial(1.0, "fedavg")}, "moon": {0: Trial(2.0, "moon")}})
    assert len(comparisons([own, own])) == 2


def test_a_failed_run_of_ours_counts_as_nothing_right():
    assert comparisons([made(OURS, fedavg=[80.0], scaffold=[None])]) == [pytest.approx({"scaffold": -80.0})]


def test_each_source_alone_and_both_together():
    """Together there are as many settings as the union has; alone as many as each."""
    for kind in PAPER:
        names = {table: {b.name for b in blocks_of(table) if b.kind == kind} for table in (PUBLISHED, OURS)}
        for tables in ((PUBLISHED,), (OURS,), (PUBLISHED, OURS)):
            fedprox = next(one for one in evidence(kind, tables) if one.algorithm == "fedprox")
            assert fedprox.comparisons == len(set.union(*(names[table] for table in tables)))


def test_gaps_are_all_cells_whose_gains_are_far_apart():
    """Worked out anew from the two files, without the blocks."""
    text = (resources.files("unalike.ranking") / "tables" / f"{OURS}.csv").read_text(encoding="utf-8")
    ours = {(r["dataset"], r["partition"], r["algorithm"].split("(")[0], r["seed"]): float(r["accuracy"])
            for r in csv.DictReader(text.splitlines())}  # fmt: skip
    theirs = {(c.dataset, c.partition, c.algorithm): c.mean for c in published(PUBLISHED)}
    expected = {}
    for dataset, partition, name in {place[:3] for place in ours}:
        seeds = [s for d, p, n, s in ours if (d, p, n) == (dataset, partition, name)]
        pairs = [
            ours[dataset, partition, name, s] - ours[dataset, partition, "fedavg", s]
            for s in seeds
            if (dataset, partition, "fedavg", s) in ours
        ]
        if name != "fedavg" and (dataset, partition, name) in theirs:
            published_gain = theirs[dataset, partition, name] - theirs[dataset, partition, "fedavg"]
            mean = sum(pairs) / len(pairs)
            if abs(mean - published_gain) > 5:
                expected[f"{dataset}, {partition}", name] = (pytest.approx(mean), pytest.approx(published_gain))
    found = {(gap.setting, gap.algorithm): (gap.ours, gap.published) for kind in PAPER for gap in gaps(kind)}
    assert found == expected
    assert found["covtype, quantity-dirichlet(0.5)", "scaffold"] == (
        pytest.approx(0.1, abs=0.1),
        pytest.approx(-24.9),
    )


def test_the_tree_and_the_advice_agree_on_the_same_evidence():
    leaves = {
        leaf.kind: leaf for leaf in grow([block for table in (PUBLISHED, OURS) for block in blocks_of(table)])
    }
    for kind, situation in SITUATIONS.items():
        advice = recommend(situation)
        assert leaves[kind].best == advice.ranking[0]
        assert leaves[kind].nearest is None or leaves[kind].nearest in advice.ranking


def test_unknown_tables_are_answered_with_the_nearest():
    with pytest.raises(UserError, match="unalike-table3"):
        blocks_of("unalike-table4")
    assert all(blocks_of(table) for table in SHIPPED)
