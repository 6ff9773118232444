"""What a curious or lying server could find out of sums for trees: each attack works on the naive version only."""

import numpy as np
import pytest

from tests.algorithms.trees.conversing import play, roles_of, small_rows, terms_of
from unalike.algorithms.protocol import SERVER, SUM, Me, Turn, WrongMail
from unalike.algorithms.trees.histogram import HistogramTrees
from unalike.algorithms.trees.own_rows import cuts_in, gradients, training_bins
from unalike.algorithms.trees.shelf import tree_at
from unalike.algorithms.trees.told import told
from unalike.models.trees import Trees
from unalike.rounds.conversation import InProcess, added, converse
from unalike.secure import pairwise
from unalike.trees.arithmetic import GRID
from unalike.trees.grow import Growing, histograms
from unalike.trees.objective import objective_of
from unalike.trees.tree import Tree

PROTOCOL = HistogramTrees()
SETTINGS = Trees(depth=3, bins=16, least_rows=20)
VICTIM = 2


def prepared(settings=SETTINGS, classes=2, x=None, y=None, parties=3, owner=None):
    """Roles and their states after round 0."""
    rows, labels = small_rows(classes=classes)
    x, y = (rows, labels) if x is None else (x, y)
    owner = np.arange(len(y)) % parties if owner is None else owner
    terms = terms_of(x, y, settings, parties, 4, classes)
    roles = roles_of(terms, x, y, owner, validation=0)
    states, _ = play(PROTOCOL, roles, last=0)
    return {me.number: me for me in roles}, states


def step(roles, states, number, turn, mail):
    """Let a role answer; its state is kept."""
    states[number], say = PROTOCOL.step(roles[number], states[number], Turn(1, turn), mail)
    return say


def first_split(roles, states):
    """A round until all parties have been asked for a child of the root: the honest server's words, and sums."""
    opening = step(roles, states, SERVER, 0, {}).mail
    parts = {k: step(roles, states, k, 1, {SERVER: opening[k]}).add for k in range(3)}
    mail = step(roles, states, SERVER, 2, {SUM: added(parts)}).mail[0]
    sums = added({k: step(roles, states, k, 3, {SERVER: mail}).add for k in range(3)})
    return mail, sums


def own_histogram(me, state, rows=None):
    """What a party alone would add for some of its rows: what nobody else may know."""
    binned, (g, h) = training_bins(me, state), gradients(me, state)
    growing = Growing.start(binned.rows if rows is None else rows, me.terms.model)
    return histograms(binned, g[0], h[0], growing, np.array([0]), 3)[0]


# 1. Differencing inside a tree.


@pytest.mark.parametrize("naive", [True, False])
def test_a_node_is_not_answered_for_again_without_one_party(naive):
    roles, states = prepared()
    mail, everybody = first_split(roles, states)
    if not naive:
        for k in range(2):
            with pytest.raises(WrongMail, match="wants a node again"):
                step(roles, states, k, 5, {SERVER: mail})
        return
    rest = []
    for k in range(2):
        roles[k].kept.clear()  # a party that does not remember what it has answered
        rest.append(step(roles, states, k, 5, {SERVER: mail}).add["histograms"])
    stolen = everybody["histograms"][0] - sum(rest)[0]
    node, victim = int(mail["wanted"][0, 1]), roles[VICTIM]
    rows = victim.kept["places"][-1].rows[0].rows(node)
    assert (stolen == own_histogram(victim, states[VICTIM], rows)).all()


@pytest.mark.parametrize("naive", [True, False])
def test_a_question_to_some_parties_only_is_noise_under_masks(naive):
    roles, states = prepared()
    opening = step(roles, states, SERVER, 0, {}).mail
    parts = {k: step(roles, states, k, 1, {SERVER: opening[k]}).add["histograms"].ravel() for k in range(3)}
    secrets = [bytes([k + 1] * 32) for k in range(3)]
    terms = pairwise.terms(bytes(16), [bytes([k] * 32) for k in range(4)], len(parts[0]), b"round 1, turn 1")
    sent = {}
    for k, part in parts.items():
        publics = {j: pairwise.introduction(secrets[j], bytes([9] * 32), b"")[:32] for j in range(3) if j != k}
        keys = {j: pairwise.pair_key(secrets[k], public, b"") for j, public in publics.items()}
        sent[k] = np.frombuffer(pairwise.hide(terms, k, keys, part), np.uint64)[: len(part)].view(np.int64)
    seen = parts if naive else sent
    own = own_histogram(roles[VICTIM], states[VICTIM]).ravel()
    whole = sum(seen.values())
    assert (whole == sum(parts.values())).all()  # what is asked of all is the sum
    stolen = whole - seen[0] - seen[1]
    assert (stolen == own).all() if naive else (stolen != own).mean() > 0.99


# 2. Differencing across trees.


@pytest.mark.parametrize("naive", [True, False])
def test_a_party_that_is_absent_from_a_later_tree_does_not_show(naive):
    """After a stump on squared errors, what all would add next is known for the column that was split."""
    settings = Trees(depth=1, bins=16, least_rows=20)
    roles, states = prepared(settings, classes=0)
    seen = {}

    class Curious(InProcess):
        def turn(self, turn, inboxes):
            if SUM in inboxes.get(SERVER, {}):
                seen[turn.round] = inboxes[SERVER][SUM]["histograms"][0]
            return super().turn(turn, inboxes)

    def play_round(round, present):
        carried = Curious(PROTOCOL, [roles[k] for k in present], states)
        converse(carried, present, round)
        return carried.states

    states = play_round(1, [SERVER, 0, 1, VICTIM])
    if not naive:
        with pytest.raises(WrongMail, match="not there"):
            play_round(2, [SERVER, 0, 1])
        assert "sample" not in PROTOCOL.uses
        return
    # The naive server: it goes on with those who are there.
    for k in (SERVER, 0, 1):
        roles[k] = Me(terms_of(*small_rows(classes=0), settings, 2, 4, 0), k, roles[k].data, roles[k].draw)
    states = play_round(2, [SERVER, 0, 1])
    tree, cuts = tree_at(states[SERVER], 0), cuts_in(states[0])
    slots = np.arange(*cuts.offsets[tree.feature[0] :][:2])
    lefts = np.arange(len(slots)) <= tree.bin[0]
    lefts[-1] = tree.missing_left[0]
    value = np.where(lefts, tree.value[tree.left[0]], tree.value[tree.right[0]])
    expected = seen[1][slots].astype(np.float64)
    expected[:, 0] += np.rint(value * GRID) * expected[:, 2]  # all rows of a bin have moved by as much
    stolen = expected - seen[2][slots]
    own = own_histogram(roles[VICTIM], states[VICTIM])[slots]
    own_moved = own[:, 0] + np.rint(value * GRID) * own[:, 2]
    assert (stolen[:, 1:] == own[:, 1:]).all()
    assert np.abs(stolen[:, 0] - own_moved).max() <= expected[:, 2].sum()


# 3. Small nodes.


def lonely_split(state, x):
    """A tree that a lying server makes up: the row with the greatest number of column 4 has its own leaf."""
    cuts = cuts_in(state)
    tree = Tree.empty(SETTINGS)
    last = len(cuts.of_feature(4)) - 1
    tree.feature[0], tree.bin[0], tree.left[0], tree.right[0] = 4, last, 1, 2
    beyond = x[:, 4] >= cuts.of_feature(4)[last]
    return tree, int(beyond.sum())


@pytest.mark.parametrize("naive", [True, False])
@pytest.mark.parametrize("lies", [True, False])
def test_a_node_of_one_row_is_not_answered_for(naive, lies):
    x, y = small_rows()
    x[:, 4] = np.arange(len(x)) % 7  # one row of many is apart
    x[17, 4] = 1000.0
    settings = SETTINGS if not naive else Trees(depth=3, bins=16, least_rows=1)
    roles, states = prepared(settings, x=x, y=y)
    if not naive:  # cuts that ours would never have: as if the server had smuggled one in
        values, starts = cuts_in(states[0]).values, cuts_in(states[0]).starts.copy()
        starts[5] += 1
        for state in states.values():
            state["values"] = np.append(np.append(values, np.float32(500)), np.zeros(9, np.float32))
            state["starts"] = starts
    opening = step(roles, states, SERVER, 0, {}).mail
    for k in range(3):
        step(roles, states, k, 1, {SERVER: opening[k]})
    tree, count = lonely_split(states[0], x)
    assert count == 1
    tree.rows[0], tree.rows[2] = len(y), SETTINGS.least_rows if lies else count
    tree.rows[1] = tree.rows[0] - tree.rows[2]
    mail = told([tree]) | {"wanted": np.array([[0, 2]], np.int32)}
    owner = 17 % 3
    roles[owner] = Me(roles[owner].terms, owner, roles[owner].data, roles[owner].draw, {}, 0 if naive else 5)
    if not naive and not lies:
        with pytest.raises(WrongMail, match=r"node of 1 rows\. At least 20"):
            step(roles, states, owner, 3, {SERVER: mail})
        return
    g = sum(step(roles, states, k, 3, {SERVER: mail}).add["histograms"] for k in range(3))[0][:, 0]
    slots = cuts_in(states[0]).offsets
    label = int(g[slots[4] : slots[5]].sum() < 0)  # p - y is negative for positives alone
    if naive:
        assert label == y[17]
    else:
        assert not g.any()  # its owner's own bound keeps the row at home, whatever it is told


def test_honest_trees_have_no_small_nodes():
    x, y = small_rows()
    terms = terms_of(x, y, SETTINGS, 3, 3)
    roles = roles_of(terms, x, y, np.arange(len(y)) % 3)
    seen = []

    class Curious(InProcess):
        def turn(self, turn, inboxes):
            if turn.round and SUM in inboxes.get(SERVER, {}):
                seen.append(inboxes[SERVER][SUM]["histograms"])
            return super().turn(turn, inboxes)

    states, _ = play(PROTOCOL, roles, carrier=Curious)
    column = slice(0, int(cuts_in(states[0]).offsets[1]))
    assert min(part[:, column, 2].sum(axis=1).min() for part in seen) >= SETTINGS.least_rows
    used = states[SERVER]["rows"] >= 0
    assert states[SERVER]["rows"][used].min() >= SETTINGS.least_rows


# 4. Rare bins.


@pytest.mark.parametrize("naive", [True, False])
@pytest.mark.parametrize("rare", ["value", "missing"])
def test_a_rare_value_has_no_bin_of_its_own(naive, rare):
    """One person has a value (or a hole) that nobody else has: the first sums would tell the label."""
    x, y = small_rows()
    x[:, 4] = np.arange(len(x)) % 2
    x[33, 4] = 7.0 if rare == "value" else np.nan
    settings = Trees(depth=3, bins=16, least_rows=1 if naive else 20)
    roles, states = prepared(settings, x=x, y=y)
    opening = step(roles, states, SERVER, 0, {}).mail
    sums = added({k: step(roles, states, k, 1, {SERVER: opening[k]}).add for k in range(3)})["histograms"][0]
    p = objective_of(settings, 2).probabilities(np.array([states[0]["base"]]))[0, 1]
    rows = np.rint(sums[:, 1] / (p * (1 - p) * GRID))  # second derivatives are all the same at first
    slots = cuts_in(states[0]).offsets
    cell = np.flatnonzero(rows[slots[4] : slots[5]] == 1) + slots[4]
    if naive:
        assert len(cell) == 1
        assert int(sums[cell[0], 0] < 0) == y[33]
    else:
        assert not len(cell)
        assert rows[rows > 0].min() >= settings.least_rows
