import pytest

from unalike.errors import UserError
from unalike.partition import PARTITIONS
from unalike.ranking.published import TABLES, published


@pytest.mark.parametrize("table", TABLES)
def test_cells_are_complete_and_in_range(table):
    cells = list(published(table))
    assert len(cells) > 90
    assert all(0 < cell.mean <= 100 and 0 <= cell.std < 50 for cell in cells)
    assert len({(c.setting, c.dataset, c.partition, c.algorithm) for c in cells}) == len(cells)


def test_numbers_read_from_the_papers():
    """Typed in from the papers by hand."""
    niid = {(c.dataset, c.partition, c.algorithm): (c.mean, c.std) for c in published("niid-bench-table3")}
    assert niid["mnist", "label-count(1)", "fedprox"] == (40.9, 23.1)
    assert niid["cifar10", "quantity-dirichlet(0.5)", "fedavg"] == (72.0, 0.3)
    silo = {(c.setting, c.dataset, c.partition, c.algorithm): str(c) for c in published("rfedavg-tables1-2")}
    assert silo["cross-silo", "mnist", "similarity(0)", "rfedavg+"] == "98.02±0.03"
    assert silo["cross-device", "cifar10", "similarity(10)", "rfedavg"] == "55.08±0.33"


def test_partitions_are_ours_by_name():
    """Except for three that are a data set's own."""
    for table in TABLES:
        for cell in published(table):
            if cell.partition not in ("by-writer", "by-user", "synthetic"):
                PARTITIONS.build(cell.partition)
    with pytest.raises(UserError):
        PARTITIONS.build("by-writer")
