"""Where a site keeps who was matched (provisional)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unalike.data.columns import Column
from unalike.data.dataset import Array
from unalike.errors import UserError
from unalike.federation.plan import Plan


class Matched:
    """The rows of the people whom all sites know."""

    @staticmethod
    def read(folder: Path, plan: Plan, columns: Sequence[Column]) -> Array:
        """The numbers of the rows, in the common order."""
        try:
            return np.array(json.loads((folder / "matched.json").read_text())["rows"], np.int64)
        except FileNotFoundError:
            raise UserError("Nobody was matched yet.") from None
