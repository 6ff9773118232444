"""Several steps between exchanges: one is ``vertical`` to the bit, more are what the paper says."""

from dataclasses import replace

import numpy as np
import pytest

from tests.algorithms.vertical.checking import assert_same, check_columns
from tests.algorithms.vertical.talking import people
from tests.algorithms.vertical.test_linear import residual, trained, vertical, weights_of
from unalike.algorithms import ALGORITHMS
from unalike.algorithms.vertical.batches import batches
from unalike.errors import UserError


def fedbcd(**fields):
    return replace(ALGORITHMS.build("fedbcd"), **fields)


@pytest.mark.parametrize("protect", ["clear", "masked"])
@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("proximal", [0.0, 0.5])
def test_one_step_is_vertical_to_the_bit(protect, classes, proximal):
    blocks, y = people(200, (3, 4, 2), classes)
    terms = {"classes": classes, "batch_size": 40, "rounds": 3, "lr": 0.2}
    _, one, _ = trained(fedbcd(q=1, l2=0.01, protect=protect, proximal=proximal), blocks, y, **terms)
    _, other, _ = trained(vertical(l2=0.01, protect=protect), blocks, y, **terms)
    assert_same(one, other, "q=1")


def test_the_label_holder_looks_again_and_the_others_do_not():
    """Against the paper's parallel version, written with one table."""
    blocks, y = people(160, (3, 4, 2))
    protocol, q, mu = fedbcd(q=4, proximal=0.3, l2=0.02, protect="clear"), 4, 0.3
    roles, states, _ = trained(protocol, blocks, y, batch_size=40, rounds=3, lr=0.3, label_holder=1)
    terms = roles[0].terms
    w, b = [np.zeros((block.shape[1], 1)) for block in blocks], 0.0
    for round in range(1, 4):
        for batch in batches(terms, len(y), round):
            z = [block[batch] @ own for block, own in zip(blocks, w, strict=True)]
            start, b0, r = [own.copy() for own in w], b, None
            for _ in range(q):
                now = residual(z[0] + z[2] + blocks[1][batch] @ w[1] + b, y[batch], 2, None)
                r = now if r is None else r
                for k, block in enumerate(blocks):
                    g = block[batch].T @ (now if k == 1 else r) / 40
                    w[k] = w[k] - 0.3 * (g + 0.02 * w[k] + mu * (w[k] - start[k]))
                b = b - 0.3 * (now.mean() + mu * (b - b0))
    own, bias = weights_of(roles, states)
    assert np.abs(own - np.concatenate(w)).max() < 1e-12
    assert abs(bias[0] - b) < 1e-12


def test_more_steps_need_fewer_exchanges():
    blocks, y = people(2000, (5, 5, 5))
    needed = {}
    for q in (1, 5, 20):
        _, _, spoken = trained(fedbcd(q=q), blocks, y, batch_size=100, rounds=40, steps=5, lr=0.05)
        losses = [one.figures["train_loss"] for one in spoken[1:]]
        needed[q] = next(5 * number for number, loss in enumerate(losses, 1) if loss < 0.35)
        assert spoken[1].turns == 2 * 5 + 1
    assert needed[1] >= 3 * needed[5]
    assert needed[5] >= 2 * needed[20]


@pytest.mark.parametrize("protect", ["clear", "masked"])
def test_it_holds_the_contract_of_columns(protect):
    blocks, y = people(70, (3, 4, 2))
    check_columns(fedbcd(q=3, proximal=0.1, protect=protect), blocks, y, batch_size=30, rounds=2)


def weights_of_all(states):
    return [states[k]["weights"].tobytes() for k in (0, 1, 2)]


def test_encrypted_it_is_as_masked():
    blocks, y = people(60, (2, 3, 2))
    sealed = fedbcd(q=3, protect="encrypted")
    object.__setattr__(sealed, "bits", 512)
    one = trained(sealed, blocks, y, rounds=1, batch_size=60)[1]
    other = trained(fedbcd(q=3, protect="masked"), blocks, y, rounds=1, batch_size=60)[1]
    assert weights_of_all(one) == weights_of_all(other)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"q": 0}, "q must be from 1"),
        ({"q": 10**6}, "q must be from 1 to 10,000 steps"),
        ({"proximal": -1.0}, "proximal must be >= 0"),
    ],
)
def test_what_means_nothing_is_refused(fields, what):
    with pytest.raises(UserError, match=what):
        fedbcd(**fields)
