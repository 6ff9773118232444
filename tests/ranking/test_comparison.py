import pytest

from tests.studies.made_up import record, scored
from unalike.ranking.comparison import Compared, compare
from unalike.ranking.published import Cell
from unalike.runs.results import Spread, settings


def one(records, table="niid-bench-table3", **options):
    (found,) = compare(settings(records), table, **options)
    return found


def test_beside_the_papers_cell():
    """Table 3: mnist, Dir(0.5), FedProx 98.9 with 0.1."""
    runs = [record("fedprox(mu=0.1)", value, seed, dataset="mnist", partition="label-dirichlet(beta=0.5)")
            for seed, value in enumerate((0.98, 0.99))]  # fmt: skip
    found = one(runs)
    assert (found.dataset, found.partition, found.algorithm) == ("mnist", "label-dirichlet(0.5)", "fedprox(0.1)")
    assert found.ours == (pytest.approx(98.5), pytest.approx(0.7071, abs=1e-3), 2)
    assert (found.paper.mean, found.paper.std) == (98.9, 0.1)
    assert found.difference == pytest.approx(-0.4)
    assert found.within is False


@pytest.mark.parametrize(
    ("ours", "std", "within"),
    [(99.2, 0.1, True), (98.8, 0.0, True), (99.3, 0.1, False), (99.3, 0.2, True), (98.5, 0.2, False)],
)
def test_within_two_deviations_of_a_rounded_table(ours, std, within):
    cell = Cell("mnist", "iid", "fedavg", 99.0, std)
    assert Compared("mnist", "iid", "fedavg", Spread(ours, 0.0, 3), cell).within is within
    assert Compared("mnist", "iid", "fedavg", Spread(ours, 0.0, 3), cell, judged=False).within is None


def test_a_table_is_taken_at_its_own_rounding():
    """rFedAvg's tables have two digits: a deviation of 0.04 is one, and 0.1 points are more than two of them."""
    runs = [record(accuracy=value, dataset="mnist", partition="similarity(10)") for value in (0.9895, 0.989)]
    far, near = (one([each], "rfedavg-tables1-2", setting="cross-silo") for each in runs)
    assert str(far.paper) == "98.85±0.04"
    assert (far.within, near.within) == (False, True)


def test_without_one_of_the_two():
    found = one([record(dataset="digits")])
    assert (found.paper, found.difference, found.within) == (None, None, None)
    found = one([record(dataset="mnist", state="failed")])
    assert found.ours is None
    assert found.paper is not None
    assert (found.difference, found.within) == (None, None)
    assert one([record(dataset="mnist")], None).paper is None


def test_a_data_set_read_in_another_way_is_the_papers_data_set():
    runs = [record(accuracy=0.97, dataset="mnist(pixels=standardised)", partition="similarity(0)")]
    found = one(runs, "rfedavg-tables1-2", setting="cross-silo")
    assert (found.dataset, found.paper.mean) == ("mnist(standardised)", 97.07)
    assert one([record(dataset="mnistery(pixels=standardised)", partition="iid")]).paper is None


@pytest.mark.parametrize(
    ("dataset", "partition", "paper"),
    [("fcube(seed=0)", "fcube", 99.8), ("femnist", "natural(minimum=0)", 99.4)],
)
def test_partitions_that_the_paper_names_otherwise(dataset, partition, paper):
    assert one([record(dataset=dataset, partition=partition)]).paper.mean == paper


def test_settings_of_a_table_and_notes():
    runs = [record("rfedavg+(0.0001)", dataset="mnist", partition="similarity(0)")]
    found = one(runs, "rfedavg-tables1-2", setting="cross-silo",
                notes={("mnist", "similarity(0.0)", "rfedavg+"): "why"})  # fmt: skip
    assert found.paper is not None
    assert found.note == "why"
    assert one(runs, "rfedavg-tables1-2").paper is None  # the table has no such setting


def test_a_papers_accuracy_stands_beside_no_other_score():
    found = one([scored("auroc", value=0.99, dataset="mnist")])
    assert (found.ours.mean, found.paper, found.within) == (0.99, None, None)
