"""Rows for small conversations about trees, and a way to hold them."""

import hashlib

import numpy as np

from unalike.algorithms.protocol import SERVER, Me, Own, PublicTerms
from unalike.models.trees import Trees
from unalike.randomness import stream
from unalike.rounds.conversation import InProcess, converse


def small_rows(rows=600, seed=0, classes=2):
    """Numbers, a yes or no, a small whole number and missing values; labels that follow from them."""
    random = np.random.default_rng(seed)
    x = np.stack(
        [
            random.normal(size=rows),
            random.random(rows) < 0.3,
            random.integers(0, 8, rows),
            random.exponential(size=rows),
            random.normal(size=rows) * 100 + 500,
        ],
        axis=1,
    ).astype(np.float32)
    score = x[:, 0] + 2 * x[:, 1] * (x[:, 2] > 3) - x[:, 3] + random.normal(size=rows) * 0.5
    if classes == 0:
        y = 3.0 * score + 40
    else:
        y = np.searchsorted(np.quantile(score, np.arange(1, classes) / classes), score)
    x[random.random(rows) < 0.2, 3] = np.nan
    return x, y.astype(np.float64 if classes == 0 else np.int64)


def terms_of(x, y, settings=None, parties=1, rounds=3, classes=2, seed=7, hidden=False):
    target = (float(y.mean()), float(y.std())) if classes == 0 else (0.0, 1.0)
    settings = settings or Trees(depth=3, bins=16, least_rows=5)
    return PublicTerms(parties, rounds, seed, settings, x.shape[1], classes, target, hidden)


def roles_of(terms, x, y, owner, validation=4):
    """The server and the parties; every ``validation``-th row of all is for validation."""
    kept = np.arange(len(y)) % validation == 0 if validation else np.zeros(len(y), bool)
    roles = [Me(terms, SERVER, None, lambda use, place: stream(terms.seed, use, *place))]
    for party in range(terms.parties):
        own = np.flatnonzero(owner == party)
        rows = Own(x[own], y[own], np.flatnonzero(~kept[own]), np.flatnonzero(kept[own]))
        roles.append(Me(terms, party, rows, lambda use, place, p=party: stream(terms.seed, use, *place, p)))
    return roles


def begin(protocol, roles):
    return {me.number: protocol.start(me) for me in roles}


def play(protocol, roles, first=0, last=None, states=None, carrier=InProcess):
    """The states after the rounds up to ``last``, and what was spoken in each round."""
    states = states or begin(protocol, roles)
    spoken = []
    for round in range(first, (roles[0].terms.rounds if last is None else last) + 1):
        carried = carrier(protocol, roles, states)
        spoken.append((converse(carried, states, round), dict(carried.bytes_added)))
        states = carried.states
        if protocol.finished(states[SERVER]):
            break
    return states, spoken


def model_of(protocol, roles, states):
    return protocol.model(roles[0], states[SERVER], states[SERVER])


def digest(arrays):
    """SHA-256 of arrays, their names, types and shapes."""
    sha = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        sha.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return sha.hexdigest()
