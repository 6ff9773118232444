"""Mistakes: as many as said, each other label as likely."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from unalike.data import Dataset
from unalike.errors import UserError
from unalike.partition import make_partition, seen_by

Make = Callable[..., Dataset]


def changed(data: Dataset, text: str, parties: int = 4) -> list[np.ndarray]:
    partition = make_partition(text, data, parties, 0)
    return [seen_by(data, partition, k)[1] != data.y[partition.rows[k]] for k in range(parties)]


def test_probability(made: Make) -> None:
    data = made(np.arange(20_000) % 5, 5)
    for wrong in changed(data, "label-noise(0.3)"):
        assert abs(wrong.mean() - 0.3) < 5 * np.sqrt(0.21 / len(wrong))
    for party, wrong in enumerate(changed(data, "label-noise(0.4, rising=true)")):
        assert abs(wrong.mean() - 0.1 * (party + 1)) < 5 * np.sqrt(0.25 / len(wrong))


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_every_other_label_is_as_likely_and_the_same_one_never(made: Make, classes: int) -> None:
    data = made(np.zeros(20_000, int) + 1, classes)
    partition = make_partition("label-noise(1)", data, 1, 3)
    counts = np.bincount(seen_by(data, partition, 0)[1], minlength=classes)
    assert counts[1] == 0
    if classes > 2:
        assert stats.chisquare(np.delete(counts, 1)).pvalue > 1e-4


def test_none_and_all(made: Make) -> None:
    data = made(np.arange(300) % 3, 3)
    assert not np.concatenate(changed(data, "label-noise(0)")).any()
    assert np.concatenate(changed(data, "label-noise(1)")).all()


@pytest.mark.parametrize("wrong", ["-0.1", "1.5"])
def test_wrong_probability(made: Make, wrong: str) -> None:
    with pytest.raises(UserError, match=rf"label-noise's p must be from 0 to 1, got {wrong}\. Use 0\.2\.$"):
        make_partition(f"label-noise({wrong})", made(np.arange(9) % 2, 2), 2, 0)


def test_a_single_label(made: Make) -> None:
    with pytest.raises(UserError, match=r"label-noise changes labels, but made has one label only"):
        make_partition("label-noise(0.1)", made(np.zeros(9, int), 1), 2, 0)
