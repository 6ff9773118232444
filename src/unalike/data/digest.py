"""A hash of a table's rows: whether they are those that a run was made of, or that a site agreed to use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from unalike.data.columns import Column


def table_digest(columns: Sequence[Column]) -> str:
    """The SHA-256 of the columns' names and of all their texts, row by row.

    Of a column whose values are not used, the name counts alone.
    """
    sha = hashlib.sha256()
    for column in columns:
        texts = sorted(set(column.cells))
        place = {text: number for number, text in enumerate(texts)}
        head = json.dumps([column.name, column.unusable, texts, len(column.cells)]).encode()
        sha.update(len(head).to_bytes(8, "little") + head)
        sha.update(np.fromiter(map(place.__getitem__, column.cells), "<i4", len(column.cells)).data)
    return sha.hexdigest()
