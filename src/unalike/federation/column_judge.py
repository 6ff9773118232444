"""How well a model of several sites' columns does, found at the site that has the labels; what others add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from unalike.algorithms.protocol import SERVER, Arrays, Me, PublicTerms
from unalike.data.dataset import Array
from unalike.federation.column_work import ColumnWork
from unalike.federation.envelope import Refused
from unalike.models.loss import CrossEntropy
from unalike.rounds.conversation import InProcess, converse, role_random, role_secret
from unalike.rounds.judging import Judged, lines_of, needs_probabilities
from unalike.rounds.margins import two_sided
from unalike.runs.cast import read_by
from unalike.scores import Score

MARGINS = "margins"


def margins_of(state: Mapping[str, Array], rows: int) -> Array:
    """What the label holder keeps at the end of a conversation that predicts: a line for each row."""
    found = state.get(MARGINS)
    if found is None or found.ndim != 2 or len(found) != rows or found.dtype != np.float64:
        raise Refused("the conversation has ended without a prediction for every row")
    return found


def judged_by_use(work: ColumnWork, margins: Array, scores: Sequence[Score]) -> dict[str, Judged]:
    """The people whom the model is tried on, judged by what they are for."""
    labels = work.tried_labels()
    ends = np.cumsum([0, *map(len, labels.values())]).tolist()
    return {
        use: judged(margins[first:last], y, scores)
        for (use, y), (first, last) in zip(labels.items(), pairwise(ends), strict=True)
    }


def judged(margins: Array, y: Array, scores: Sequence[Score]) -> Judged:
    """How well margins fit the labels, as these scores need it."""
    labels = torch.from_numpy(np.asarray(y, np.int64))
    logits = torch.from_numpy(two_sided(margins))
    lines = lines_of(CrossEntropy(), logits, labels, whole=needs_probabilities(scores))
    return Judged("classification", lines, labels)


def alone_on_test(work: ColumnWork, scores: Sequence[Score]) -> Judged:
    """The test people under the model that the label holder trains on its own columns, with nobody's help.

    Nothing is sent: all roles are played here, as in simulation.
    """
    width = work.agreed.columns[work.number]
    terms = replace(work.me.terms, parties=1, features=width, label_holder=0, columns=(width,))
    arrays = trained_alone(work, terms)
    reader = work.protocol.predictor or terms.model.predictor
    model = read_by(reader, arrays, terms)
    side = work.side
    assert side.y is not None
    return judged(model.margins(side.x[side.test]), side.y[side.test], scores)


def trained_alone(work: ColumnWork, terms: PublicTerms) -> Arrays:
    """The arrays of the model of one party alone, after all rounds or as many as the protocol plays."""
    seed, protocol = terms.seed, work.protocol
    own = {SERVER: None, 0: work.me.rows}
    roles = {
        number: Me(terms, number, rows, role_random(seed, number), draw_secret=role_secret(seed, number))
        for number, rows in own.items()
    }
    states = {number: protocol.start(me) for number, me in roles.items()}
    for round in range(terms.rounds + 1):
        carrier = InProcess(protocol, roles.values(), states)
        converse(carrier, roles, round)
        states = carrier.states
        if round and protocol.finished(states[SERVER]) is not None:
            break
    part = protocol.model(roles[0], states[0], states[SERVER])
    assert part is not None
    return protocol.joined(terms, [part], [np.arange(terms.features)])
