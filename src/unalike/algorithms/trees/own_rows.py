"""A party's rows as trees need them: features and labels by purpose, and rows by bin, which are made once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import Me, PublicTerms
from unalike.trees.bins import Binned, bin_rows
from unalike.trees.cuts import Cuts
from unalike.trees.objective import Objective, objective_of


def objective_in(terms: PublicTerms) -> Objective:
    """What the trees of these terms are to lower."""
    return objective_of(terms.model, terms.classes, terms.target)


def training_rows(me: Me) -> tuple[Any, NDArray[Any]]:
    """The features and labels of the rows that a party trains on."""
    return _features(me, me.rows.train), me.rows.y[me.rows.train]


def validation_rows(me: Me) -> tuple[Any, NDArray[Any]]:
    """The features and labels of a party's validation rows."""
    return _features(me, me.rows.validation), me.rows.y[me.rows.validation]


def _features(me: Me, places: NDArray[np.int64]) -> Any:
    rows = me.rows.x[places]
    return rows if rows.ndim == 2 else rows.reshape(len(places), -1)


def training_bins(me: Me, cuts: Cuts) -> Binned:
    """The training rows by bin."""
    return me.remember("training bins", lambda: bin_rows(training_rows(me)[0], cuts))


def validation_bins(me: Me, cuts: Cuts) -> Binned:
    """The validation rows by bin."""
    return me.remember("validation bins", lambda: bin_rows(validation_rows(me)[0], cuts))
