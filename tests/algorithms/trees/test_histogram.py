"""Trees from sums: the same bits for every split of rows, after every restart, and in one go."""

import numpy as np
import pytest

from tests.algorithms.trees.conversing import digest, model_of, play, roles_of, small_rows, terms_of
from unalike.algorithms.protocol import SERVER
from unalike.algorithms.trees.histogram import HistogramTrees
from unalike.models.trees import Trees

PROTOCOL = HistogramTrees()


def trained(owner, x, y, settings=None, rounds=3, classes=2, **options):
    terms = terms_of(x, y, settings, int(owner.max()) + 1, rounds, classes)
    roles = roles_of(terms, x, y, owner, **options)
    states, spoken = play(PROTOCOL, roles)
    return roles, states, spoken


def owners(y, rows):
    """Ways to hold the rows, by name."""
    random = np.random.default_rng(3)
    label = y if y.dtype == np.int64 else (y > np.median(y)).astype(np.int64)
    shares = random.dirichlet([0.1] * 10, label.max() + 1)
    lonely = np.ones(rows, np.int64)
    lonely[rows // 2] = 0
    return {
        "three even": np.arange(rows) % 3,
        "ten Dirichlet": np.array([random.choice(10, p=shares[k]) for k in label]),
        "one has all positives": np.where(label == 1, 0, 1 + np.arange(rows) % 2),
        "one has a single row": np.where(lonely == 0, 0, 1 + np.arange(rows) % 2),
        "empty nodes": np.argsort(np.argsort(np.arange(rows))) * 4 // rows,
    }


@pytest.mark.parametrize(
    ("classes", "settings"),
    [
        (2, Trees(depth=4, bins=16, least_rows=5)),
        (3, Trees(depth=3, bins=8, least_rows=5, patience=2)),
        (0, Trees(depth=3, bins=16, least_rows=5, columns=0.6)),
        (2, Trees(depth=6, bins=16, least_rows=5, grow="leaves", leaves=7)),
        (2, Trees(depth=3, bins=16, least_rows=1)),
        (2, Trees(depth=3, bins=16, least_rows=5, rising=(0,), falling=(3,))),
    ],
    ids=["binary", "softmax", "numbers, columns drawn", "leaves", "two sums", "monotone"],
)
def test_the_model_is_the_same_whoever_holds_which_row(classes, settings):
    x, y = small_rows(classes=classes)
    alone, states, _ = trained(np.zeros(len(y), np.int64), x, y, settings, classes=classes)
    expected = model_of(PROTOCOL, alone, states)
    assert (expected["left"][:, 0] > 0).any()
    for name, owner in owners(y, len(y)).items():
        roles, states, _ = trained(owner, x, y, settings, classes=classes)
        assert digest(model_of(PROTOCOL, roles, states)) == digest(expected), name


SETTINGS = {
    "binary": (2, Trees(depth=4, bins=16, least_rows=5)),
    "softmax": (3, Trees(depth=3, bins=8, least_rows=5, patience=9)),
    "numbers": (0, Trees(depth=3, bins=16, least_rows=20, columns=0.6)),
    "leaves": (2, Trees(depth=6, bins=16, least_rows=5, grow="leaves", leaves=7)),
    "few leaves": (2, Trees(depth=5, bins=16, least_rows=5, leaves=6)),
    "deep": (2, Trees(depth=9, bins=16, least_rows=2, least_weight=0.1)),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_whole_round_has_the_bits_and_the_bytes_of_the_conversation(name):
    classes, settings = SETTINGS[name]
    x, y = small_rows(classes=classes)
    roles, spoken_states, spoken = trained(np.zeros(len(y), np.int64), x, y, settings, classes=classes)
    server, me = roles_of(roles[0].terms, x, y, np.zeros(len(y), np.int64))
    states, _ = play(PROTOCOL, [server, me], last=0)
    party, state = states[0], states[SERVER]
    for round in range(1, 4):
        if round == 3:
            me.kept.clear()
        state, party = PROTOCOL.whole_round(me, state, party, round)
        talk, added = spoken[round]
        assert PROTOCOL.said(me, state, round) == (added, talk.down)
    assert {n: digest({n: a}) for n, a in state.items()} == {
        n: digest({n: a}) for n, a in spoken_states[SERVER].items()
    }
    assert digest(party) == digest(spoken_states[0])


def test_a_tree_needs_as_many_exchanges_as_it_is_deep():
    x, y = small_rows()
    _, _, spoken = trained(np.arange(len(y)) % 3, x, y, Trees(depth=4, bins=16, least_rows=5))
    assert [talk.turns for talk, _ in spoken[1:]] == [2 * 4 + 1] * 3
