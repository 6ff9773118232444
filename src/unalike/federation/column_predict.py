"""New people whose columns several sites have: each site names its own table, and only the label holder is told.

A person at each site offers a table for one prediction. The tables are of the same people, in any order: sites put
them in the order of a hash of the ids, and tell only how many they are and one hash of all ids with the job.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unalike.data.columns import Column
from unalike.data.dataset import Array
from unalike.data.new_rows import read_new_rows
from unalike.data.sites import read_site_table
from unalike.data.sites.ids import ids_digest, in_order
from unalike.errors import UserError
from unalike.federation.column_judge import MARGINS, margins_of
from unalike.federation.column_work import ColumnWork
from unalike.federation.contents import digest_of
from unalike.federation.envelope import Envelope, Refused
from unalike.federation.folders import now, read_object
from unalike.federation.pairing import occasion_of
from unalike.federation.plan import Plan
from unalike.federation.turns import AGAIN, SiteTurns
from unalike.rounds.margins import two_sided
from unalike.runs.files import atomic_write

PREDICT, PREDICTED = "predict", "predicted"
"""Kinds of messages: which people does your new table have; the conversation is over, keep what you know."""
REQUEST = "predict.json"
"""At a site: the table that somebody there has offered for the next prediction."""
FEWEST = 32
"""People who are predicted together at least: of fewer, one person's columns could be told from the answers."""


def offer_table(folder: Path, data: str, output: str) -> None:
    """Offer a table for the next prediction; the label holder's predictions go to ``output``."""
    told = {"data": data, "output": output, "time": now()}
    atomic_write(folder / REQUEST, json.dumps(told).encode())


def fewest_of(plan: Plan) -> int:
    """How many people are predicted together at least: as many as the plan's algorithm says, if it does."""
    return int(getattr(plan.protocol, "least_predicted", FEWEST))


@dataclass(frozen=True, eq=False)
class NewPeople:
    """A table of new people at one site: its coded rows in the common order, and who they are."""

    columns: tuple[Column, ...]
    """the columns of the id, row by row as in the table"""
    order: Array
    """the rows of the table in the common order"""
    x: Array
    ids: str


def new_people(plan: Plan, work: ColumnWork, data: str) -> NewPeople:
    """The people of a table; a UserError says what does not fit the coding that the site trained with."""
    columns = read_site_table(data, plan.types, elsewhere=True)
    rows = read_new_rows(work.side.schema, columns, plan.missing)
    if not rows.usable.all():
        raise UserError(f"{data} has rows with missing values, and the plan leaves such rows out. Fill them in.")
    rule = plan.people.id
    ids = rule.read(columns)
    order = in_order(ids)
    return NewPeople(tuple(rule.of(columns)), order, rows.code(order), ids_digest(ids))


class ColumnJobs:
    """The predictions that a site takes part in, one after the other."""

    def __init__(self, folder: Path, plan: Plan, tell: Callable[[str], None]) -> None:
        self._path, self._folder, self._plan, self._tell = folder / REQUEST, folder, plan, tell
        self._job: tuple[str, NewPeople, SiteTurns] | None = None

    def begin(self, work: ColumnWork, message: Envelope) -> dict[str, Any]:
        """Take part in a prediction with the table that was offered: how many people it has, and one hash."""
        occasion = occasion_of(message)
        if not occasion:
            raise Refused("it does not say which prediction it is of")
        request = self._request()
        atomic_write(self._path, json.dumps({**request, "occasion": occasion}).encode())
        self._job = None
        _, people, _ = self._at(work, occasion)
        self._tell(f"Predicting {len(people.x):,} people of {request['data']} with the other sites.")
        return {"people": len(people.x), "ids": _told_ids(people, occasion)}

    def turns(self, work: ColumnWork, occasion: str) -> SiteTurns:
        """This site's role in a prediction, made anew after a restart."""
        return self._at(work, occasion)[2]

    def end(self, work: ColumnWork, message: Envelope) -> dict[str, Any]:
        """The conversation is over: the label holder writes down what it was told, and the offer is used up."""
        occasion = occasion_of(message)
        if not self._path.exists():
            return {}  # this site has ended it, and the answer was lost
        _, people, turns = self._at(work, occasion)
        if work.holds_label:
            if turns.place is None or MARGINS not in turns.place.state:
                return {AGAIN: True}
            request = self._request()
            margins = margins_of(turns.place.state, len(people.x))
            atomic_write(Path(request["output"]), _as_csv(people, margins, work.side.schema.classes))
            self._tell(f"The predictions of {len(people.x):,} people are in {request['output']}.")
        self._path.unlink()
        self._job = None
        return {}

    def _request(self) -> dict[str, Any]:
        request = read_object(self._path)
        if not {"data", "output"} <= request.keys():
            raise Refused(
                "nobody here has offered a table of new people: unalike federation predict SITE --data TABLE"
            )
        return request

    def _at(self, work: ColumnWork, occasion: str) -> tuple[str, NewPeople, SiteTurns]:
        if self._job is not None and self._job[0] == occasion:
            return self._job
        request = self._request()
        if request.get("occasion") != occasion:
            raise Refused("it is of another prediction than this site takes part in")
        people = new_people(self._plan, work, request["data"])
        least = fewest_of(self._plan)
        if len(people.x) < least:
            raise Refused(f"it has a table of {len(people.x)} people, and {least} are predicted together at least")
        session = job_session(work.first, occasion, _told_ids(people, occasion))
        self._job = occasion, people, work.predicting(session, people.x)
        return self._job


def job_session(first: bytes, occasion: str, ids: str) -> bytes:
    """The conversation of one prediction: mail and sums of any other do not fit it."""
    return bytes.fromhex(digest_of(b"predict", first, occasion.encode(), ids.encode()))


def _told_ids(people: NewPeople, occasion: str) -> str:
    """One hash of all ids, with the job: two jobs cannot be compared by it."""
    return digest_of(b"people", occasion.encode(), people.ids.encode())


def _as_csv(people: NewPeople, margins: Array, classes: tuple[str, ...]) -> bytes:
    """The predictions in the order of the label holder's own table: ids, class, and the classes' probabilities."""
    logits = two_sided(margins)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    own = np.empty(len(margins), np.int64)
    own[people.order] = np.arange(len(margins))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(one.name for one in people.columns), "predicted", *(f"p_{name}" for name in classes)])
    each = [[one.texts[code] for code in one.codes.tolist()] for one in people.columns]
    for row, place in enumerate(own.tolist()):
        told = [repr(float(share)) for share in shares[place]]
        writer.writerow([*(ids[row] for ids in each), classes[int(shares[place].argmax())], *told])
    return text.getvalue().encode()
