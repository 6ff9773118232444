"""Partitions: each file registers one rule that splits the training rows between parties."""

from __future__ import annotations

from unalike.partition import iid, label_dirichlet, natural
from unalike.partition.distorted import as_seen
from unalike.partition.holdout import hold_out
from unalike.partition.partition import PARTITIONS, Partition, Rule, make_partition

__all__ = [
    "PARTITIONS",
    "Partition",
    "Rule",
    "as_seen",
    "hold_out",
    "iid",
    "label_dirichlet",
    "make_partition",
    "natural",
]
