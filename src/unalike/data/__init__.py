"""Data sets: each file registers one; ``load_dataset("heart")`` reads it."""

from __future__ import annotations

from unalike.data import digits, fcube, heart
from unalike.data.dataset import DATASETS, Dataset, Loader

__all__ = ["DATASETS", "Dataset", "Loader", "digits", "fcube", "heart", "load_dataset"]


def load_dataset(text: str) -> Dataset:
    """The data set that ``text`` describes, e.g. ``digits`` or ``heart(missing=drop)``."""
    return DATASETS.build(text).load()
