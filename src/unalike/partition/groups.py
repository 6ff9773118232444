"""Parties made of whole groups of rows, such as hospitals, writers or categories."""

from __future__ import annotations

import heapq

import numpy as np

from unalike.data.dataset import Array
from unalike.partition.partition import Partition
from unalike.partition.sharing import random_order

_JOINED = 3  # names of more groups than these make no readable name


def of_groups(
    recipe: str, group: Array, names: tuple[str, ...], parties: int, rng: np.random.Generator
) -> Partition:
    """Whole groups merged into ``parties`` parties of nearly equal size; with as many parties, one each."""
    if parties == len(names):
        return Partition.of_owners(recipe, group, names)
    party = merge(np.bincount(group, minlength=len(names)), parties, rng)
    members: list[list[str]] = [[] for _ in range(parties)]
    for name, number in zip(names, party.tolist(), strict=True):
        members[number].append(name)
    return Partition.of_owners(recipe, party[group], tuple(_name(k, group) for k, group in enumerate(members)))


def merge(sizes: Array, parties: int, rng: np.random.Generator) -> Array:
    """The party of each group: groups in random order, each to the party with the fewest rows so far.

    So who is with whom is random, as in NIID-Bench's FEMNIST, and yet two parties never differ by more rows than
    the largest group has.
    """
    smallest = [(0, k) for k in range(parties)]
    party = np.empty(len(sizes), np.int64)
    for group in random_order(len(sizes), rng).tolist():
        rows, number = smallest[0]
        party[group] = number
        heapq.heapreplace(smallest, (rows + int(sizes[group]), number))
    return party


def _name(number: int, members: list[str]) -> str:
    return " + ".join(members) if 1 <= len(members) <= _JOINED else f"party {number} ({len(members)} groups)"
