"""People with missing values and few distinct numbers, secureboost with short keys, and its joint reference."""

import numpy as np

from tests.algorithms.trees import conversing
from unalike.algorithms.trees.histogram import HistogramTrees
from unalike.algorithms.vertical.secureboost import SecureBoost
from unalike.models.trees import Trees
from unalike.rounds.conversation import role_random


def people(rows=240, widths=(2, 3, 2), classes=2, seed=0):
    """Blocks of columns: numbers, small whole numbers, a yes or no, missing values; labels that follow."""
    random = np.random.default_rng(seed)
    total = sum(widths)
    x = random.normal(size=(rows, total))
    x[:, 1::3] = random.integers(0, 4, (rows, len(range(1, total, 3))))
    x[:, 2::3] = random.random((rows, len(range(2, total, 3)))) < 0.3
    score = x @ random.normal(size=total) + random.normal(size=rows) * 0.3
    x[random.random(x.shape) < 0.1] = np.nan
    x[:, 0] = np.nan_to_num(x[:, 0])
    if classes == 0:
        y = 3 * score + 10
    else:
        y = np.searchsorted(np.quantile(score, np.arange(1, classes) / classes), score)
    ends = np.cumsum(widths)[:-1]
    return np.split(x.astype(np.float32), ends, axis=1), y.astype(np.float64 if classes == 0 else np.int64)


def small(**more):
    """The model's settings for tests."""
    return Trees(**{"depth": 3, "bins": 8, "least_rows": 5, **more})


def short_keys(monkeypatch, bits=512, **more):
    """The protocol with keys that protect nobody and are quick."""
    monkeypatch.setattr(SecureBoost, "least_bits", 256)
    return SecureBoost(bits=bits, **more)


def joint_arrays(terms, blocks, y, validation=0):
    """The model of ``histogram`` trained on all columns side by side by one party."""
    x = np.concatenate(blocks, axis=1)
    one = conversing.terms_of(x, y, terms.model, 1, terms.rounds, terms.classes, terms.seed)
    kept = np.arange(len(y)) % validation == 0 if validation else np.zeros(len(y), bool)
    roles = conversing.roles_of(one, x, y, np.zeros(len(y), int), 0)
    rows = conversing.Own(x, y, np.flatnonzero(~kept), np.flatnonzero(kept))
    roles[1] = conversing.Me(one, 0, rows, role_random(terms.seed, terms.label_holder))
    protocol = HistogramTrees()
    states = conversing.begin(protocol, roles)
    for round in range(one.rounds + 1):
        states, _ = conversing.play(protocol, roles, round, round, states)
        if protocol.finished(states[-1]):
            break
    return protocol.model(roles[0], states[-1], states[-1])
