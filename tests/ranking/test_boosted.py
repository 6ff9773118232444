"""Advice on boosted trees: for tables alone, with the figures of the package's own table."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import unalike.ranking
from unalike.data import Dataset, load_dataset
from unalike.measure.situation import Situation
from unalike.partition import make_partition
from unalike.ranking import boosted
from unalike.ranking.boosted import COLUMNS, LINEAR, NET, TREES, tree_rows, trees_beside, words_on_trees
from unalike.ranking.evidence import advise

LABEL_SKEW = Situation(0.5, 0.01, 0.3, 0.1)
PATH = Path(unalike.ranking.__file__).parent / "tables" / "trees.csv"


def made(shape: tuple[int, ...], **options: object) -> Dataset:
    x, y = np.zeros((4, *shape), np.float32), np.arange(4) % 2
    return Dataset("mine", x, y, x, y, ("a", "b"), **options)


def test_the_table_is_whole_and_of_splits_of_rows_alone():
    with PATH.open(encoding="utf-8", newline="") as file:
        assert tuple(next(csv.reader(file))) == COLUMNS
    settings = {row.setting for row in tree_rows()}
    assert {dataset for dataset, _, _ in settings} == {"adult", "breast-cancer", "covtype", "heart"}
    for dataset, partition, parties in settings:
        ways = [row for row in tree_rows() if row.setting == (dataset, partition, parties)]
        assert {row.method for row in ways} == {TREES, "bagging", "local", NET, LINEAR}
        assert len({row.kind for row in ways}) == 1
        if dataset in ("heart", "breast-cancer"):  # others are not at hand everywhere
            split = make_partition(
                partition, load_dataset(dataset), None if partition == "natural" else parties, 0
            )
            assert split.columns is None
            assert split.parties == parties


def test_trees_from_sums_are_the_same_for_every_split():
    for dataset in {row.dataset for row in tree_rows()}:
        rows = [row for row in tree_rows() if row.dataset == dataset and row.method == TREES]
        assert len({(row.accuracy, row.auroc, row.brier, row.calibration_error) for row in rows}) == 1


def test_words_have_the_figures_of_the_kind_of_skew():
    one = trees_beside(NET, "label skew")
    assert one is not None
    both: dict[tuple[str, str, int], dict[str, float]] = {}
    for row in tree_rows():
        if row.kind == "label skew" and row.method in (TREES, NET):
            both.setdefault(row.setting, {})[row.method] = row.accuracy
    gains = [found[TREES] - found[NET] for found in both.values()]
    assert one.comparisons == len(gains)
    assert one.median_gain == pytest.approx(np.median(gains))
    assert one.worst_gain == pytest.approx(min(gains))
    words = " ".join(words_on_trees(made((3,)), "label skew"))
    assert (
        f"better than FedAvg with mlp(32,16) in {one.better} and worse in {one.worse} of {one.comparisons}"
        in words
    )
    assert f"{one.median_gain:+.1f} points of accuracy in the median and {one.worst_gain:+.1f} at worst" in words


def test_images_and_words_have_nothing_to_do_with_trees():
    assert words_on_trees(made((1, 8, 8)), "alike") == ()
    tokens = Dataset("t", np.zeros((4, 3), np.int64), np.arange(4) % 2, None, None, ("a", "b"), kind="tokens")
    assert words_on_trees(tokens, "alike") == ()


def test_of_numbers_and_of_kinds_without_runs_no_figures_are_told(monkeypatch):
    x, y = np.zeros((4, 2), np.float32), np.arange(4.0)
    numbers = Dataset("mine", x, y, x, y, (), task="regression")
    assert "no comparisons are at hand" in words_on_trees(numbers, "alike")[0]
    monkeypatch.setattr(boosted, "tree_rows", lambda: ())
    assert "no comparisons are at hand" in words_on_trees(made((2,)), "alike")[0]


def test_kept_gaps_leave_trees_alone():
    assert words_on_trees(made((2,), gaps=True), "alike")[0].startswith("Missing values were kept")


def test_advice_has_them_where_one_model_is_for_all(tmp_path):
    data = made((3,))
    assert advise(LABEL_SKEW, tmp_path, "classification", data=data).trees
    assert not advise(LABEL_SKEW, tmp_path, "classification").trees
    assert not advise(LABEL_SKEW, tmp_path, "classification", data=data, own_rows=True).trees
