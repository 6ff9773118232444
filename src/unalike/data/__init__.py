"""Data sets: each file registers one; ``load_dataset("heart")`` reads it."""

from __future__ import annotations

from unalike.data import (
    adult,
    cifar,
    covtype,
    digits,
    fcube,
    femnist,
    given,
    heart,
    hugging_face,
    image_folder,
    mnist,
    rcv1,
    saved,
    sent140,
    shakespeare,
    sites,
    sklearn_sets,
    sql,
    svhn,
    synthetic,
    table,
)
from unalike.data.dataset import DATASETS, Dataset, Loader, trainable
from unalike.data.sites import people
from unalike.own_code import called

__all__ = [
    "DATASETS",
    "Dataset",
    "Loader",
    "adult",
    "cifar",
    "covtype",
    "digits",
    "fcube",
    "femnist",
    "given",
    "heart",
    "hugging_face",
    "image_folder",
    "load_dataset",
    "loaded",
    "mnist",
    "people",
    "rcv1",
    "saved",
    "sent140",
    "shakespeare",
    "sites",
    "sklearn_sets",
    "sql",
    "svhn",
    "synthetic",
    "table",
    "trainable",
]


def load_dataset(text: str) -> Dataset:
    """The data set that ``text`` describes, e.g. ``digits`` or ``heart(missing=drop)``."""
    return loaded(DATASETS.build(text))


def loaded(loader: Loader) -> Dataset:
    """What a registered data set reads; a mistake in one of the user's own is told in one line."""
    return trainable(called(loader, "load", Loader.load, returns=Dataset))
