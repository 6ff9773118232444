"""Trees from sums: the same bits for every split of rows, after every restart, and in one go."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from tests.algorithms.trees.conversing import begin, digest, model_of, play, roles_of, small_rows, terms_of
from unalike.algorithms.protocol import SERVER, Me, Turn, WrongMail
from unalike.algorithms.trees.alone import LocalTrees
from unalike.algorithms.trees.bagging import BaggedTrees
from unalike.algorithms.trees.cyclic import CyclicTrees
from unalike.algorithms.trees.histogram import HistogramTrees
from unalike.algorithms.trees.shelf import allowed_columns
from unalike.errors import UserError
from unalike.models.trees import Trees
from unalike.rounds.conversation import InProcess, added
from unalike.trees.agreed import own_cuts
from unalike.trees.bins import bin_rows
from unalike.trees.ensemble import Ensemble
from unalike.trees.grow import grow
from unalike.trees.objective import objective_of

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
        (0, Trees(depth=3, bins=16, least_rows=5, objective="poisson")),
    ],
    ids=["binary", "softmax", "numbers, columns drawn", "leaves", "two sums", "monotone", "counts"],
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


def test_a_whole_round_from_another_state_forgets_the_last():
    x, y = small_rows()
    everybody = np.zeros(len(y), np.int64)
    server, me = roles_of(terms_of(x, y), x, y, everybody)
    states, _ = play(PROTOCOL, [server, me], last=0)
    first = PROTOCOL.whole_round(me, states[SERVER], states[0], 1)
    other = {**first[1], "margins": first[1]["margins"] + 0.5}
    again, fresh = me, roles_of(terms_of(x, y), x, y, everybody)[1]
    found, expected = (PROTOCOL.whole_round(one, first[0], other, 2) for one in (again, fresh))
    assert [digest(state) for state in found] == [digest(state) for state in expected]


def test_each_tree_draws_its_own_columns():
    terms = terms_of(*small_rows(10), Trees(columns=0.4))
    drawn = np.array([allowed_columns(terms, number) for number in range(20)])
    assert (drawn.sum(axis=1) == 2).all()
    assert drawn.any(axis=0).all()
    assert (drawn == [allowed_columns(terms, number) for number in range(20)]).all()


def test_a_tree_needs_as_many_exchanges_as_it_is_deep():
    x, y = small_rows()
    _, _, spoken = trained(np.arange(len(y)) % 3, x, y, Trees(depth=4, bins=16, least_rows=5))
    assert [talk.turns for talk, _ in spoken[1:]] == [2 * 4 + 1] * 3


def test_trees_are_those_of_the_core_on_all_rows():
    """Cuts, start and trees made with the core alone, without any conversation."""
    x, y = small_rows()
    settings = Trees(depth=4, bins=16, least_rows=5, columns=0.8)
    roles, states, _ = trained(np.arange(len(y)) % 3, x, y, settings, validation=0)
    model, objective = model_of(PROTOCOL, roles, states), objective_of(settings, 2)
    cuts = own_cuts(x, 16, 5)
    base = objective.base(objective.sums(y))
    margins, binned = np.tile(base, (len(y), 1)), bin_rows(x, cuts)
    assert (model["base"] == base).all()
    assert digest(cuts.arrays()) == digest({name: model[name] for name in cuts.arrays()})
    for number in range(3):
        g, h = objective.gradients(margins, y)
        allowed = allowed_columns(roles[0].terms, number)
        assert allowed.sum() == 4
        tree = grow(binned, g[0], h[0], settings, allowed, margins=margins[:, 0])
        for name, array in tree.arrays().items():
            assert (model[name][number] == array).all(), name


def test_resuming_after_any_round_gives_the_same_bits():
    x, y = small_rows(classes=3)
    settings = Trees(depth=3, bins=8, least_rows=5, rows=0.7, columns=0.8, patience=9)
    owner = np.arange(len(y)) % 3
    roles, whole, _ = trained(owner, x, y, settings, classes=3)
    for stop in range(3):
        fresh = roles_of(roles[0].terms, x, y, owner)
        states, _ = play(PROTOCOL, fresh, last=stop)
        saved = {number: {n: a.copy() for n, a in state.items()} for number, state in states.items()}
        again = roles_of(roles[0].terms, x, y, owner)
        resumed, _ = play(PROTOCOL, again, first=stop + 1, states=saved)
        for number, state in whole.items():
            assert digest(resumed[number]) == digest(state)


class Strict(InProcess):
    """Every step is made three times: inputs stay, answers are the same, also with nothing remembered."""

    def turn(self, turn, inboxes):
        for number, inbox in inboxes.items():
            me, state = self._roles[number], self.states[number]
            before = digest(state), {k: digest(v) for k, v in inbox.items()}
            found = []
            for kept in (dict(me.kept), {}, dict(me.kept)):
                again = Me(me.terms, me.number, me.data, me.draw, kept)
                new, say = self._protocol.step(again, state, turn, inbox)
                mail = {k: digest(v) for k, v in say.mail.items()}
                found.append((digest(new), mail, digest(say.add or {}), dict(say.figures)))
            assert found[0] == found[1] == found[2]
            assert before == (digest(state), {k: digest(v) for k, v in inbox.items()})
        return super().turn(turn, inboxes)


@pytest.mark.parametrize("protocol", [HistogramTrees(), BaggedTrees(), CyclicTrees(), LocalTrees()])
def test_steps_are_pure_and_states_keep_their_shapes(protocol):
    x, y = small_rows(300, classes=3)
    settings = Trees(depth=3, bins=8, least_rows=5, rows=0.7, patience=9)
    terms = terms_of(x, y, settings, 3, 2, 3)
    roles = roles_of(terms, x, y, np.arange(len(y)) % 3)
    before = begin(protocol, roles)
    after, _ = play(protocol, roles, carrier=Strict)
    for number, state in before.items():
        layout = {name: (array.dtype, array.shape) for name, array in state.items()}
        assert layout == {name: (array.dtype, array.shape) for name, array in after[number].items()}


def test_few_missing_values_are_moved_and_predicted_alike():
    """Fewer than ``least_rows`` are missing in a column: they count as a common number, also for new rows."""
    x, y = small_rows()
    x[:, 3] = np.where(np.isnan(x[:, 3]), 0.5, x[:, 3])
    x[[3, 50, 77], 0] = np.nan
    settings = Trees(depth=4, bins=16, least_rows=5)
    roles, states, _ = trained(np.arange(len(y)) % 2, x, y, settings, rounds=4, validation=0)
    model = model_of(PROTOCOL, roles, states)
    before = {
        **model,
        "left": model["left"].copy(),
        "value": model["value"].copy(),
        "cover": model["cover"].copy(),
    }
    for name, empty in (("left", -1), ("value", 0), ("cover", 0)):
        before[name][3] = empty  # parties hear of the last trees in the next round
    for me in roles[1:]:
        found = Ensemble.of(before, settings, 2).margins(me.rows.x)
        assert (found == states[me.number]["margins"]).all()
    assert (model["feature"] == 0).any()


def changed(name, place, value):
    def change(mail):
        mail[name] = mail[name].copy()
        mail[name][place] = value

    return change


LIES = {
    "another split than before": (5, changed("bin", (0, 0), 3), "another 'bin'"),
    "another tree than before": (1, changed("bin", (0, 0), 3), "another 'bin'"),
    "no column": (3, changed("feature", (0, 0), 77), "none of the 5"),
    "no bin": (3, changed("bin", (0, 0), 99), "does not have"),
    "no tree": (3, changed("left", (0, 0), 2), "make no tree"),
    "too few rows": (3, changed("rows", (0, 1), 2), "node of 2 rows"),
    "rows that do not add up": (3, changed("rows", (0, 0), 10_000), "do not add up"),
    "a node that is split": (5, changed("wanted", (0, 1), 0), "no leaf"),
    "a node that has children": (5, changed("wanted", (0, 1), 1), "no leaf"),
    "no node": (3, changed("wanted", (0, 1), 9), "no leaf"),
    "no output": (3, changed("wanted", (0, 0), 5), "no leaf"),
    "other types": (3, lambda mail: mail.update(feature=mail["feature"].astype(np.int64)), "int32"),
    "less": (3, lambda mail: mail.pop("left"), "was to say 'left'"),
    "no number": (1, changed("value", (0, 0), np.nan), "no number"),
    "siblings": (
        3,
        lambda mail: mail.update(wanted=np.array([[0, 1], [0, 2]], np.int32)),
        "node and its sibling",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_parties_refuse_what_the_server_may_not_ask(lie):
    when, change, message = LIES[lie]
    x, y = small_rows()
    terms = terms_of(x, y, Trees(depth=4, bins=16, least_rows=5), 2, 2)
    roles = roles_of(terms, x, y, np.arange(len(y)) % 2)

    class Liar(InProcess):
        def turn(self, turn, inboxes):
            if turn == Turn(2, when):
                inboxes = {
                    k: {sender: dict(mail) for sender, mail in inbox.items()} for k, inbox in inboxes.items()
                }
                change(inboxes[1][SERVER])
            return super().turn(turn, inboxes)

    with pytest.raises(WrongMail, match=message) as refused:
        play(PROTOCOL, roles, carrier=Liar)
    assert refused.value.sender == SERVER


def test_a_party_with_more_rows_than_all_is_told_a_lie():
    x, y = small_rows()
    terms = terms_of(x, y, Trees(depth=3, bins=16, least_rows=5), 2, 1)
    roles = roles_of(terms, x, y, np.arange(len(y)) % 2)

    class Liar(InProcess):
        def turn(self, turn, inboxes):
            if turn == Turn(1, 3):
                for inbox in inboxes.values():
                    mail = inbox[SERVER]
                    mail["rows"] = np.where(mail["rows"] > 0, [[20, 10, 10]], -1)
            return super().turn(turn, inboxes)

    with pytest.raises(WrongMail, match="this party alone has"):
        play(PROTOCOL, roles, carrier=Liar)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("rows", lambda a: a[:, :-1]),
        ("rows", lambda a: a.astype(np.float64)),
        ("labels", lambda a: a[None]),
    ],
)
def test_sums_of_another_shape_or_type_are_refused(name, change):
    x, y = small_rows()
    terms = terms_of(x, y, None, 2, 1)
    roles = roles_of(terms, x, y, np.arange(len(y)) % 2)

    def summing(turn, parts):
        total = added(parts)
        return total | {name: change(total[name])}

    with pytest.raises(WrongMail, match=f"The sum said {name!r}"):
        play(PROTOCOL, roles, carrier=lambda *args: InProcess(*args, summing))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("division", 0, 2), "division 2 in turn 3"),
        (changed("low", 0, 12345), "buckets that are none"),
        (changed("column", 0, -1), "buckets that are none"),
        (changed("column", -1, 99), "buckets that are none"),
        (
            lambda mail: mail.update(column=np.zeros(200, np.int64), low=np.arange(200, dtype=np.int64) << 23),
            "too many of a column",
        ),
    ],
)
def test_parties_count_only_in_buckets_that_may_be_asked_for(change, message):
    x, y = small_rows()
    roles = roles_of(terms_of(x, y, None, 1, 1), x, y, np.zeros(len(y), np.int64))

    class Liar(InProcess):
        def turn(self, turn, inboxes):
            if turn == Turn(0, 3):
                change(inboxes[0][SERVER])
            return super().turn(turn, inboxes)

    with pytest.raises(WrongMail, match=message):
        play(PROTOCOL, roles, carrier=Liar)


def test_patience_without_validation_rows_is_refused():
    x, y = small_rows(100)
    roles = roles_of(terms_of(x, y, Trees(patience=3)), x, y, np.zeros(len(y), np.int64), validation=0)
    with pytest.raises(UserError, match="patience=3 needs validation rows"):
        play(PROTOCOL, roles)


def test_sparse_rows_and_images_are_rows_too():
    x, y = small_rows()
    x = np.nan_to_num(x)
    owner, settings = np.arange(len(y)) % 2, Trees(depth=3, bins=16, least_rows=5)
    dense = trained(owner, x, y, settings)
    terms = dense[0][0].terms
    roles = roles_of(terms, csr_matrix(x), y, owner)
    images = roles_of(terms, x.reshape(len(x), 1, 1, 5), y, owner)
    for others in (roles, images):
        states, _ = play(PROTOCOL, others)
        assert digest(model_of(PROTOCOL, others, states)) == digest(model_of(PROTOCOL, dense[0], dense[1]))


def test_scores_are_near_those_of_another_library():
    bunch = load_breast_cancer()
    x, y = bunch.data.astype(np.float32), bunch.target.astype(np.int64)
    test = np.arange(len(y)) % 3 == 0
    settings = Trees(depth=4, bins=64, eta=0.2, least_rows=5)
    own, labels = x[~test], y[~test]
    roles, states, _ = trained(np.arange(len(labels)) % 4, own, labels, settings, rounds=20, validation=0)
    margins = Ensemble.of(model_of(PROTOCOL, roles, states), settings, 2).margins(x[test])[:, 0]
    alike = {"learning_rate": 0.2, "max_iter": 20, "max_depth": 4, "max_leaf_nodes": None, "min_samples_leaf": 5}
    other = HistGradientBoostingClassifier(**alike, l2_regularization=1.0, early_stopping=False, max_bins=64)
    other.fit(own, labels)
    theirs = other.decision_function(x[test])
    assert np.corrcoef(margins, theirs)[0, 1] > 0.97
    assert abs(roc_auc_score(y[test], margins) - roc_auc_score(y[test], theirs)) < 0.01
    assert roc_auc_score(y[test], margins) > 0.97
