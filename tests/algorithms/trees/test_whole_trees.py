"""Trees that parties grow on their own rows: bagged, in turn, and alone."""

import numpy as np
import pytest

from tests.algorithms.trees.conversing import digest, model_of, play, roles_of, small_rows, terms_of
from unalike.algorithms.protocol import SERVER, WrongMail
from unalike.algorithms.trees.alone import LocalTrees
from unalike.algorithms.trees.bagging import BaggedTrees
from unalike.algorithms.trees.boosting import NOT_HEARD, has_ended
from unalike.algorithms.trees.cyclic import CyclicTrees
from unalike.algorithms.trees.histogram import HistogramTrees
from unalike.models.trees import Trees
from unalike.trees.bins import bin_rows
from unalike.trees.cuts import Cuts
from unalike.trees.grow import add_values
from unalike.trees.objective import objective_of
from unalike.trees.tree import Tree

SETTINGS = Trees(depth=3, bins=16, least_rows=5)


def trained(protocol, parties=3, classes=2, rounds=4, settings=SETTINGS, owner=None, **options):
    x, y = small_rows(classes=classes)
    owner = np.arange(len(y)) % parties if owner is None else owner
    terms = terms_of(x, y, settings, parties, rounds, classes)
    roles = roles_of(terms, x, y, owner, **options)
    states, spoken = play(protocol, roles)
    return roles, states, spoken


def margins(model, x, settings, classes):
    """The margins of a model's arrays for rows, tree by tree."""
    outputs = len(model["base"])
    binned = bin_rows(x, Cuts.of(model))
    found = np.tile(model["base"], (len(x), 1))
    for number in np.flatnonzero(model["cover"][:, 0] > 0):
        tree = Tree.of({name: model[name][number] for name in Tree.empty(settings).arrays()})
        add_values(found[:, number % outputs], binned, tree)
    return found


@pytest.mark.parametrize("protocol", [BaggedTrees(), BaggedTrees(weights="rows"), CyclicTrees()])
@pytest.mark.parametrize("classes", [2, 3])
def test_one_party_has_the_trees_of_sums(protocol, classes):
    roles, states, _ = trained(protocol, 1, classes)
    pooled, sums, _ = trained(HistogramTrees(), 1, classes)
    assert digest(model_of(protocol, roles, states)) == digest(model_of(HistogramTrees(), pooled, sums))


@pytest.mark.parametrize("protocol", [BaggedTrees(), CyclicTrees(), LocalTrees()])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_training_lowers_the_loss(protocol, classes):
    roles, states, _ = trained(protocol, 3, classes)
    for me in roles[1:]:
        model = protocol.model(me, states[me.number], states[SERVER]) or model_of(protocol, roles, states)
        objective = objective_of(SETTINGS, classes, me.terms.target)
        y = me.rows.y
        before = objective.losses(np.tile(model["base"], (len(y), 1)), y)
        assert objective.losses(margins(model, me.rows.x, SETTINGS, classes), y) < 0.8 * before


def test_bagging_adds_the_mean_of_what_each_party_would():
    roles, states, spoken = trained(BaggedTrees(), 3, rounds=1)
    model = model_of(BaggedTrees(), roles, states)
    assert (model["cover"][:, 0] > 0).sum() == 3
    for party, me in enumerate(roles[1:]):
        cover = model["cover"][party, 0]
        y, base = me.rows.y[me.rows.train], model["base"][0]
        g, h = objective_of(SETTINGS, 2).gradients(np.full((len(y), 1), base), y)
        assert cover == h.sum() / 2**20
        whole = -(g.sum() / 2**20) / (h.sum() / 2**20 + 1) * SETTINGS.eta / 3
        assert np.isclose(model["value"][party, 0], whole)
    assert spoken[1][0].turns == 3


def test_bagging_by_rows_listens_to_large_parties():
    owner = (np.arange(600) >= 500).astype(np.int64)
    roles, states, _ = trained(BaggedTrees(weights="rows"), 2, rounds=1, owner=owner)
    even, others, _ = trained(BaggedTrees(), 2, rounds=1, owner=owner)
    by_rows, equal = (model_of(BaggedTrees(), *pair)["value"][:, 0] for pair in ((roles, states), (even, others)))
    sizes = np.array([len(me.rows.train) for me in roles[1:]])
    assert np.allclose(by_rows / equal, 2 * sizes / sizes.sum())


def test_cyclic_trees_are_those_of_the_party_whose_turn_it_is():
    owner = np.concatenate([np.zeros(450, np.int64), np.ones(100, np.int64), np.full(50, 2)])
    roles, states, _ = trained(CyclicTrees(), 3, rounds=5, owner=owner)
    rows = model_of(CyclicTrees(), roles, states)["rows"][:, 0]
    assert rows.tolist() == [len(roles[1 + round % 3].rows.train) for round in range(5)]


def test_alone_is_sums_with_one_party_and_nothing_is_said():
    roles, states, spoken = trained(LocalTrees(), 2, rounds=3)
    x, y = small_rows()
    terms = terms_of(x, y, SETTINGS, 1, 3)
    one = roles_of(terms, x, y, np.zeros(len(y), np.int64), validation=0)[0], roles[2]
    alone = [one[0], type(one[1])(terms, 0, one[1].data, one[1].draw)]
    sums, _ = play(HistogramTrees(), alone)
    own = LocalTrees().model(roles[2], states[1], states[SERVER])
    assert digest(own) == digest(model_of(HistogramTrees(), alone, sums))
    assert all(talk.turns == 1 and not added for talk, added in spoken)
    assert LocalTrees().model(roles[0], states[SERVER], states[SERVER]) is None


@pytest.mark.parametrize("protocol", [BaggedTrees(), CyclicTrees(), LocalTrees(), HistogramTrees()])
def test_patience_ends_training_and_keeps_the_best(protocol):
    settings = Trees(depth=6, bins=16, least_rows=2, least_weight=0, eta=1.0, l2=0, patience=2)
    roles, states, spoken = trained(protocol, 2, rounds=30, settings=settings, validation=5)
    if isinstance(protocol, LocalTrees):
        models = [(protocol.model(me, states[me.number], states[SERVER]), me) for me in roles[1:]]
    else:
        assert len(spoken) < 31
        assert "validation" in protocol.finished(states[SERVER])
        models = [(model_of(protocol, roles, states), None)]
    for model, me in models:
        own = roles[1:] if me is None else [me]
        x, y = (np.concatenate([getattr(m.rows, n)[m.rows.validation] for m in own]) for n in "xy")
        a_round = 2 if isinstance(protocol, BaggedTrees) else 1
        grown = int((model["cover"][:, 0] > 0).sum())
        loss = objective_of(settings, 2).losses(margins(model, x, settings, 2), y)
        assert 0 < grown < 25 * a_round
        for fewer in range(grown // a_round):
            less = {**model, "cover": model["cover"].copy()}
            less["cover"][fewer * a_round :] = 0
            assert objective_of(settings, 2).losses(margins(less, x, settings, 2), y) >= loss


def test_a_party_that_sends_no_tree_is_named():
    x, y = small_rows()
    terms = terms_of(x, y, SETTINGS, 3, 2)
    roles = roles_of(terms, x, y, np.arange(len(y)) % 3)

    class Broken(BaggedTrees):
        def answer(self, me, state, turn, inbox):
            state, say = super().answer(me, state, turn, inbox)
            if me.number == 1:
                say.mail[SERVER]["left"] = np.full_like(say.mail[SERVER]["left"], 1)
            return state, say

    with pytest.raises(WrongMail, match="Party 1 tells nodes that make no tree"):
        play(Broken(), roles)


@pytest.mark.parametrize(
    ("losses", "ends"),
    [([9, 5], False), ([9, 5, 6], False), ([9, 5, 6, 5], True), ([9, 9, 9], True), ([9], False)],
)
def test_so_many_trees_in_vain_end_it_and_no_fewer(losses, ends):
    known = np.full(8, NOT_HEARD, np.int64)
    known[: len(losses)] = losses
    assert bool(has_ended({"patience": np.array([2]), "losses": known})) is ends
    assert not has_ended({"patience": np.array([0]), "losses": known})
