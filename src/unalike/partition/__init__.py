"""Partitions: each file registers one rule that splits the training rows between parties."""

from __future__ import annotations

from unalike.partition import (
    attribute_label,
    by,
    copies,
    fcube,
    feature_noise,
    feature_shift,
    file,
    iid,
    label_count,
    label_dirichlet,
    label_noise,
    label_preference,
    like,
    natural,
    quantity,
    shards,
    similarity,
    temporal,
    vertical,
    vertical_correlation,
    vertical_importance,
)
from unalike.partition.blocks import apart_rows, as_held, columns_of, common_rows, labels_of
from unalike.partition.distorted import as_seen, seen_by, seen_label_counts
from unalike.partition.holdout import hold_out
from unalike.partition.partition import PARTITIONS, Partition, Rule, default_parties, make_partition
from unalike.partition.storage import SavedPartition, load_partition, save_partition

__all__ = [
    "PARTITIONS",
    "Partition",
    "Rule",
    "SavedPartition",
    "apart_rows",
    "as_held",
    "as_seen",
    "attribute_label",
    "by",
    "columns_of",
    "common_rows",
    "copies",
    "default_parties",
    "fcube",
    "feature_noise",
    "feature_shift",
    "file",
    "hold_out",
    "iid",
    "label_count",
    "label_dirichlet",
    "label_noise",
    "label_preference",
    "labels_of",
    "like",
    "load_partition",
    "make_partition",
    "natural",
    "quantity",
    "save_partition",
    "seen_by",
    "seen_label_counts",
    "shards",
    "similarity",
    "temporal",
    "vertical",
    "vertical_correlation",
    "vertical_importance",
]
