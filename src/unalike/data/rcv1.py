"""RCV1: Reuters news as 47,236 word weights, kept sparse from the file to the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from unalike.data.dataset import Array, Dataset, register_dataset
from unalike.data.folder import find
from unalike.data.libsvm import read_libsvm
from unalike.data.split import random_rank

FEATURES = 47_236
ROWS = {"train": 20_242, "test": 677_399}
SPLIT_TEST_ROWS = 5_060  # NIID-Bench, Table 2: 15,182 + 5,060 of the 20,242 rows of rcv1_train.binary
_LINE = 74 * 40  # bytes: a row has 74 words on average, and a word and its weight take some 25
_SPLIT_SEED = 20242  # constant: every run, whatever its seed, is tested on the same news
HOW = "Download {} from the LIBSVM data page, binary classification, into that folder (packed or not)."


@register_dataset("rcv1", paper="Lewis et al. 2004, JMLR 5; rcv1.binary of LIBSVM")
class RCV1:
    """20,242 Reuters news, 47,236 sparse word weights, corporate or economic topics against the others.

    ``test="split"`` is NIID-Bench's use: ``rcv1_train.binary`` alone, a fixed random 5,060 of its rows are the
    test set (which ones the paper does not say). ``test="file"`` trains on all 20,242 and tests on the 677,399
    rows of ``rcv1_test.binary``. Which of the two is said by the parameter, never by which files are there.
    """

    test: Literal["split", "file"] = "split"

    def load(self) -> Dataset:
        """Read the file or files from the data folder."""
        x, y = _read("train")
        if self.test == "file":
            x_test, y_test = _read("test")
        else:
            rank = random_rank(np.zeros(len(y), np.int64), np.random.default_rng(_SPLIT_SEED))
            chosen = rank < SPLIT_TEST_ROWS
            x, y, x_test, y_test = x[~chosen], y[~chosen], x[chosen], y[chosen]
        classes = ("markets or government", "corporate or economics")  # +1: CCAT, ECAT; -1: GCAT, MCAT
        return Dataset(name="rcv1", x=x, y=y, x_test=x_test, y_test=y_test, classes=classes)


def _read(part: str) -> tuple[Any, Array]:
    name = f"rcv1_{part}.binary"
    places = [f"{folder}{name}{packed}" for folder in ("", "rcv1/") for packed in ("", ".bz2", ".gz")]
    path: Path = find(f"rcv1's {name}", places, HOW.format(name))
    return read_libsvm(path, FEATURES, ROWS[part], _LINE)
