"""Missing values that stay missing: NaN in a data set's rows, which trees can read and nets cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unalike.data.dataset import Array, Dataset, Holders
from unalike.errors import UserError


def refuse_gaps(data: Dataset, reader: str = "a net") -> None:
    """Refuse data whose missing values were kept, where only whole rows can be read."""
    if data.gaps:
        raise UserError(
            f"{data.name} keeps its missing values, which {reader} cannot read. Use missing=indicate, or let "
            "trees learn from them: --model trees --algorithm histogram."
        )


def indicated(data: Dataset, *, fill: bool = True) -> Dataset:
    """The data set with one more column for each that has gaps, ``<name>_missing``: 1 where the value is missing.

    Columns that are missing together, as those of a category are, share it. With ``fill``, as measuring needs, a
    missing value is the mean of its column's others; else it stays NaN.
    """
    if not data.gaps:
        return data
    names = data.features or tuple(f"column {place}" for place in range(data.shape[0]))
    train, test = np.isnan(data.x), np.isnan(data.x_test)
    told = _told(names, np.concatenate([train, test]))
    some = list(told)
    known = np.maximum((~train).sum(axis=0), 1)
    means = np.where(train, 0.0, data.x).sum(axis=0) / known

    def whole(x: Array, absent: Array) -> Array:
        filled = np.where(absent, means.astype(x.dtype), x) if fill else x
        return np.concatenate([filled, absent[:, some].astype(x.dtype)], axis=1)

    def longer(values: Array, rest: float) -> Any:
        return np.append(np.broadcast_to(values, data.shape), np.full(len(some), rest)).astype(values.dtype)

    return replace(
        data,
        x=whole(data.x, train),
        x_test=whole(data.x_test, test),
        features=(*names, *(f"{name}_missing" for name in told.values())),
        shift=longer(data.shift, 0.0),
        scale=longer(data.scale, 1.0),
        units=type(data.units)(longer(data.units.shift, 0.0), longer(data.units.scale, 1.0)),
        gaps=not fill,
        holders=data.holders and _wider(data.holders, some, len(names)),
    )


def _wider(holders: Holders, some: Sequence[int], width: int) -> Holders:
    """Who has which columns when those at the places ``some`` got one more each, at the end."""
    more = [[width + k for k, place in enumerate(some) if place in own] for own in holders.columns]
    columns = tuple(np.append(own, new).astype(np.int64) for own, new in zip(holders.columns, more, strict=True))
    return replace(holders, columns=columns, apart=(), apart_y=None)


def _told(names: Sequence[str], absent: Array) -> dict[int, str]:
    """By the first place of columns that are missing together, what is missing there: thal, not thal_3."""
    told: dict[int, str] = {}
    for place in np.flatnonzero(absent.any(axis=0)).tolist():
        first = max(told, default=None)
        if first is None or not (absent[:, place] == absent[:, first]).all():
            told[place] = names[place]
        elif "_" in names[place] and names[place].rpartition("_")[0] == names[first].rpartition("_")[0]:
            told[first] = names[place].rpartition("_")[0]
    return told
