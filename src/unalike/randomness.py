"""Random streams: every number drawn derives from (seed, purpose, round, party), so none needs saving."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

# Append only: the place of a purpose is its number, and so part of every run.
Purpose = Literal[
    "partition",
    "holdout",
    "public",
    "cohort",
    "batches",
    "augment",
    "model",
    "layers",
    "noise",
    "server",
    "rounding",
    "party noise",
    "server noise",
    "extra",
    "newcomers",
    "coins",
    "columns",
    "shared rows",
    "server layers",
    "public part",
    "copies",
    "parts of rows",
    "evaluated parties",
    "entries sent",
]

_PURPOSES = {purpose: number for number, purpose in enumerate(get_args(Purpose), start=1)}


def stream(seed: int, purpose: Purpose, *place: int) -> np.random.Generator:
    """An independent stream of random numbers for one purpose at one place (round, party, ...).

    Cohorts and batch orders are thus the same for every algorithm with the same seed, and a resumed run
    draws what the uninterrupted one would have drawn.
    """
    return np.random.default_rng(np.random.SeedSequence([seed, _PURPOSES[purpose], *place]))
