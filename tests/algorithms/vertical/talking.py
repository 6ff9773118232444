"""People whom several parties know by different columns, and ways to let protocols talk about them."""

import itertools
from dataclasses import replace

import numpy as np

from unalike.algorithms.protocol import SERVER, Me, Own, Pace, PublicTerms
from unalike.rounds.conversation import InProcess, converse, role_random, role_secret


def people(rows=200, widths=(3, 4, 2), classes=2, seed=0):
    """Blocks of columns, and labels that follow from all of them."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, sum(widths)))
    score = (
        x @ random.normal(size=(sum(widths), max(1, classes))) + random.normal(size=(rows, max(1, classes))) * 0.3
    )
    y = score[:, 0] * 3 + 10 if classes == 0 else (score[:, 0] > 0) if classes == 2 else score.argmax(1)
    return np.split(x, np.cumsum(widths)[:-1], axis=1), y.astype(np.float64 if classes == 0 else np.int64)


def terms_of(blocks, y, *, model=None, rounds=3, classes=2, seed=7, label_holder=0, **pace):
    target = (float(y.mean()), float(y.std())) if classes == 0 else (0.0, 1.0)
    widths = tuple(block.shape[1] for block in blocks)
    return PublicTerms(
        len(blocks),
        rounds,
        seed,
        model,
        sum(widths),
        classes,
        target,
        label_holder=label_holder,
        columns=widths,
        pace=Pace(**pace),
    )


def roles_of(terms, blocks, y, validation=0, apart=None):
    """The server and the parties; every ``validation``-th person is for validation, of all at the same places.

    ``apart``: by party, a block of rows that it alone knows.
    """
    everybody = np.arange(len(y))
    kept = everybody % validation == 0 if validation else np.zeros(len(y), bool)
    seed = terms.seed
    roles = [Me(terms, SERVER, None, role_random(seed, SERVER), draw_secret=role_secret(seed, SERVER))]
    for party, block in enumerate(blocks):
        extra = (apart or {}).get(party, np.zeros((0, block.shape[1])))
        rows = Own(
            np.concatenate([block, extra]),
            y if party == terms.label_holder else y[:0],
            everybody[~kept],
            everybody[kept],
            np.arange(len(y), len(y) + len(extra)),
        )
        roles.append(Me(terms, party, rows, role_random(seed, party), draw_secret=role_secret(seed, party)))
    return roles


def play(protocol, roles, first=0, last=None, states=None, carrier=InProcess):
    """The states after the rounds up to ``last``, and what was spoken in each round."""
    states = states or {me.number: protocol.start(me) for me in roles}
    terms, spoken = roles[0].terms, []
    for round in range(first, (terms.rounds if last is None else last) + 1):
        carried = carrier(protocol, roles, states)
        spoken.append(
            converse(carried, [me.number for me in roles], round, record_of=(SERVER, terms.label_holder))
        )
        states = carried.states
    return states, spoken


def predicted(protocol, roles, states, blocks, round=1):
    """The margins that the label holder gets for other people, by a conversation."""
    asked = []
    for me in roles:
        if me.data is None:
            asked.append(replace(me, kept={}))
            continue
        block = blocks[me.number]
        rows = Own(block, me.data.y[:0], np.arange(len(block)), np.arange(0))
        asked.append(replace(me, data=rows, kept={}))
    carried = InProcess(protocol, asked, states)
    converse(carried, [me.number for me in asked], round, "predict")
    return carried.states[roles[0].terms.label_holder]["margins"]


def joined(protocol, roles, states):
    """The arrays of the model of somebody who has all columns, side by side in the order of parties."""
    terms = roles[0].terms
    ends = np.cumsum([0, *terms.columns])
    columns = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
    parts = [protocol.model(me, states[me.number], states[SERVER]) for me in roles if me.number != SERVER]
    return protocol.joined(terms, parts, columns)
