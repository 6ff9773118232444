"""Partitions: each file registers one rule that splits the training rows between parties."""

from __future__ import annotations

from unalike.partition import (
    by,
    fcube,
    file,
    iid,
    label_count,
    label_dirichlet,
    like,
    natural,
    quantity,
    shards,
    similarity,
    temporal,
)
from unalike.partition.distorted import as_seen
from unalike.partition.holdout import hold_out
from unalike.partition.partition import PARTITIONS, Partition, Rule, make_partition
from unalike.partition.storage import SavedPartition, load_partition, save_partition

__all__ = [
    "PARTITIONS",
    "Partition",
    "Rule",
    "SavedPartition",
    "as_seen",
    "by",
    "fcube",
    "file",
    "hold_out",
    "iid",
    "label_count",
    "label_dirichlet",
    "like",
    "load_partition",
    "make_partition",
    "natural",
    "quantity",
    "save_partition",
    "shards",
    "similarity",
    "temporal",
]
