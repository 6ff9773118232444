"""Where a site keeps who was matched: the numbers of its own rows, and never an id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from unalike.data.columns import Column
from unalike.data.dataset import Array
from unalike.data.sites.ids import ids_digest
from unalike.errors import UserError
from unalike.federation.folders import read_object
from unalike.federation.plan import Plan
from unalike.runs.files import atomic_write

FILE = "matched.json"


@dataclass(frozen=True)
class Matched:
    """What a site knows of a matching: its rows of common people in the order that all sites give them.

    ``ids`` is the digest of all ids of its table, which must still be the same when the rows are used.
    """

    session: str
    plan: str
    ids: str
    rows: list[int]
    claims: dict[str, int]
    """by site, how many ids it brought"""

    def write(self, folder: Path) -> None:
        """Keep it in the site's folder, whole or not at all."""
        atomic_write(folder / FILE, json.dumps(asdict(self)).encode())

    @classmethod
    def kept(cls, folder: Path, plan: Plan) -> Matched:
        """The matching in a site's folder; a UserError where nobody was matched by this plan."""
        values = read_object(folder / FILE)
        try:
            made = cls(**values)
            whole = all(type(row) is int and row >= 0 for row in made.rows)
        except TypeError:
            whole = False
        if not values or not whole or made.plan != plan.digest:
            raise UserError(
                "Nobody was matched by this plan yet. The server's owner runs: unalike federation match."
            )
        return made

    @classmethod
    def read(cls, folder: Path, plan: Plan, columns: Sequence[Column]) -> Array:
        """The site's rows of common people, in the common order, where its table has the ids of then."""
        made = cls.kept(folder, plan)
        _, ids = plan.people.rows(columns)
        if ids_digest(ids) != made.ids:
            raise UserError("This site's table has other ids than when its people were matched. Match again.")
        return np.array(made.rows, np.int64)
