"""What ``check_protocol`` looks at where parties hold other columns of the same people."""

from __future__ import annotations

import numpy as np

from unalike.rounds.margins import as_table
from unalike.runs.column_cast import ColumnCast
from unalike.runs.conversing import Conversing

TOLD = {"label holder", "other holders", "server"}
"""Of whom a protocol says what it learns, so that real sites can consent."""


def check_predicted(text: str, played: Conversing) -> None:
    """Parties that predict together say what the model of all columns says; the label holder can train alone."""
    cast, state = played.cast, played.state
    assert isinstance(cast, ColumnCast)
    assert set(cast.protocol.learns(cast.terms)) == TOLD, f"{text}: learns must say what {sorted(TOLD)} learn"
    arrays = cast.models(state)[0]
    assert arrays is not None, f"{text}: after training there is no model. Give each party's part of it in model."
    x = played.federation.dataset.x_test
    x = as_table(x, np.arange(x.shape[0]))
    told, model = cast.predicted(state, x), cast.grown(arrays)
    assert told.tobytes() == model.margins(x).tobytes(), (
        f"{text}: what parties predict together is not what the joined model predicts. Add in party order."
    )
    assert cast.alone() is not None, f"{text}: the label holder alone trains no model"
