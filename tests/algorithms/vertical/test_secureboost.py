"""SecureBoost gives the trees of joint training to the bit, and what is said is only what has to be."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from tests.algorithms.vertical import boosting, talking
from tests.algorithms.vertical.boosting import joint_arrays, people, short_keys, small
from unalike.algorithms.protocol import SERVER, WrongMail
from unalike.algorithms.trees.own_rows import with_directions
from unalike.algorithms.vertical import boost_host, boost_sealed
from unalike.algorithms.vertical.secureboost import SecureBoost
from unalike.errors import UserError
from unalike.rounds.conversation import InProcess
from unalike.trees.agreed import own_agreement
from unalike.trees.bins import bin_rows
from unalike.trees.ensemble import Ensemble
from unalike.trees.grow import add_values, grow
from unalike.trees.objective import objective_of


def trained(
    protocol, blocks, y, *, classes=2, rounds=2, label_holder=0, validation=0, carrier=InProcess, **settings
):
    """The terms, roles, states, what was spoken, and the model of somebody who has all columns."""
    terms = talking.terms_of(
        blocks, y, model=small(**settings), rounds=rounds, classes=classes, label_holder=label_holder
    )
    roles = talking.roles_of(terms, blocks, y, validation)
    states, spoken = talking.play(protocol, roles, carrier=carrier)
    arrays = talking.joined(protocol, roles, states)
    return terms, roles, states, spoken, Ensemble.of(arrays, terms.model, classes, terms.target)


CASES = {
    "two classes": {},
    "three classes": {"classes": 3},
    "numbers": {"classes": 0, "least_rows": 1},
    "labels in the middle": {"label_holder": 1, "depth": 2},
    "leaf by leaf": {"grow": "leaves", "leaves": 5, "depth": 4},
    "few leaves, by levels": {"leaves": 5, "depth": 4},
    "single rows": {"least_rows": 1, "least_weight": 0.0, "depth": 4},
    "a share of columns": {"columns": 0.5},
    "a share of rows": {"rows": 0.7},
    "two holders": {"widths": (3, 4)},
    "labels without columns": {"widths": (0, 3, 3)},
    "counts": {"classes": 0, "objective": "poisson"},
}


@pytest.mark.parametrize("name", CASES)
def test_trees_are_those_of_joint_training_to_the_bit(name, monkeypatch):
    settings = dict(CASES[name])
    classes, widths = settings.get("classes", 2), settings.pop("widths", (2, 3, 2))
    blocks, y = people(160, widths, classes)
    if name == "counts":
        y = np.round(np.abs(y) / 4)
    terms, _, _, _, model = trained(short_keys(monkeypatch), blocks, y, **settings)
    joint = Ensemble.of(joint_arrays(terms, blocks, y), terms.model, classes, terms.target)
    assert model.trees == joint.trees > 0
    for part in model.nodes:
        assert np.array_equal(model.nodes[part], joint.nodes[part]), part
    assert model.sha256 == joint.sha256
    others = [model.nodes["feature"] >= end for end in np.cumsum(widths)[:-1]]
    assert any(other.any() for other in others), "some split is on another party's column"


@pytest.mark.parametrize("seed", range(4))
def test_ties_go_to_the_lowest_party_column_and_bin(seed, monkeypatch):
    """Columns of few values, some at two parties: many splits are equally good."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 3, (60, 3)).astype(np.float32)
    x[random.random(x.shape) < 0.15] = np.nan
    blocks, y = [x[:, :1], np.concatenate([x, -x], axis=1), x[:, 1:]], random.integers(0, 2, 60)
    terms, _, _, _, model = trained(
        short_keys(monkeypatch), blocks, y, label_holder=seed % 3, least_rows=1, least_weight=0.0, depth=4
    )
    joint = Ensemble.of(joint_arrays(terms, blocks, y), terms.model, 2)
    assert model.sha256 == joint.sha256


def test_paillier_and_full_exponents_and_longer_keys_give_the_same_trees(monkeypatch):
    blocks, y = people(80)
    models = [
        trained(short_keys(monkeypatch, **more), blocks, y, rounds=1)[4].sha256
        for more in ({}, {"cipher": "paillier"}, {"exponents": "full"}, {"bits": 768})
    ]
    assert len(set(models)) == 1


def test_sparse_columns_give_the_trees_of_dense_ones(monkeypatch):
    blocks, y = people(100)
    blocks = [np.nan_to_num(block) for block in blocks]
    dense = trained(short_keys(monkeypatch), blocks, y)[4]
    terms = talking.terms_of(blocks, y, model=small(), rounds=2)
    roles = talking.roles_of(terms, blocks, y)
    roles[2:] = [replace(me, data=replace(me.data, x=sparse.csr_matrix(me.data.x))) for me in roles[2:]]
    protocol = short_keys(monkeypatch)
    states, _ = talking.play(protocol, roles)
    assert Ensemble.of(talking.joined(protocol, roles, states), terms.model, 2).sha256 == dense.sha256


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("label_holder", [0, 2])
def test_predicting_together_gives_the_bits_of_the_joined_model_and_of_training(
    classes, label_holder, monkeypatch
):
    blocks, y = people(150, classes=classes)
    protocol = short_keys(monkeypatch)
    _, roles, states, _, model = trained(protocol, blocks, y, classes=classes, label_holder=label_holder)
    x = np.concatenate(blocks, axis=1)
    assert np.array_equal(states[label_holder]["margins"], model.margins(x))
    new, _ = people(40, classes=classes, seed=5)
    new[0][3, 0] = np.nan  # was never missing in training
    together = talking.predicted(protocol, roles, states, new)
    assert np.array_equal(together, model.margins(np.concatenate(new, axis=1)))


def test_the_joined_model_reads_columns_wherever_the_table_has_them(monkeypatch):
    blocks, y = people(120)
    protocol = short_keys(monkeypatch)
    terms, roles, states, _, model = trained(protocol, blocks, y)
    parts = [protocol.model(me, states[me.number], states[SERVER]) for me in roles[1:]]
    columns = [np.array([6, 2]), np.array([0, 5, 1]), np.array([4, 3])]
    arrays = protocol.joined(terms, parts, columns)
    table = np.zeros((120, 7), np.float32)
    for block, places in zip(blocks, columns, strict=True):
        table[:, places] = block
    moved = Ensemble.of(arrays, terms.model, 2)
    assert np.array_equal(moved.margins(table), model.margins(np.concatenate(blocks, axis=1)))
    for block, places in zip(parts, columns, strict=True):
        for own, place in enumerate(places):
            cuts = [
                part["values"][part["starts"][n] : part["starts"][n + 1]]
                for part, n in ((block, own), (arrays, place))
            ]
            assert np.array_equal(*cuts)


def alone_on(terms, blocks, y, owners):
    """Trees of which each looks at one party's columns only, by joint training: an independent reference."""
    x, settings = np.concatenate(blocks, axis=1), terms.model
    cuts, fill = own_agreement(x, settings.bins, settings.least_rows)
    filled = np.where(np.isnan(x) & ~np.isnan(fill), fill, x)
    binned, objective = bin_rows(filled, cuts), objective_of(settings, 2)
    margins = np.zeros((len(y), 1)) + objective.base(objective.sums(y))
    party = np.repeat(np.arange(len(blocks)), [block.shape[1] for block in blocks])
    for owner in owners:
        g, h = objective.gradients(margins, y)
        tree = grow(binned, g[0], h[0], settings, np.isin(party, owner))
        add_values(margins[:, 0], binned, with_directions(tree, {"fill": fill}))
    return margins


@pytest.mark.parametrize(
    ("options", "owners"),
    [
        ({"mix": True}, [1, 2, 0, 1]),
        ({"first": "own"}, [1, [0, 1, 2], [0, 1, 2], [0, 1, 2]]),
    ],
)
def test_rounds_may_be_on_one_partys_columns(options, owners, monkeypatch):
    blocks, y = people(150)
    terms, _, states, spoken, _ = trained(short_keys(monkeypatch, **options), blocks, y, rounds=4, label_holder=1)
    assert np.array_equal(states[1]["margins"], alone_on(terms, blocks, y, owners))
    for round, owner in enumerate(owners, start=1):
        assert (spoken[round].turns == 1) == (owner == 1), "on the label holder's columns nothing is said"


def test_alone_the_label_holder_needs_no_cryptography(monkeypatch):
    def never(*_):
        raise AssertionError("a key was made")

    monkeypatch.setattr(boost_sealed, "make_keys", never)
    blocks, y = people(150, (4,), 3)
    protocol = short_keys(monkeypatch)
    terms, roles, states, spoken, model = trained(protocol, blocks, y, classes=3)
    assert model.sha256 == Ensemble.of(joint_arrays(terms, blocks, y), terms.model, 3).sha256
    assert all(not each.up and each.turns == 1 for each in spoken)
    assert np.array_equal(talking.predicted(protocol, roles, states, blocks), model.margins(blocks[0]))


def test_patience_ends_training_where_joint_training_would_and_the_server_hears_of_it(monkeypatch):
    blocks, y = people(160)
    y = np.random.default_rng(1).integers(0, 2, len(y))  # nothing to learn
    settings = small(patience=2, least_rows=2)
    terms = talking.terms_of(blocks, y, model=settings, rounds=8)
    roles = talking.roles_of(terms, blocks, y, validation=4)
    protocol = short_keys(monkeypatch)
    states = {me.number: protocol.start(me) for me in roles}
    for round in range(9):
        states, _ = talking.play(protocol, roles, round, round, states)
        if protocol.finished(states[SERVER]):
            break
    assert round < 8
    best = int(np.argmin(states[0]["losses"]))
    assert f"after round {best}" in protocol.finished(states[SERVER])
    model = Ensemble.of(talking.joined(protocol, roles, states), settings, 2)
    joint = Ensemble.of(joint_arrays(terms, blocks, y, 4), settings, 2)
    assert model.trees == joint.trees == best
    assert model.sha256 == joint.sha256
    assert np.array_equal(
        talking.predicted(protocol, roles, states, blocks), model.margins(np.concatenate(blocks, axis=1))
    )
    after, spoken = talking.play(protocol, roles, round + 1, round + 1, states)
    assert spoken[0].turns == 1, "nobody grows any more"
    assert np.array_equal(after[0]["margins"], states[0]["margins"])


class Twice(InProcess):
    """Makes every step twice, the second time with nothing remembered and on copies: both must be the same."""

    def step(self, number, turn, inbox):
        state = self.states[number]
        before = copy.deepcopy((state, inbox))
        first = super().step(number, turn, inbox)
        again = replace(self._roles[number], kept={})
        second = self._protocol.step(again, *copy.deepcopy((state, turn, inbox)))
        same((state, inbox), before)
        same(first[0], second[0])
        assert first[1].mail.keys() == second[1].mail.keys()
        for role in first[1].mail:
            same(first[1].mail[role], second[1].mail[role])
        return first


def same(one, other):
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            same(one[name], other[name])
    else:
        for a, b in zip(one, other, strict=True):
            same(a, b)


@pytest.mark.parametrize("settings", [{}, {"grow": "leaves", "rows": 0.8, "patience": 1}])
def test_steps_are_pure_and_states_keep_their_shapes(settings, monkeypatch):
    monkeypatch.setattr(boost_sealed, "MOST_BYTES", 64 * 100)
    monkeypatch.setattr(boost_host, "MOST_BYTES", 64 * 10)
    blocks, y = people(100, classes=3)
    protocol = short_keys(monkeypatch)
    _, roles, states, _, _ = trained(
        protocol, blocks, y, classes=3, rounds=1, validation=3, carrier=Twice, **settings
    )
    for me in roles:
        first = protocol.start(me)
        shapes = [{name: (a.dtype, a.shape) for name, a in state.items()} for state in (first, states[me.number])]
        assert shapes[0] == shapes[1]


def test_what_is_too_much_for_a_mail_goes_in_several_turns(monkeypatch):
    blocks, y = people(100)
    protocol = short_keys(monkeypatch)
    _, _, _, spoken, whole = trained(protocol, blocks, y, rounds=1)
    monkeypatch.setattr(boost_sealed, "MOST_BYTES", 64 * 30)
    monkeypatch.setattr(boost_host, "MOST_BYTES", 64 * 2)
    _, _, _, more, parts = trained(protocol, blocks, y, rounds=1)
    assert parts.sha256 == whole.sha256
    assert more[1].turns > spoken[1].turns + 10
    for name in ("ciphers", "sums"):
        assert more[1].up[name] == spoken[1].up[name]


class Listening(InProcess):
    """Keeps all mail between roles: (turn, sender, receiver, arrays)."""

    heard = None

    def turn(self, turn, inboxes):
        said = super().turn(turn, inboxes)
        for sender, say in said.items():
            self.heard += [(turn, sender, to, arrays) for to, arrays in say.mail.items()]
        return said


def listened(monkeypatch, blocks, y, **settings):
    monkeypatch.setattr(Listening, "heard", [])
    trained(short_keys(monkeypatch), blocks, y, carrier=Listening, **settings)
    return Listening.heard


KNOWN = {"tree", "public", "ciphers", "totals", "moves", "bits", "wanted", "tied", "last"}
SEALED = {"public", "ciphers", "totals"}


def test_a_host_is_told_ciphertexts_and_who_is_together_and_nothing_that_depends_on_labels(monkeypatch):
    """With all labels turned round the trees have the same splits; only ciphertexts may tell, and they do not."""
    blocks, y = people(120)
    stories = [listened(monkeypatch, blocks, labels) for labels in (y, 1 - y)]
    first, second = ([one for one in story if one[1] == 0] for story in stories)
    assert len(first) == len(second) > 4
    for (turn, _, to, a), (again, _, too, b) in zip(first, second, strict=True):
        assert (turn, to) == (again, too)
        assert to != SERVER
        assert a.keys() == b.keys() <= KNOWN
        for name in a:
            if name in SEALED:
                assert a[name].shape == b[name].shape
            else:
                assert np.array_equal(a[name], b[name]), name
    sent = [arrays["ciphers"] for _, _, _, arrays in first + second if "ciphers" in arrays]
    fresh = {row.tobytes() for ciphers in sent[::2] for row in ciphers}
    assert len(fresh) == 120 * len(sent[::2]), "no two ciphertexts are the same: equal derivatives do not show"


def test_every_tree_has_a_key_of_its_own_and_sums_leave_under_numbers_of_their_own(monkeypatch):
    blocks, y = people(120)
    heard = listened(monkeypatch, blocks, y, rounds=3)
    keys = [arrays["public"].tobytes() for _, _, to, arrays in heard if "public" in arrays and to == 1]
    assert len(keys) == len(set(keys)) == 3
    counts = [arrays["rows"][0] for turn, sender, _, arrays in heard if sender == 1 and turn.number == 1]
    assert len(counts) == 3
    assert all(sorted(row) == sorted(counts[0]) for row in counts), "the same splits of all rows are offered"
    assert len({row.tobytes() for row in counts}) == 3, "in another order each time"
    replies = {name for _, sender, to, arrays in heard if sender > 0 for name in arrays}
    assert replies == {"sums", "rows", "chosen", "bits"}
    assert not [1 for _, _, to, _ in heard if to == SERVER]


class Lying(InProcess):
    """Lets party 1 or 0 say something else: ``lie(turn, arrays)`` changes a copy of its mail to the other."""

    liar, lie = 1, None

    def step(self, number, turn, inbox):
        state, say = super().step(number, turn, inbox)
        if number == type(self).liar and say.mail and turn.round == 1:
            mail = {to: type(self).lie(dict(arrays)) or dict(arrays) for to, arrays in say.mail.items()}
            say = replace(say, mail=mail)
        return state, say


def changed(name, change):
    """A lie about one array, where it is said."""
    return lambda arrays: arrays | {name: change(arrays[name].copy())} if name in arrays else None


def without(name):
    return lambda arrays: {key: array for key, array in arrays.items() if key != name}


def at(place, value):
    def change(array):
        array[place] = value
        return array

    return change


HOST_LIES = {
    "no sums": without("sums"),
    "no counts": without("rows"),
    "zeros for ciphertexts": changed("sums", lambda a: a * 0),
    "numbers above the modulus": changed("sums", lambda a: a * 0 + 255),
    "too few ciphertexts": changed("sums", lambda a: a[:0]),
    "too many ciphertexts": changed("sums", lambda a: np.concatenate([a, a])),
    "wide ciphertexts": changed("sums", lambda a: np.pad(a, ((0, 0), (0, 1)))),
    "other ciphertexts": changed("sums", lambda a: np.roll(a, 1, axis=1)),
    "the same for all": changed("sums", lambda a: a[:1].repeat(len(a), axis=0)[:, ::1] if len(a) > 1 else a),
    "counts above the node": changed("rows", lambda a: a + 1000),
    "counts below none": changed("rows", lambda a: a * 0 - 1),
    "counts of another type": changed("rows", lambda a: a.astype(np.int64)),
    "counts of more nodes": changed("rows", lambda a: np.concatenate([a, a])),
    "a split that is not the best": changed("chosen", lambda a: (a + 1).astype(np.int32)),
    "a split that is not there": changed("chosen", lambda a: a * 0 + 9999),
    "short bits": changed("bits", lambda a: a[:-1]),
    "long bits": changed("bits", lambda a: np.append(a, np.uint8(0))),
    "other bits": changed("bits", lambda a: np.roll(a, 1)),
    "bits turned round": changed("bits", at(0, 0)),
    "asks for more than there is": lambda arrays: {"more": np.array([10**6])},
    "asks for ciphertexts again": lambda arrays: {"more": np.array([-1])},
}


@pytest.mark.parametrize("name", HOST_LIES)
def test_a_host_that_says_what_cannot_be_is_named(name, monkeypatch):
    blocks, y = people(120, (1, 6))
    monkeypatch.setattr(Lying, "liar", 1)
    monkeypatch.setattr(Lying, "lie", staticmethod(HOST_LIES[name]))
    with pytest.raises(WrongMail, match=r"^Party 1 ") as wrong:
        trained(short_keys(monkeypatch), blocks, y, rounds=1, carrier=Lying)
    assert wrong.value.sender == 1


def test_rows_that_go_left_have_the_sums_that_were_sent(monkeypatch):
    blocks, y = people(120, (1, 6))
    monkeypatch.setattr(Lying, "liar", 1)
    monkeypatch.setattr(Lying, "lie", staticmethod(changed("bits", lambda a: np.roll(a, 1))))
    with pytest.raises(WrongMail, match=r"^Party 1 sends rows left in node 0 whose sums are not those"):
        trained(short_keys(monkeypatch), blocks, y, rounds=1, carrier=Lying, depth=1)


GUEST_LIES = {
    "no key": without("public"),
    "a short key": changed("public", lambda a: a[:, :-1]),
    "a key of zeros": changed("public", lambda a: a * 0),
    "too many rows": changed("ciphers", lambda a: np.concatenate([a, a])),
    "no rows": changed("ciphers", lambda a: a[:0]),
    "zeros for rows": changed("ciphers", lambda a: a * 0),
    "wide rows": changed("ciphers", lambda a: np.pad(a, ((0, 0), (0, 1)))),
    "zeros for totals": changed("totals", lambda a: a * 0),
    "another tree": changed("tree", lambda a: a + 5),
    "splits of no node": changed("moves", lambda a: a + 1000),
    "splits of nodes without rows": changed("moves", at((0, 0), 5)),
    "short bits": changed("bits", lambda a: a[:-1]),
    "nodes that are not there": changed("wanted", lambda a: a + 1000),
    "nodes without rows": changed("wanted", lambda a: a * 0 + 12),
    "no nodes": changed("wanted", lambda a: a[:0]),
    "splits that were not offered": changed("tied", lambda a: a + 1000),
    "no splits": changed("tied", lambda a: a[:0]),
    "a split that the host did not choose": changed(
        "moves", lambda a: a * 0 + [0, 1, 2, 1, 0] if a[0, 0] else a * 0 - 1
    ),
    "nothing at all": lambda arrays: {"hello": np.zeros(1)},
}


@pytest.mark.parametrize("name", GUEST_LIES)
def test_a_label_holder_that_says_what_cannot_be_is_named(name, monkeypatch):
    blocks, y = people(120, (1, 6))
    monkeypatch.setattr(Lying, "liar", 0)
    monkeypatch.setattr(Lying, "lie", staticmethod(GUEST_LIES[name]))
    with pytest.raises(WrongMail, match=r"^Party 0 "):
        trained(short_keys(monkeypatch), blocks, y, rounds=1, carrier=Lying)


def test_predictions_of_wrong_bits_are_refused(monkeypatch):
    blocks, y = people(120)
    protocol = short_keys(monkeypatch)
    _, roles, states, _, _ = trained(protocol, blocks, y, rounds=1)
    table = {name: array.copy() for name, array in states[2].items()}
    table["feature"][:] = -1
    with pytest.raises(WrongMail, match=r"^Party 2 says who goes left in the wrong form"):
        talking.predicted(protocol, roles, states | {2: table}, blocks)


def test_what_makes_no_sense_is_refused_by_name(monkeypatch):
    with pytest.raises(UserError, match="bits must be from 2048"):
        SecureBoost(bits=1024)
    protocol = short_keys(monkeypatch)
    blocks, y = people(60)
    for settings, problem in (
        ({"rising": (0,)}, "rising"),
        ({"falling": (1,)}, "falling"),
        ({"patience": 1}, "rows"),
    ):
        with pytest.raises(UserError, match=problem):
            trained(protocol, blocks, y, **settings)
    terms = replace(talking.terms_of(blocks, y, model=small()), label_holder=None)
    with pytest.raises(UserError, match="nobody holds labels"):
        protocol.start(talking.roles_of(terms, blocks, y)[1])


def test_every_kind_of_role_is_told_what_it_learns():
    learns = SecureBoost().learns(None)
    assert set(learns) == {"label holder", "other holders", "server"}
    assert SecureBoost().bits == 3072
    assert boosting.small().depth == 3


@pytest.mark.parametrize("name", ["other bits", "bits turned round"])
def test_rows_that_are_sent_left_must_have_the_sums_that_were_decrypted(name, monkeypatch):
    blocks, y = people(120, (1, 6))
    monkeypatch.setattr(Lying, "liar", 1)
    monkeypatch.setattr(Lying, "lie", staticmethod(HOST_LIES[name]))
    with pytest.raises(WrongMail, match=r"sends rows left in node \d+ whose sums are not those that it sent"):
        trained(short_keys(monkeypatch), blocks, y, rounds=1, carrier=Lying)
