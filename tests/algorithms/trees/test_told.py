"""What a party hears of trees: whatever is wrong with it, the sender is named and nothing else goes wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algorithms.trees.conversing import play, roles_of, small_rows, terms_of
from unalike.algorithms.protocol import SERVER, Me, Turn, WrongMail
from unalike.algorithms.trees.counted import questions
from unalike.algorithms.trees.histogram import HistogramTrees
from unalike.algorithms.trees.told import check_tree, depths, told
from unalike.models.trees import Trees
from unalike.rounds.conversation import InProcess
from unalike.trees.agreed import own_cuts
from unalike.trees.bins import bin_rows
from unalike.trees.grow import grow
from unalike.trees.objective import objective_of
from unalike.trees.tree import Tree

PROTOCOL = HistogramTrees()


@pytest.fixture(scope="module")
def asked():
    """All that a party is asked in a run: by turn, its state before and its mail."""
    x, y = small_rows(300)
    terms = terms_of(x, y, Trees(depth=3, bins=8, least_rows=5), 2, 2)
    roles, found = roles_of(terms, x, y, np.arange(len(y)) % 2), []

    class Noting(InProcess):
        def turn(self, turn, inboxes):
            if inboxes.get(0):
                found.append((turn, self.states[0], inboxes[0][SERVER]))
            return super().turn(turn, inboxes)

    play(PROTOCOL, roles, carrier=Noting)
    return roles[1], found


def blamed(me, state, turn, mail):
    """Who is named when a party hears this, if anybody."""
    try:
        PROTOCOL.step(me, state, turn, {SERVER: mail})
    except WrongMail as wrong:
        return wrong.sender
    return None


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_wrong_mail_is_always_the_senders_fault(asked, data):
    me, questions_asked = asked
    turn, state, mail = questions_asked[data.draw(st.integers(0, len(questions_asked) - 1))]
    mail = {name: array.copy() for name, array in mail.items()}
    name = data.draw(st.sampled_from(sorted(mail)))
    array = mail[name]
    how = data.draw(st.sampled_from(["entry", "type", "shape", "gone"]))
    if how == "entry" and array.size:
        value = data.draw(st.sampled_from([-1, 0, 1, 2, 7, 100, 2**31 - 1, -(2**31)]))
        with np.errstate(over="ignore"):
            array.flat[data.draw(st.integers(0, array.size - 1))] = np.array(value).astype(array.dtype)
    elif how == "type":
        mail[name] = array.astype(np.float32 if array.dtype != np.float32 else np.int32)
    elif how == "shape":
        mail[name] = array[..., None]
    else:
        del mail[name]
    assert blamed(Me(me.terms, 0, me.data, me.draw), state, turn, mail) in (None, SERVER)


@pytest.mark.parametrize("how", ["levels", "leaves"])
def test_sound_trees_are_accepted(how):
    x, y = small_rows()
    options = Trees(depth=5, bins=16, least_rows=5, grow=how, leaves=9)
    cuts, objective = own_cuts(x, 16, 5), objective_of(options, 2)
    g, h = objective.gradients(np.zeros((len(y), 1)), y)
    tree = grow(bin_rows(x, cuts), g[0], h[0], options)
    check_tree(tree, options, cuts)
    assert depths(tree).max() <= 5
    assert questions(tree, options)[-1] == (tree.size, 0)


def test_turns_out_of_order_are_answered_from_what_is_told(asked):
    """A party that was started again in the middle of a round has only the mail to go by."""
    me, found = asked
    turn, state, mail = next(one for one in found if one[0] == Turn(2, 5))
    fresh = Me(me.terms, 0, me.data, me.draw)
    _, say = PROTOCOL.step(fresh, state, turn, {SERVER: mail})
    assert say.add["histograms"].shape[0] == len(mail["wanted"])


def chain(splits, options, **changes):
    """A tree of so many splits, each the left child of the one above, with changes at the root."""
    tree = Tree.empty(options)
    for node in range(splits):
        at = 2 * node - 1 if node else 0
        tree.feature[at], tree.bin[at], tree.left[at], tree.right[at] = 0, 0, 2 * node + 1, 2 * node + 2
    for name, value in changes.items():
        getattr(tree, name)[0] = value
    return tree


def test_trees_are_as_deep_and_split_where_they_may():
    x, _ = small_rows()
    options = Trees(depth=3, bins=16, least_rows=1)
    cuts = own_cuts(x, 16, 5)
    behind_all = len(cuts.of_feature(0))
    check_tree(chain(3, options), options, cuts)
    check_tree(chain(1, options, bin=behind_all), options, cuts)
    own_parent = chain(2, options, left=3, right=4)
    own_parent.left[1], own_parent.right[1] = 1, 2
    for wrong, message in (
        (own_parent, "make no tree"),
        (chain(4, options), "make no tree"),
        (chain(1, options, bin=-1), "does not have"),
        (chain(1, options, bin=behind_all + 1), "does not have"),
        (chain(1, options, left=2, right=2), "make no tree"),
        (chain(2, options, left=0), "make no tree"),
    ):
        with pytest.raises(WrongMail, match=message):
            check_tree(wrong, options, cuts)


@pytest.mark.parametrize("used", [0, 99])
def test_a_tree_has_some_nodes_and_not_too_many(asked, used):
    me, found = asked
    turn, state, mail = next(one for one in found if one[0] == Turn(2, 3))
    longer = {name: np.resize(array, (1, used)) for name, array in mail.items() if name != "wanted"}
    with pytest.raises(WrongMail, match=f"a tree of {used} nodes"):
        PROTOCOL.step(Me(me.terms, 0, me.data, me.draw), state, turn, {SERVER: mail | longer})


def test_a_root_is_asked_for_once(asked):
    """It was answered for at the beginning of the round, whether it is split or not."""
    me, found = asked
    turn, state, mail = next(one for one in found if one[0] == Turn(2, 3))
    no_split = {name: array[:, :1].copy() for name, array in mail.items() if name != "wanted"}
    for name in ("feature", "bin", "left", "right"):
        no_split[name][:] = -1
    with pytest.raises(WrongMail, match="wants node 0 of output 0"):
        PROTOCOL.step(
            Me(me.terms, 0, me.data, me.draw),
            state,
            turn,
            {SERVER: no_split | {"wanted": np.zeros((1, 2), np.int32)}},
        )


def test_a_node_is_asked_for_once_though_other_questions_lie_between(asked):
    me, found = asked
    me = Me(me.terms, 0, me.data, me.draw)
    turn, state, mail = next(one for one in found if one[0] == Turn(1, 1))
    PROTOCOL.step(me, state, turn, {SERVER: mail})
    for splits, node in ((1, 2), (2, 3), (3, 2)):
        tree = chain(splits, me.terms.model)
        tree.rows[: tree.size] = 2 ** (20 - depths(tree)[: tree.size])
        question = told([tree]) | {"wanted": np.array([[0, node]], np.int32)}
        turn = Turn(1, 2 * splits + 1)
        if splits < 3:
            PROTOCOL.step(me, state, turn, {SERVER: question})
            continue
        with pytest.raises(WrongMail, match="wants a node again"):
            PROTOCOL.step(me, state, turn, {SERVER: question})


def test_a_finished_tree_has_room_for_a_partys_rows(asked):
    """Also where the party was started again and has not seen it grow."""
    me, found = asked
    turn, state, mail = next(one for one in found if one[0] == Turn(2, 1))
    rows = mail["rows"].copy()
    for node in reversed(range(rows.shape[1])):
        left, right = mail["left"][0, node], mail["right"][0, node]
        rows[0, node] = me.terms.model.least_rows if left < 0 else rows[0, left] + rows[0, right]
    with pytest.raises(WrongMail, match="this party alone has"):
        PROTOCOL.step(Me(me.terms, 0, me.data, me.draw), state, turn, {SERVER: mail | {"rows": rows}})


@pytest.mark.parametrize("how", ["equal", "falling", "start", "endless", "many"])
def test_cuts_ascend_and_begin_at_the_first(asked, how):
    me, found = asked
    turn, state, mail = next(one for one in found if "starts" in one[2])
    mail = {name: array.copy() for name, array in mail.items()}
    assert mail["starts"][1] > 1
    if how == "start":
        mail["starts"][0] = 1
    elif how == "many":  # so many cuts make one bin more
        mail["values"] = np.arange(me.terms.model.bins, dtype=np.float32)
        mail["starts"][1:] = me.terms.model.bins
    elif how == "endless":
        mail["base"][0] = np.inf
    else:
        mail["values"][1] = mail["values"][0] - (how == "falling")
    assert blamed(Me(me.terms, 0, me.data, me.draw), state, turn, mail) == SERVER
