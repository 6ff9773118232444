"""Random streams: every number drawn derives from (seed, purpose, round, party), so none needs saving."""

from __future__ import annotations

from typing import Literal

import numpy as np

Purpose = Literal["partition", "holdout", "public", "cohort", "batches"]

_PURPOSES: dict[Purpose, int] = {"partition": 1, "holdout": 2, "public": 3, "cohort": 4, "batches": 5}


def stream(seed: int, purpose: Purpose, *place: int) -> np.random.Generator:
    """An independent stream of random numbers for one purpose at one place (round, party, ...).

    Cohorts and batch orders are thus the same for every algorithm with the same seed, and a resumed run
    draws what the uninterrupted one would have drawn.
    """
    return np.random.default_rng(np.random.SeedSequence([seed, _PURPOSES[purpose], *place]))
