"""Missing values that stay missing: NaN in a data set's rows, which trees can read and nets cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError


def refuse_gaps(data: Dataset, reader: str = "a net") -> None:
    """Refuse data whose missing values were kept, where only whole rows can be read."""
    if data.gaps:
        raise UserError(
            f"{data.name} keeps its missing values, which {reader} cannot read. Use missing=indicate, or let "
            "trees learn from them: --model trees --algorithm histogram."
        )


def indicated(data: Dataset) -> Dataset:
    """The data set without gaps, to be measured or drawn: a missing value is the mean of its column's others.

    For each column with gaps there is one more, ``<name>_missing``, which is 1 where the value is missing.
    """
    if not data.gaps:
        return data
    names = data.features or tuple(f"column {place}" for place in range(data.shape[0]))
    train, test = np.isnan(data.x), np.isnan(data.x_test)
    some = np.flatnonzero(train.any(axis=0) | test.any(axis=0))
    known = np.maximum((~train).sum(axis=0), 1)
    means = np.where(train, 0.0, data.x).sum(axis=0) / known

    def whole(x: Array, absent: Array) -> Array:
        filled = np.where(absent, means.astype(x.dtype), x)
        return np.concatenate([filled, absent[:, some].astype(x.dtype)], axis=1)

    def longer(values: Array, rest: float) -> Any:
        return np.append(np.broadcast_to(values, data.shape), np.full(len(some), rest)).astype(values.dtype)

    return replace(
        data,
        x=whole(data.x, train),
        x_test=whole(data.x_test, test),
        features=(*names, *(f"{names[place]}_missing" for place in some)),
        shift=longer(data.shift, 0.0),
        scale=longer(data.scale, 1.0),
        units=type(data.units)(longer(data.units.shift, 0.0), longer(data.units.scale, 1.0)),
        gaps=False,
    )
