"""What holds for every split: no row lost or doubled, no party empty, repeatable, and errors of one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import PARTITIONS, Partition, make_partition

Make = Callable[..., Dataset]
RANDOM = [
    "label-count(1)",
    "label-count(3)",
    "label-dirichlet(0.05, balanced=true)",
    "label-dirichlet(5, balanced=true)",
    "shards",
    "shards(1)",
    "similarity(0)",
    "similarity(35.5)",
    "similarity(100)",
    "quantity-dirichlet(0.1)",
    "quantity-dirichlet(10, minimum=1)",
    "quantity-power",
    "quantity-power(3, minimum=2)",
    "temporal",
    "temporal(drift)",
    "temporal(drift, 2, by='0')",
    "natural",
]
FIXED = ["temporal(by=row)", "by('0')"]


def grouped(made: Make, rows: int, classes: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    groups = max(1, rows // 3)
    group = np.append(np.arange(groups), rng.integers(0, groups, rows - groups))  # none is empty
    return made(rng.integers(0, classes, rows), classes, group, groups)


def check(partition: Partition, dataset: Dataset, parties: int) -> None:
    assert partition.parties == parties == len(set(partition.names))
    assert sorted(np.concatenate(partition.rows)) == list(range(dataset.size))
    assert all(len(rows) and (np.diff(rows) > 0).all() for rows in partition.rows)
    if partition.seasons is not None:
        assert [len(part) for part in partition.seasons] == [len(rows) for rows in partition.rows]


@settings(max_examples=300, deadline=None)
@given(
    rule=st.sampled_from(RANDOM + FIXED),
    rows=st.integers(1, 250),
    classes=st.integers(1, 8),
    seed=st.integers(0, 2**40),
    data=st.data(),
)
def test_every_row_has_one_party_or_the_request_is_refused(
    made: Make, rule: str, rows: int, classes: int, seed: int, data: st.DataObject
) -> None:
    parties = data.draw(st.integers(1, rows))
    dataset = grouped(made, rows, classes, seed)
    try:
        partition = make_partition(rule, dataset, parties, seed)
    except UserError:  # an impossible request, which only these can be
        assert rule.startswith(("label-count", "shards", "temporal(drift", "natural"))
        return
    check(partition, dataset, parties)
    again = make_partition(partition.recipe, dataset, parties, seed)
    assert all(np.array_equal(a, b) for a, b in zip(partition.rows, again.rows, strict=True))


@pytest.mark.parametrize("rule", RANDOM)
def test_same_seed_same_rows_other_seed_other_rows(made: Make, rule: str) -> None:
    dataset = grouped(made, 400, 5, 0)
    first, again, other = (make_partition(rule, dataset, 7, seed) for seed in (3, 3, 4))
    for a, b in zip(first.rows, again.rows, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(first.seasons or (), again.seasons or (), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not all(np.array_equal(a, b) for a, b in zip(first.rows, other.rows, strict=True))


@pytest.mark.parametrize("rule", RANDOM + FIXED)
def test_the_data_stay_as_they_are(made: Make, rule: str) -> None:
    dataset = grouped(made, 100, 4, 0)
    assert dataset.group is not None
    for values in (dataset.x, dataset.y, dataset.group):
        values.setflags(write=False)
    check(make_partition(rule, dataset, 5, 0), dataset, 5)


def test_labels_without_training_rows(made: Make) -> None:
    dataset = made(np.repeat([1, 4], 50), 7)
    rules = ("label-count(2)", "label-dirichlet(0.5, balanced=true)", "shards", "similarity(5)", "temporal(drift)")
    for rule in rules:
        check(make_partition(rule, dataset, 5, 0), dataset, 5)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("label-count(0)", r"label-count's k must be >= 1, got 0\. Use 2\."),
        ("label-count(6)", r"label-count's k must be at most the 5 labels of made, got 6\. Use 5\."),
        (
            "label-count(1)",
            r"4 parties of 1 label\(s\) leave some of the 5 labels of made to nobody\. Use k=2 or 5",
        ),
        ("label-dirichlet(0, balanced=true)", r"label-dirichlet's beta must be > 0, got 0\.0\."),
        ("shards(0)", r"shards' n must be >= 1, got 0\. Use 2\."),
        ("shards(30)", r"4 parties of 30 shards need 120 rows, but made has 100\. Use shards\(25\)"),
        ("similarity(-1)", r"similarity's s must be from 0 to 100 \(percent\), got -1\.0\."),
        ("similarity(100.5)", r"similarity's s must be from 0 to 100"),
        ("similarity", r"similarity needs s\."),
        ("quantity-dirichlet(-2)", r"quantity-dirichlet's beta must be > 0, got -2\.0\."),
        ("quantity-dirichlet(1, 0)", r"quantity-dirichlet's minimum must be >= 1, got 0\."),
        ("quantity-power(-1)", r"quantity-power's exponent must be >= 0, got -1\.0\. Use 1\."),
        ("quantity-power(1, 0)", r"quantity-power's minimum must be >= 1, got 0\."),
        ("natural(-1)", r"natural's minimum must be >= 0, got -1\."),
        ("natural(1000)", r"made has no natural party of 1000 rows\. Use a smaller minimum\."),
        ("temporal(often)", r"temporal's kind must be one of party, drift, got 'often'\."),
        ("temporal(drift, 1)", r"temporal's seasons must be >= 2, got 1\. Use 4\."),
        ("temporal(drift, every=0)", r"temporal's every must be >= 1 round, got 0\. Use 10\."),
        ("temporal(drift, 26)", r"4 parties in 26 seasons need 104 rows, but made has 100\."),
        ("temporal(by=hour)", r"made has columns 0 to 0, got 'hour'\. Use one of them\."),
        ("by('1')", r"made has columns 0 to 0, got '1'\."),
        ("fcube", r"fcube needs at least 3 columns, but made has 1\. Use by\(column\)\."),
    ],
)
def test_wrong_values_and_impossible_requests(made: Make, rule: str, message: str) -> None:
    dataset = replace(grouped(made, 100, 5, 0), y=np.arange(100) % 5)
    with pytest.raises(UserError, match=f"^{message}") as raised:
        make_partition(rule, dataset, 4, 0)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("rule", [*RANDOM, *FIXED])
@pytest.mark.parametrize("parties", [0, -1, 101])
def test_wrong_number_of_parties(made: Make, rule: str, parties: int) -> None:
    with pytest.raises(UserError, match=f"(must be >= 1, got {parties}|{parties} parties are more than)"):
        make_partition(rule, grouped(made, 100, 5, 0), parties, 0)


def test_ten_parties_unless_told(made: Make) -> None:
    dataset = grouped(made, 400, 5, 0)
    for rule in [*RANDOM, *FIXED]:
        if rule != "natural":
            assert make_partition(rule, dataset, None, 0).parties == 10


def test_real_data() -> None:
    digits = load_dataset("digits")
    for rule in ("label-count(2)", "shards", "similarity(10)", "quantity-power", "temporal(drift)"):
        check(make_partition(rule, digits, 10, 0), digits, 10)


def test_listing() -> None:
    listed = {entry.name: entry for entry in PARTITIONS}
    named = {"by", "fcube", "file", "label-count", "like", "natural", "quantity-dirichlet", "quantity-power"}
    for name in named | {"shards", "similarity", "temporal"}:
        assert 40 < len(listed[name].summary) < 115, name
        assert listed[name].summary.endswith(".")
