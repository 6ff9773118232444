"""Split one party's rows into a part to train on, one to choose by, and one to judge by."""

from __future__ import annotations

import numpy as np

from unalike.data.dataset import Array
from unalike.data.split import random_rank
from unalike.errors import UserError


def hold_out(
    rows: Array, labels: Array, validation: float, held_out: float, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Split ``rows`` at random into (train, validation, held_out), each ascending and nearly stratified.

    ``labels[i]`` is the label of ``rows[i]``. Of n rows ``round(n * validation)`` are for validation and
    ``round(n * held_out)`` are held out; where that leaves no row to train on, the larger of the two parts
    gives one up. The number of rows of a label in a part is within two of its even share.
    """
    if len(rows) != len(labels):
        raise UserError(f"{len(rows)} rows have {len(labels)} labels. Give the label of each of these rows.")
    _, chosen, judged = (int(size[0]) for size in part_sizes(np.array([len(rows)]), validation, held_out))
    # A label's rows are spread evenly over (0, 1), so each stretch of that line has each label's share.
    place = (random_rank(labels, rng) + rng.random(len(rows))) / np.bincount(labels)[labels]
    order = rows[np.argsort(place, kind="stable")]
    parts = np.split(order, [chosen, chosen + judged])
    return np.sort(parts[2]), np.sort(parts[0]), np.sort(parts[1])


def part_sizes(rows: Array, validation: float, held_out: float) -> tuple[Array, Array, Array]:
    """How many rows of parties with so many rows are in each of the parts, as ``hold_out`` splits them."""
    if not (validation >= 0 and held_out >= 0 and validation + held_out < 1):
        raise UserError(
            f"The validation and held-out fractions must be >= 0 and sum to less than 1, got "
            f"{validation} and {held_out}. Use 0.1 and 0.1."
        )
    if (rows == 0).any():
        raise UserError("A party of 0 rows cannot be split. Use fewer parties.")
    chosen, judged = (np.rint(rows * share).astype(np.int64) for share in (validation, held_out))
    none_left = chosen + judged == rows  # rounding adds less than one row to a sum of less than n
    fewer = none_left & (chosen > judged)
    chosen, judged = chosen - fewer, judged - (none_left & ~fewer)
    return rows - chosen - judged, chosen, judged
