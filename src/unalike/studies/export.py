"""The store's rows as files: CSV and Parquet."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from unalike.errors import UserError
from unalike.studies.plan import Only, plan_study
from unalike.studies.planned import look_at
from unalike.studies.study_file import Study

Row = dict[str, Any]


def study_keys(study: Study, runs: Path, scale: float = 1.0, only: Only | None = None) -> set[str]:
    """The keys of a study's runs, tuning included."""
    plan = plan_study(study, scale, only)
    keys = {planned.key for planned in plan.tuning_runs()}
    for goal in plan.goals:
        if goal.planned is not None:
            keys.add(goal.planned.key)
        elif goal.tuning is not None:
            choice = goal.tuning.choose(lambda planned: look_at(planned, runs))
            if choice.algorithm:
                keys.add(goal.tuned(choice.algorithm, choice.fields).key)
    return keys


def csv_bytes(rows: list[Row]) -> bytes:
    """A header and a line for each row; what a row does not have is empty."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def parquet_bytes(rows: list[Row]) -> bytes:
    """A Parquet file; a column of several types is text."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError("Parquet needs pyarrow: pip install 'unalike[parquet]', or use --csv.") from None

    made = {}
    for name in columns(rows):
        values = [row.get(name) for row in rows]
        kinds = {type(value) for value in values if value is not None}
        if kinds == {int, float}:
            values = [None if value is None else float(value) for value in values]
        elif len(kinds) > 1:
            values = [None if value is None else str(value) for value in values]
        made[name] = pyarrow.array(values)
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(made), buffer)
    return buffer.getvalue()


def columns(rows: list[Row]) -> list[str]:
    """All names, in the order in which they first appear."""
    return list({name: None for row in rows for name in row})
