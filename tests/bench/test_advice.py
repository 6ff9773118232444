import json

import pytest

from unalike.algorithms import ALGORITHMS
from unalike.bench.advice import ENOUGH, recommend
from unalike.measure.situation import Situation

SITUATIONS = {
    "one label each": Situation(0.9, 0.01, 0.0, 1.0, 0.3, 0.01),
    "label skew": Situation(0.5, 0.01, 0.3, 0.1),
    "feature skew": Situation(0.01, 0.01, 0.0, 0.0, 0.2, 0.01),
    "quantity skew": Situation(0.01, 0.01, 0.5, 0.0, 0.01, 0.01),
    "alike": Situation(0.01, 0.01, 0.02, 0.0, 0.01, 0.01),
}


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("one label each", "fedprox"),
        ("label skew", "fedprox"),
        ("feature skew", "scaffold"),
        ("quantity skew", "fedprox"),
        ("alike", "fedavg"),
    ],
)
def test_follows_the_papers_tree(kind, first):
    """NIID-Bench, figure 6."""
    advice = recommend(SITUATIONS[kind])
    assert advice.kind == kind
    assert advice.ranking[0].algorithm == first
    assert ALGORITHMS.build(advice.algorithm)  # as `--algorithm` takes it
    assert {one.algorithm for one in advice.ranking} == {"fedavg", "fedprox", "scaffold", "fednova"}
    assert "Table 3" in advice.source


def test_is_only_as_sure_as_the_table():
    """FedProx is far ahead with one label each, and no better than FedAvg in most other label skew."""
    one, other = recommend(SITUATIONS["one label each"]), recommend(SITUATIONS["label skew"])
    assert one.ranking[0].median_gain == pytest.approx(8.5, abs=0.1)
    assert one.confidence == "medium"
    assert other.confidence == "low"
    assert any("fedavg" in doubt for doubt in other.doubts)


def test_own_runs_outweigh_the_paper_once_there_are_enough():
    own = [{"fedavg": 80.0 + k, "scaffold": 85.0 + k, "fedprox(0.1)": 79.0} for k in range(ENOUGH)]
    few, enough = recommend(SITUATIONS["label skew"], own[:-1]), recommend(SITUATIONS["label skew"], own)
    assert few.ranking[0].algorithm == "fedprox"
    assert enough.algorithm == "scaffold"
    assert "your own" in enough.source
    assert any("paper" in doubt and "fedprox" in doubt for doubt in enough.doubts)
    assert ALGORITHMS.build(enough.ranking[-1].algorithm)


def test_one_algorithm_alone_is_no_evidence():
    assert "Table 3" in recommend(SITUATIONS["alike"], [{"fedavg": 1.0}] * 5).source


def test_says_what_it_did_not_see():
    blind = recommend(Situation(0.01, 0.01, 0.02, 0.0))
    assert any("Features were not measured" in doubt for doubt in blind.doubts)


def test_ready_for_json():
    made = json.loads(json.dumps(recommend(SITUATIONS["one label each"]).to_dict()))
    assert made["algorithm"] == made["ranking"][0]["algorithm"] == "fedprox(mu=0.01)"
    assert made["kind"] == "one label each"
    assert made["situation"]["label"] == 0.9
