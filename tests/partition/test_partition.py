"""What holds for every rule: no row lost, none twice, no party empty; the same seed gives the same rows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.data import Dataset, load_dataset
from unalike.errors import UserError
from unalike.partition import PARTITIONS, Partition, make_partition, save_partition

Make = Callable[..., Dataset]
RULES = ["iid", "label-dirichlet(0.1)", "label-dirichlet(100, minimum=1)"]


def random_dataset(made: Make, rows: int, classes: int, seed: int) -> Dataset:
    return made(np.random.default_rng(seed).integers(0, classes, rows), classes)


@given(
    rule=st.sampled_from(RULES),
    rows=st.integers(1, 300),
    classes=st.integers(1, 12),
    seed=st.integers(0, 2**40),
    data=st.data(),
)
def test_every_row_has_one_party(
    made: Make, rule: str, rows: int, classes: int, seed: int, data: st.DataObject
) -> None:
    parties = data.draw(st.integers(1, rows))
    dataset = random_dataset(made, rows, classes, seed)
    partition = make_partition(rule, dataset, parties, seed)
    assert partition.parties == parties == len(partition.names) == len(set(partition.names))
    assert sorted(np.concatenate(partition.rows)) == list(range(rows))
    assert all(len(party) > 0 for party in partition.rows)
    assert all((np.diff(party) > 0).all() for party in partition.rows)
    counts = partition.label_counts(dataset)
    np.testing.assert_array_equal(counts.sum(axis=0), np.bincount(dataset.y, minlength=classes))
    np.testing.assert_array_equal(counts.sum(axis=1), [len(party) for party in partition.rows])


@settings(max_examples=20)
@given(rule=st.sampled_from(RULES), seed=st.integers(0, 2**40))
def test_same_seed_same_rows_other_seed_other_rows(made: Make, rule: str, seed: int) -> None:
    dataset = random_dataset(made, 400, 5, 0)
    np.random.seed(seed % 1000)  # noqa: NPY002 - global state must not matter
    first, again, other = (make_partition(rule, dataset, 7, s).rows for s in (seed, seed, seed + 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_same_rows_in_another_process() -> None:
    program = (
        "from unalike.data import load_dataset; from unalike.partition import make_partition\n"
        "print([r.tolist() for r in make_partition('label-dirichlet(0.3)', load_dataset('heart'), 5, 3).rows])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": "77"},
    ).stdout
    here = make_partition("label-dirichlet(0.3)", load_dataset("heart"), 5, 3)
    assert printed.strip() == str([rows.tolist() for rows in here.rows])


def test_recipe_makes_the_same_partition(made: Make) -> None:
    dataset = random_dataset(made, 200, 4, 0)
    first = make_partition("label-dirichlet(.5)", dataset, 4, 1)
    assert first.recipe == "label-dirichlet(beta=0.5, minimum=10, balanced=false)"
    again = make_partition(first.recipe, dataset, 4, 1)
    assert all(np.array_equal(a, b) for a, b in zip(first.rows, again.rows, strict=True))


def test_ten_parties_unless_told(made: Make) -> None:
    dataset = random_dataset(made, 200, 4, 0)
    assert make_partition("iid", dataset, None, 0).parties == 10
    assert make_partition("label-dirichlet(1)", dataset, None, 0).parties == 10


@pytest.mark.parametrize("rule", RULES)
def test_wrong_number_of_parties(made: Make, rule: str) -> None:
    dataset = random_dataset(made, 5, 2, 0)
    message = r"^The number of parties must be >= 1, got {}\. Use 10\.$"
    for wrong in (0, -3):
        with pytest.raises(UserError, match=message.format(wrong)):
            make_partition(rule, dataset, wrong, 0)
    with pytest.raises(
        UserError, match=r"^6 parties are more than the 5 training rows of made\. Use at most 5\.$"
    ):
        make_partition(rule, dataset, 6, 0)


def test_negative_seed_and_unknown_rule(made: Make) -> None:
    dataset = random_dataset(made, 50, 2, 0)
    with pytest.raises(UserError, match="The seed must be >= 0, got -1"):
        make_partition("iid", dataset, 2, -1)
    with pytest.raises(UserError, match="Did you mean 'label-dirichlet'"):
        make_partition("label-dirichle(1)", dataset, 2, 0)


@pytest.fixture
def broken() -> Iterator[type]:
    @PARTITIONS.register("broken-for-tests")
    class Broken:
        """A rule with a fault."""

        fault: str

        def split(self, dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Partition:
            rows: dict[str, list[list[int]]] = {
                "lost": [[0, 1], [2]],
                "twice": [[0, 1], [1, 2, 3]],
                "empty": [[0, 1, 2, 3], []],
                "beyond": [[0, 1, 2, 3], [4]],
                "below": [[0, 1, 2], [-1]],
            }
            return Partition("broken", tuple(np.array(r, int) for r in rows[self.fault]), ("a", "b"))

    yield Broken
    del PARTITIONS._entries["broken-for-tests"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("lost", "gives row 3 to 0 parties"),
        ("twice", "gives row 1 to 2 parties"),
        ("empty", "leaves 'b' without rows"),
        ("beyond", "names rows 0 to 4, but made has 4"),
        ("below", "names rows -1 to 2, but made has 4"),
    ],
)
def test_a_faulty_rule_is_refused(made: Make, broken: Any, fault: str, message: str) -> None:
    with pytest.raises(UserError, match=f"The partition broken {message}"):
        make_partition(f"broken-for-tests({fault})", made(np.array([0, 1, 0, 1]), 2), 2, 0)


def test_listing() -> None:
    assert {"iid", "label-dirichlet", "natural"} <= {entry.name for entry in PARTITIONS}
    ours = [entry for entry in PARTITIONS if entry.cls.__module__.startswith("unalike.")]
    assert all(len(entry.summary) > 20 for entry in ours)


def test_rows_from_elsewhere_make_a_partition(tmp_path: Path) -> None:
    heart = load_dataset("heart")
    partition = Partition.from_indices([[5, 1, 3], np.array([2, 5])], names=("a", "b"))
    assert ([rows.tolist() for rows in partition.rows], partition.names) == ([[1, 3, 5], [2, 5]], ("a", "b"))
    assert partition.shares_rows
    assert Partition.from_indices([[0], range(1, 9)]).names == ("party 0", "party 1")
    save_partition(tmp_path / "p.npz", partition, heart, 0)
    again = make_partition(f"file:{tmp_path}/p.npz", heart, None, 0)
    assert all(map(np.array_equal, partition.rows, again.rows))


@pytest.mark.parametrize("indices", [[], [[]], [[0.5]], [[-1]], [[1, 1]], [[[1]]], [["a"]]])
def test_what_are_no_rows_are_refused(indices: Any) -> None:
    with pytest.raises(UserError, match=r"rows must be whole numbers|has a row twice|Give each a name"):
        Partition.from_indices(indices)


def test_every_party_needs_a_name_of_its_own() -> None:
    with pytest.raises(UserError, match="There are 1 lists of rows and 2 names"):
        Partition.from_indices([[1]], names=("a", "b"))
