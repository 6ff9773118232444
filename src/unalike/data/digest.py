"""A hash of a table's rows: whether they are those that a run was made of, or that a site agreed to use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from unalike.data.columns import Column


def table_digest(columns: Sequence[Column]) -> str:
    """The SHA-256 of the columns' names and of all their texts, row by row.

    Of a column whose values are not used, the name counts alone.
    """
    sha = hashlib.sha256()
    for column in columns:
        head = json.dumps([column.name, column.unusable, column.texts, column.rows]).encode()
        sha.update(len(head).to_bytes(8, "little") + head)
        sha.update(column.codes.astype("<i4").tobytes())
    return sha.hexdigest()
