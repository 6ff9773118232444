"""Attacks on what roles saw: they find what is there, and are at chance where nothing is."""

import gzip
import os
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from tests.algorithms.vertical.talking import people, play, roles_of, terms_of
from tests.algorithms.vertical.test_linear import vertical
from unalike.algorithms.protocol import SERVER
from unalike.algorithms.vertical.batches import batches
from unalike.algorithms.vertical.sealed import TIMES
from unalike.rounds.conversation import InProcess
from unalike.vertical import leak


class Listening(InProcess):
    """Keeps all mail, by who got it, and when."""

    heard: ClassVar[list] = []

    def step(self, number, turn, inbox):
        self.heard.append((number, turn, inbox))
        return super().step(number, turn, inbox)


def listen(protocol, roles, **more):
    """What every role heard."""
    carrier = type("Listener", (Listening,), {"heard": []})
    play(protocol, roles, carrier=carrier, **more)
    return carrier.heard


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=40))
def test_the_area_is_scikit_learns(rows):
    scores, positive = np.array([a for a, _ in rows], float), np.array([b for _, b in rows])
    if 0 < positive.sum() < len(rows):
        assert leak.area(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
    else:
        assert leak.area(scores, positive) == 0.5


@pytest.mark.parametrize("protect", ["clear", "masked"])
@pytest.mark.parametrize("classes", [2, 4])
def test_every_label_is_read_off_residuals(protect, classes):
    blocks, y = people(400, (4, 3, 5), classes)
    heard = listen(
        vertical(protect=protect), roles_of(t := terms_of(blocks, y, classes=classes, rounds=2, lr=0.3), blocks, y)
    )
    for round in (1, 2):
        order = batches(t, len(y), round)
        told = [mail[0]["residual"] for who, turn, mail in heard if who == 2 and turn.round == round and 0 in mail]
        assert len(told) == len(order) == 13
        for batch, residual in zip(order, told, strict=True):
            assert leak.by_sign(residual, y[batch]) == 1.0


def stand_in(rows=3000, columns=41, seed=3):
    """People like those of adult: correlated zeros and ones, of which some say something of a label."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(rows, 5))
    x = (hidden @ random.normal(size=(5, columns)) + random.normal(size=(rows, columns)) * 2 > 2.0).astype(float)
    y = (hidden[:, 0] + random.normal(size=rows) > 0.9).astype(np.int64)
    return x, y


def a9a():
    """The first 62 columns of adult, where it is at hand: a folder in UNALIKE_A9A with a9a.gz."""
    path = Path(os.environ.get("UNALIKE_A9A", "")) / "a9a.gz"
    if not path.is_file():
        pytest.skip("UNALIKE_A9A names no folder with a9a.gz")
    with gzip.open(path, "rt") as file:
        rows = [line.split() for line in file]
    x = np.zeros((len(rows), 123))
    for row, cells in enumerate(rows):
        x[row, [int(cell.split(":")[0]) - 1 for cell in cells[1:]]] = 1.0
    return x[:, ::3], np.array([cells[0] == "+1" for cells in rows]).astype(np.int64)


def attacked(x, y, size, seed=0):
    """The area that one batch of a new model gives beyond what columns say, the mean over eight batches."""
    random = np.random.default_rng(seed)
    found = []
    table = np.column_stack([x, np.ones(len(x))])
    expected = table @ np.linalg.lstsq(table, y.astype(float), rcond=None)[0]
    for _ in range(8):
        batch = random.choice(len(y), size, replace=False)
        gradient = x[batch].T @ (0.5 - y[batch])
        found.append(leak.by_equations(x, [batch], [gradient], y, expected))
    return float(np.mean(found))


@pytest.mark.parametrize("rows", [stand_in, a9a])
def test_small_batches_tell_labels_and_large_ones_do_not(rows):
    x, y = rows()
    columns = x.shape[1]
    assert attacked(x, y, 20) > 0.9
    assert attacked(x, y, 30) > 0.9
    assert attacked(x, y, 4 * columns) > 0.65, "four people a column are not enough"
    assert attacked(x, y, TIMES * columns) <= 0.65, "what is allowed"


def test_equations_add_up_over_batches():
    """Who hears of the same people again and again solves for them in the end."""
    x, y = stand_in(400, 20)
    random = np.random.default_rng(0)
    areas = []
    for rounds in (1, 4, 16):
        told = [batch for _ in range(rounds) for batch in np.split(random.permutation(400), 4)]
        areas.append(leak.by_equations(x, told, [x[batch].T @ (0.5 - y[batch]) for batch in told], y))
    assert areas == sorted(areas)
    assert areas[-1] > 0.95


@pytest.mark.parametrize("attack", [leak.by_norm, leak.by_direction])
def test_derivatives_of_embeddings_tell_labels_unless_noise_hides_them(attack):
    """dloss/dembedding is (p - y) times the head's weights: rare labels pull harder, and the other way."""
    random = np.random.default_rng(1)
    y = (random.random(2000) < 0.2).astype(np.int64)
    p = np.clip(0.2 + 0.1 * random.normal(size=2000), 0.02, 0.6)
    derivatives = (p - y)[:, None] * random.normal(size=8)
    assert attack(derivatives, y) > 0.95
    assert attack(-derivatives, y) > 0.95
    noise = random.normal(size=derivatives.shape) * 20 * np.linalg.norm(derivatives, axis=1).max()
    assert attack(derivatives + noise, y) < 0.6


def test_groups_of_people_tell_labels_if_some_are_known():
    random = np.random.default_rng(2)
    y = (random.random(1000) < 0.3).astype(np.int64)
    known = np.arange(50)
    nodes = [np.where(random.random(1000) < 0.8, y, 1 - y) * 2 + random.integers(0, 2, 1000) for _ in range(5)]
    assert leak.by_groups(nodes, y, known) > 0.9
    chance = [random.integers(0, 4, 1000) for _ in range(5)]
    assert abs(leak.by_groups(chance, y, known) - 0.5) < 0.1


def test_scores_over_many_batches_tell_columns_and_sums_of_them_less():
    blocks, y = people(600, (2, 3, 3))
    roles = roles_of(terms_of(blocks, y, rounds=6, batch_size=600, lr=0.5, label_holder=0), blocks, y)
    heard = listen(vertical(protect="clear"), roles)
    order = np.argsort(np.arange(600))
    seen = []
    for who, turn, mail in heard:
        if who == 0 and 1 in mail:
            scores = np.zeros(600)
            scores[batches(roles[0].terms, 600, turn.round)[0]] = mail[1]["scores"][:, 0]
            seen.append(scores)
    assert len(seen) == 6
    found = leak.columns_by_scores(np.column_stack(seen), blocks[1], order[:60])
    assert found > 0.9
    assert leak.columns_by_scores(np.column_stack(seen)[:, 1:2], blocks[1], order[:60]) < 0.7
    random = np.random.default_rng(0).normal(size=(600, 6))
    assert leak.columns_by_scores(random, blocks[1], order[:60]) < 0.05


def test_the_server_hears_nothing():
    blocks, y = people(60, (2, 3, 3))
    heard = listen(vertical(), roles_of(terms_of(blocks, y, rounds=1), blocks, y))
    assert not [mail for who, _, mail in heard if who == SERVER and mail]


def test_what_columns_say_anyway_is_no_leak():
    random = np.random.default_rng(0)
    expected = random.normal(size=4000)
    positive = random.random(4000) < 1 / (1 + np.exp(-2 * expected))
    assert leak.area(expected, positive) > 0.8
    assert abs(leak.area_among_equals(expected + random.normal(size=4000) * 1e-9, positive, expected) - 0.5) < 0.1
    assert leak.area_among_equals(expected + 3 * positive, positive, expected) > 0.95
