"""Linear models of split columns: the weights of joint training, in float64 and exactly on the grid."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tests.algorithms.vertical.checking import check_columns
from tests.algorithms.vertical.talking import joined, people, play, predicted, roles_of, terms_of
from unalike.algorithms import ALGORITHMS
from unalike.algorithms.protocol import SERVER, SUM, Turn, WrongMail
from unalike.algorithms.vertical.batches import batches
from unalike.errors import UserError

CASES = [(2, 0.5), (4, 0.3), (0, 0.1)]
PACE = {"batch_size": 48, "epochs": 3.0, "lr_decay": 0.9}


def vertical(**fields):
    return replace(ALGORITHMS.build("vertical"), **fields)


def residual(z, y, classes, target):
    """The derivative of the loss by scores, written another way than in the package."""
    if classes == 0:
        return z - ((y - target[0]) / target[1])[:, None]
    if classes == 2:
        return 1 / (1 + np.exp(-z)) - y[:, None]
    e = np.exp(z)
    return e / e.sum(1, keepdims=True) - np.eye(classes)[y]


def joint(terms, x, y, l2=0.0):
    """Weights and intercept of plain gradient descent on one table, in float64."""
    outputs = 1 if terms.classes in (0, 2) else terms.classes
    w, b = np.zeros((x.shape[1], outputs)), np.zeros(outputs)
    for round in range(1, terms.rounds + 1):
        lr = terms.pace.lr * terms.pace.lr_decay ** (round - 1)
        for batch in batches(terms, len(x), round):
            r = residual(x[batch] @ w + b, y[batch], terms.classes, terms.target)
            w, b = w - lr * (x[batch].T @ r / len(batch) + l2 * w), b - lr * r.mean(0)
    return w, b


def joint_on_grid(terms, x, y, l2=0.0, order=batches):
    """The same with products of whole numbers: columns of 2^-20, weights and residuals of 2^-24."""
    outputs = 1 if terms.classes in (0, 2) else terms.classes
    w, b = np.zeros((x.shape[1], outputs)), np.zeros(outputs)
    whole = np.round(x * 2.0**20).astype(np.int64)
    for round in range(1, terms.rounds + 1):
        lr = terms.pace.lr * terms.pace.lr_decay ** (round - 1)
        for batch in order(terms, len(x), round):
            z = whole[batch] @ np.round(w * 2.0**24).astype(np.int64)
            z += np.round(b * 2.0**24).astype(np.int64) * 2**20
            r = residual(z.astype(float) * 2.0**-44, y[batch], terms.classes, terms.target)
            r = np.round(r * 2.0**24).astype(np.int64)
            g = (whole[batch].T @ r).astype(float) * 2.0**-44 / len(batch)
            w = w - lr * (g + l2 * w if l2 else g)
            b = b - lr * (r.sum(0).astype(float) * 2.0**-24 / len(batch))
    return w, b


def trained(protocol, blocks, y, **terms):
    roles = roles_of(terms_of(blocks, y, **terms), blocks, y)
    states, spoken = play(protocol, roles)
    return roles, states, spoken


def weights_of(roles, states):
    holder = roles[0].terms.label_holder
    parties = [me.number for me in roles if me.number != SERVER]
    return np.concatenate([states[k]["weights"] for k in parties]), states[holder]["bias"]


@pytest.mark.parametrize(("classes", "lr"), CASES)
@pytest.mark.parametrize("l2", [0.0, 0.01])
@pytest.mark.parametrize("holder", [0, 2])
def test_in_the_clear_it_is_joint_training(classes, lr, l2, holder):
    blocks, y = people(300, (4, 3, 5), classes)
    terms = {"classes": classes, "lr": lr, "label_holder": holder, **PACE}
    roles, states, _ = trained(vertical(l2=l2, protect="clear"), blocks, y, **terms)
    w, b = joint(roles[0].terms, np.concatenate(blocks, axis=1), y, l2)
    own, bias = weights_of(roles, states)
    assert np.abs(own - w).max() < 1e-12
    assert np.abs(bias - b).max() < 1e-12
    assert np.abs(w).max() > 0.05


@pytest.mark.parametrize(("classes", "lr"), CASES)
@pytest.mark.parametrize("widths", [(12,), (4, 3, 5), (1, 2, 3, 4, 2)])
def test_masked_it_is_exactly_joint_training_on_the_grid(classes, lr, widths):
    whole, y = people(300, (12,), classes)
    blocks = np.split(whole[0], np.cumsum(widths)[:-1], axis=1)
    terms = {"classes": classes, "lr": lr, "label_holder": len(widths) - 1, **PACE}
    roles, states, _ = trained(vertical(l2=0.01, protect="masked"), blocks, y, **terms)
    w, b = joint_on_grid(roles[0].terms, whole[0], y, 0.01)
    own, bias = weights_of(roles, states)
    assert own.tobytes() == w.tobytes()
    assert bias.tobytes() == b.tobytes()
    plain, _ = joint(roles[0].terms, whole[0], y, 0.01)
    assert 0 < np.abs(own - plain).max() < 1e-5


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_the_grid_does_not_see_who_holds_a_column(data):
    scale = data.draw(st.sampled_from([1e-3, 1.0, 300.0, 5e3]))
    whole, y = people(60, (6,), 2, seed=data.draw(st.integers(0, 99)))
    cuts = sorted(data.draw(st.lists(st.integers(0, 6), min_size=2, max_size=3)))
    terms = {"rounds": 2, "batch_size": 16, "lr": 0.1 / scale**2}
    one, kept, _ = trained(vertical(protect="masked"), [whole[0] * scale], y, **terms)
    many, others, _ = trained(vertical(protect="masked"), np.split(whole[0] * scale, cuts, axis=1), y, **terms)
    assert weights_of(one, kept)[0].tobytes() == weights_of(many, others)[0].tobytes()


@pytest.mark.parametrize(("classes", "lr"), CASES)
@pytest.mark.parametrize("protect", ["clear", "masked"])
def test_it_holds_the_contract_of_columns(classes, lr, protect):
    blocks, y = people(130, (3, 4, 2), classes)
    terms = {"classes": classes, "lr": lr, "label_holder": 1, "batch_size": 50, "rounds": 2}
    check_columns(vertical(protect=protect), blocks, y, **terms)


def test_two_parties_in_the_clear_hold_it_too():
    blocks, y = people(90, (3, 2))
    roles, _ = check_columns(vertical(), blocks, y, batch_size=40, rounds=2)
    assert vertical().protection(roles[0].terms) == "clear"


def test_the_label_holder_hears_nothing_but_a_sum():
    blocks, y = people(90, (3, 2, 4))
    _, _, spoken = trained(vertical(), blocks, y, batch_size=30, rounds=1)
    assert spoken[1].up == {"residual": 3 * 2 * 30 * 8}  # no scores by mail
    roles, _, spoken = trained(vertical(protect="clear"), blocks, y, batch_size=30, rounds=1)
    assert spoken[1].up == {"residual": 3 * 2 * 30 * 8, "scores": 3 * 2 * 30 * 8}
    assert spoken[1].turns == 2 * 3 + 1
    assert {word for told in vertical().learns(roles[0].terms).values() for word in told.split()} >= {"sum"}


def test_its_loss_falls_and_is_the_joint_one():
    blocks, y = people(200, (3, 4, 2))
    roles, _, spoken = trained(vertical(protect="clear"), blocks, y, batch_size=200, lr=0.5, rounds=4)
    losses = [one.figures["train_loss"] for one in spoken[1:]]
    assert losses == sorted(losses, reverse=True)
    x = np.concatenate(blocks, axis=1)
    w, b = joint(replace(roles[0].terms, rounds=3), x, y)
    z = (x @ w + b)[:, 0]
    assert losses[3] == pytest.approx(np.mean(np.log1p(np.exp(-z * (2 * y - 1)))), rel=1e-12)


@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_the_weights_of_a_column_that_two_parties_have_add_up(l2):
    """w1 = w2 all along, so their sum takes double steps, under half the penalty."""
    x, y = people(150, (3,))
    shared = x[0][:, :1]
    once = [x[0][:, 1:], shared * np.sqrt(2.0)]  # the same steps for one column: v = w sqrt(2)
    terms = {"batch_size": 50, "lr": 0.3, "rounds": 5}
    _, twice, _ = trained(vertical(l2=l2, protect="clear"), [x[0][:, 1:], shared, shared], y, **terms)
    _, one, _ = trained(vertical(l2=l2, protect="clear"), once, y, **terms)
    assert twice[1]["weights"] == twice[2]["weights"]
    total = twice[1]["weights"] + twice[2]["weights"]
    assert np.abs(total - one[1]["weights"] * np.sqrt(2.0)).max() < 1e-12
    assert np.abs(twice[0]["weights"] - one[0]["weights"]).max() < 1e-12
    roles = roles_of(terms_of([x[0], shared], y), [x[0], shared], y)
    states = {0: {"weights": np.ones((3, 1)), "bias": np.zeros(1)}, 1: {"weights": np.full((1, 1), 5.0)}, -1: {}}
    arrays = ALGORITHMS.build("vertical").joined(
        roles[0].terms, [states[0], states[1]], [np.arange(3), np.array([0])]
    )
    from unalike.vertical.linear import JoinedLinear

    found = JoinedLinear.of(arrays, None, 2).margins(x[0])
    assert np.abs(found - x[0] @ np.array([[6.0], [1.0], [1.0]])).max() < 1e-12


@pytest.mark.parametrize("protect", ["clear", "masked"])
def test_sparse_columns_are_as_dense_ones(protect):
    blocks, y = people(120, (5, 6, 4))
    blocks = [np.where(np.abs(block) > 0.8, block, 0.0) for block in blocks]
    terms = {"batch_size": 50, "lr": 0.3, "rounds": 2}
    dense, states, _ = trained(vertical(protect=protect), blocks, y, **terms)
    roles = roles_of(terms_of(blocks, y, **terms), blocks, y)
    thin = [
        me if me.data is None else replace(me, data=replace(me.data, x=sparse.csr_matrix(me.data.x)), kept={})
        for me in roles
    ]
    kept, _ = play(vertical(protect=protect), thin)
    assert np.abs(weights_of(dense, states)[0] - weights_of(thin, kept)[0]).max() < (
        1e-13 if protect == "clear" else 1e-300
    )


def test_a_predicted_person_does_not_depend_on_the_others():
    blocks, y = people(150, (7, 6, 5))
    roles, states, _ = trained(vertical(protect="clear"), blocks, y, batch_size=50)
    all_of_them = predicted(vertical(protect="clear"), roles, states, blocks)
    for count in (1, 3, 33):
        some = predicted(vertical(protect="clear"), roles, states, [block[7 : 7 + count] for block in blocks])
        assert some.tobytes() == all_of_them[7 : 7 + count].tobytes()


def test_few_rows_are_not_predicted_where_scores_are_hidden():
    blocks, y = people(80, (2, 2, 2))
    roles, states, _ = trained(vertical(), blocks, y)
    with pytest.raises(UserError, match="31 rows are to be predicted, but scores are hidden"):
        predicted(vertical(), roles, states, [block[:31] for block in blocks])
    assert len(predicted(vertical(), roles, states, [block[:32] for block in blocks])) == 32
    assert len(predicted(vertical(least_predicted=1), roles, states, [block[:1] for block in blocks])) == 1


def test_roles_are_told_what_they_see():
    """Whether scores are single ones or sums, and whether residuals are there to be read."""
    three, two = (terms_of(*people(40, widths)) for widths in ((2, 2, 2), (2, 2)))
    for terms, protect, scores, labels in (
        (three, "clear", "each holder's score", "whose sign is the label"),
        (three, "masked", "no single holder's", "whose sign is the label"),
        (three, "encrypted", "no single holder's", "labels are added together"),
        (two, "encrypted", "each holder's score", "labels are added together"),
    ):
        told = vertical(protect=protect).learns(terms)
        assert scores in told["label holder"]
        assert labels in told["other holders"]


# What is refused.


def test_masks_of_two_parties_are_refused():
    blocks, y = people(50, (2, 2))
    with pytest.raises(UserError, match="Use protect=clear, or three parties"):
        play(vertical(protect="masked"), roles_of(terms_of(blocks, y), blocks, y))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_numbers_are_refused_before_anything_is_sent(bad):
    blocks, y = people(50, (2, 2))
    blocks[1][3, 0] = bad
    with pytest.raises(UserError, match="1 numbers are missing or infinite"):
        play(vertical(), roles_of(terms_of(blocks, y), blocks, y), last=0)


def test_a_penalty_must_hold_weights_together():
    with pytest.raises(UserError, match="vertical's l2 must be >= 0, got -1"):
        vertical(l2=-1.0)


@pytest.mark.parametrize(("protect", "widths"), [("clear", (2, 2)), ("masked", (2, 2, 2))])
def test_training_that_diverges_says_so(protect, widths):
    blocks, y = people(60, widths, 0)
    blocks = [block * 100 for block in blocks]
    with pytest.raises(UserError, match=r"[Ll]ower --lr"):
        play(vertical(protect=protect), roles_of(terms_of(blocks, y, classes=0, lr=10.0, rounds=60), blocks, y))


@pytest.mark.parametrize(("value", "protect"), [(2**61 + 1, "masked"), (-(2**63), "masked"), (1e13, "clear")])
def test_scores_beyond_bounds_are_their_senders_fault(value, protect):
    blocks, y = people(40, (2, 2, 2))
    roles = roles_of(terms_of(blocks, y, batch_size=40), blocks, y)
    protocol = vertical(protect=protect)
    state = protocol.start(roles[1])
    scores = np.zeros((40, 1), np.int64 if protect == "masked" else np.float64)
    good = {SUM: {"scores": scores}} if protect == "masked" else {k: {"scores": scores} for k in (1, 2)}
    protocol.step(roles[1], state, Turn(1, 1), good)
    wrong = scores.copy()
    wrong[5] = value
    sender = max(good)
    with pytest.raises(WrongMail) as caught:
        protocol.step(roles[1], state, Turn(1, 1), {**good, sender: {"scores": wrong}})
    assert caught.value.sender == sender


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 2.0**21])
def test_a_residual_that_is_none_is_the_label_holders_fault(value):
    blocks, y = people(40, (2, 2))
    roles = roles_of(terms_of(blocks, y, batch_size=40), blocks, y)
    with pytest.raises(WrongMail, match="Party 0 said 'residual'"):
        vertical().step(
            roles[2], vertical().start(roles[2]), Turn(1, 2), {0: {"residual": np.full((40, 1), value)}}
        )


def test_who_speaks_out_of_turn_is_named():
    blocks, y = people(40, (2, 2, 2))
    roles = roles_of(terms_of(blocks, y, batch_size=40), blocks, y)
    protocol, mail = vertical(protect="clear"), {"residual": np.zeros((40, 1))}
    for me, turn, inbox, sender in [
        (roles[0], Turn(1, 1), {1: mail}, 1),
        (roles[1], Turn(1, 2), {2: mail}, 2),
        (roles[1], Turn(1, 3), {1: mail}, 1),
        (roles[2], Turn(1, 1), {0: mail}, 0),
        (roles[2], Turn(1, 4), {0: mail}, 0),
        (roles[3], Turn(1, 2), {0: mail, 1: mail}, 1),
    ]:
        with pytest.raises(WrongMail) as caught:
            protocol.step(me, protocol.start(me), turn, inbox)
        assert caught.value.sender == sender


def test_a_joined_model_of_a_stranger_is_checked():
    from unalike.vertical.linear import JoinedLinear

    blocks, y = people(50, (2, 2))
    roles, states, _ = trained(vertical(), blocks, y)
    arrays = joined(vertical(), roles, states)
    JoinedLinear.of(arrays, None, 2)
    for wrong in (
        {"weights": arrays["weights"][:-1]},
        {"weights": arrays["weights"] * np.nan},
        {"bias": np.zeros(2)},
        {"sizes": np.array([5, -1])},
        {"columns": -arrays["columns"]},
        {"label_holder": np.array([2])},
        {"whole": np.array([0.5])},
    ):
        with pytest.raises(ValueError, match="joined linear model"):
            JoinedLinear.of(arrays | wrong, None, 2)
    with pytest.raises(ValueError, match="rows of 4 numbers or more"):
        JoinedLinear.of(arrays, None, 2).margins(blocks[0])
