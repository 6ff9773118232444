"""Advice for parties that each use a model of their own: from which evidence, against what, and how it is said."""

import json

import pytest

from unalike.algorithms import ALGORITHMS
from unalike.measure.situation import Situation
from unalike.partition import PARTITIONS
from unalike.ranking.advice import ENOUGH
from unalike.ranking.blocks import KINDS, Block, Trial
from unalike.ranking.evidence import advise, own_blocks
from unalike.ranking.own_models import SIMPLE, best_simple, recommend_own, shipped, shipped_blocks

ALIKE = Situation(0.01, 0.01, 0.02, 0.0, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01)
DIFFER = Situation(0.01, 0.01, 0.02, 0.0, 0.01, 0.01, 0.3, 0.01, 0.01, 0.01)
UNCLEAR = Situation(0.3, 0.01, 0.02, 0.0, 0.2, 0.01, 0.3, 0.01, 0.2, 0.01)
BLIND = Situation(0.3, 0.01, 0.02, 0.0)


def blocks(count=6, **values):
    """Settings in which each algorithm has its value, a little more in each."""
    names = {"local": 80.0, "fedavg": 70.0, "fedavg-tuned": 75.0, **values}
    return [
        Block(str(k), "label skew", {name: {0: Trial(value + k, name, worst_tenth=value - 10)}
              for name, value in names.items()}, dataset="digits")
        for k in range(count)
    ]  # fmt: skip


def test_the_best_of_the_simple_ways_is_what_has_to_be_beaten():
    assert best_simple(blocks()) == "local"
    assert best_simple(blocks(fedavg=99.0)) == "fedavg"
    assert best_simple(blocks(local=75.0)) == "local"  # of equals, the simplest
    assert best_simple(blocks(ENOUGH - 1)) is None
    assert best_simple([]) is None


def test_who_is_better_by_more_than_chance_goes_first():
    advice = recommend_own(ALIKE, blocks(ditto=85.0, fedrep=79.0, pooled=99.0))
    assert [one.algorithm for one in advice.ranking][:2] == ["ditto", "local"]
    assert "pooled" not in {one.algorithm for one in advice.ranking}
    assert (advice.reference, advice.own_models) == ("local", True)
    assert "ditto was better than training alone in 6 and worse in 0 of 6 settings, by +5.0" in advice.reasons[2]
    assert "worst tenth of its parties had 75.0 %" in advice.reasons[3]
    assert "your own runs" in advice.source
    assert advice.options == {"algorithm": "ditto"}


def test_where_nobody_is_the_simple_way_is_recommended():
    advice = recommend_own(ALIKE, blocks(ditto=79.0))
    assert advice.algorithm == "local"
    assert "training alone is as good, and simpler" in advice.reasons[2]
    assert "Next, ditto was better than training alone in 0 and worse in 6" in advice.reasons[3]


def test_tuning_is_an_option_of_the_run():
    advice = recommend_own(ALIKE, blocks(**{"fedprox, tuned": 90.0}))
    assert advice.options == {"algorithm": "fedprox", "fine-tune": "1"}
    json.dumps(advice.to_dict())


def test_says_what_parties_want_as_far_as_that_is_known():
    assert "no single model can be right for all" in recommend_own(DIFFER).reasons[0]
    assert "cannot be told" in recommend_own(UNCLEAR).reasons[0]
    assert "they are alike" in recommend_own(ALIKE).reasons[0]
    blind = recommend_own(BLIND)
    assert "was not measured" in blind.reasons[0]
    assert any("matters more" in doubt for doubt in blind.doubts)


def test_without_evidence_it_says_so():
    for advice in (recommend_own(ALIKE, [], "regression"), recommend_own(ALIKE, blocks(2), "regression")):
        assert (advice.algorithm, advice.confidence, advice.source) == ("fedavg", "low", "no comparisons")
        assert "not known" in advice.reasons[1]
    assert any("you have 2" in doubt for doubt in recommend_own(ALIKE, blocks(2)).doubts)


def test_models_of_ones_own_are_for_own_rows_and_for_other_wishes(tmp_path):
    assert not advise(ALIKE, tmp_path, "classification").own_models
    assert advise(ALIKE, tmp_path, "classification", own_rows=True).own_models
    assert advise(DIFFER, tmp_path, "classification").own_models
    assert not advise(UNCLEAR, tmp_path, "classification").own_models
    assert own_blocks(tmp_path, ALIKE) == []


def test_the_table_is_whole_and_of_this_package():
    rows = list(shipped())
    for row in rows:
        ALGORITHMS.build(row.algorithm)
        PARTITIONS.build(row.partition)
        assert row.kind in KINDS
        assert row.wishes in ("alike", "differ", "unclear")
        assert 0 <= row.worst_tenth <= row.mean <= 100
    places = {(row.dataset, row.partition, row.parties) for row in rows}
    for place in places:
        names = [row.algorithm for row in rows if (row.dataset, row.partition, row.parties) == place]
        assert {name.split("(")[0] for name in names} >= set(SIMPLE)  # the simple ways are beside all others
        assert len({name.split("(")[0] for name in names}) == len(names)


@pytest.mark.parametrize(("kind", "situation"), [(None, DIFFER), ("label skew", UNCLEAR), ("alike", ALIKE)])
def test_the_table_has_enough_of_what_it_was_made_for(kind, situation):
    found = shipped_blocks(kind)
    assert len(found) >= ENOUGH
    advice = recommend_own(situation)
    assert "made with this package" in advice.source
    assert any(f"{len(found)} settings of" in doubt for doubt in advice.doubts)
    assert len(advice.ranking) > 5
