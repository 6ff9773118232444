from dataclasses import replace

import pytest

from unalike.ranking.advice import ENOUGH
from unalike.ranking.blocks import Block, Trial, published_blocks
from unalike.ranking.tree import grow


def blocks(count, kind="label skew", fedavg=80.0, **others):
    values = {"fedavg": fedavg, **others}
    scores = {name: {0: Trial(value, name)} for name, value in values.items()}
    return [Block(f"{kind} {i}", kind, scores) for i in range(count)]


def leaf(found, kind="label skew"):
    return next(one for one in grow(found) if one.kind == kind)


def test_a_leaf_for_each_kind_with_the_papers_choice():
    leaves = {one.kind: one for one in grow([])}
    assert {kind: one.paper for kind, one in leaves.items()} == {
        "one label each": "fedprox", "label skew": "fedprox", "feature skew": "scaffold",
        "quantity skew": "fedprox", "alike": "fedavg",
    }  # fmt: skip
    assert {one.evidence for one in leaves.values()} == {"none"}
    standing = leaves["one label each"].paper_standing
    assert (standing.better, standing.worse, standing.comparisons) == (5, 1, 7)
    assert standing.median_gain == pytest.approx(8.5)


def test_too_little_evidence_leads_nowhere():
    found = leaf(blocks(ENOUGH - 1, moon=90.0))
    assert (found.evidence, found.comparisons, found.best) == ("few", ENOUGH - 1, None)


def test_who_stands_best():
    found = leaf(blocks(ENOUGH, moon=90.0, fednova=70.0))
    assert found.evidence == "enough"
    assert (found.best.algorithm, found.best.median_gain, found.nearest) == ("moon", 10.0, None)


def test_one_comparison_does_not_lead():
    found = leaf(blocks(ENOUGH, moon=81.0) + blocks(1, scaffold=99.0))
    assert found.best.algorithm == "moon"


def test_where_fedavg_leads_the_next_is_named():
    found = leaf(blocks(ENOUGH, moon=70.0, scaffold=80.0))
    assert (found.best.algorithm, found.nearest.algorithm) == ("fedavg", "scaffold")


def test_a_failed_run_counts_as_nothing_right():
    found = leaf(blocks(ENOUGH, moon=None))
    assert found.nearest.worst_gain == -80.0


def test_other_kinds_and_settings_without_fedavg_are_no_evidence():
    stray = [Block("x", "label skew", {"moon": {0: Trial(90.0, "moon")}})] * 5
    other_seed = [
        Block("y", "label skew", {"fedavg": {0: Trial(1.0, "fedavg")}, "moon": {1: Trial(9.0, "moon")}})
    ] * 5
    assert leaf(blocks(5, kind="alike", moon=90.0) + stray + other_seed).evidence == "none"


def test_the_papers_table_grows_its_own_tree():
    leaves = {one.kind: one for one in grow(published_blocks("niid-bench-table3"))}
    assert leaves["one label each"].best.algorithm == "fedprox"
    for kind in ("label skew", "feature skew", "quantity skew", "alike"):  # the table is not as clear as the tree
        assert leaves[kind].best.algorithm == "fedavg"


def test_a_lower_error_is_a_gain_in_percent_of_fedavgs():
    found = leaf([replace(each, score="rmse") for each in blocks(ENOUGH, fedavg=50.0, moon=45.0, scaffold=None)])
    assert (found.best.algorithm, found.best.median_gain) == ("moon", pytest.approx(10.0))
    assert (found.best.better, found.best.worse) == (ENOUGH, 0)
