"""Margins are kept from round to round: only new parts are looked at, and the bits are those of a fresh start."""

import numpy as np
import pytest
from scipy import sparse

from unalike.data import Dataset
from unalike.errors import UserError
from unalike.partition import Partition
from unalike.rounds.evaluation import figures_of_round
from unalike.rounds.federation import SplitRows
from unalike.rounds.margins import KnownRows, MarginLook, TriedRows, as_table, two_sided
from unalike.scores import scores_of


class Parts:
    """A model of some parts, each a number to multiply the first column by; it counts how often it is asked."""

    def __init__(self, *parts, base=0.25):
        self.parts, self.base, self.asked = parts, base, []

    @property
    def trees(self):
        return len(self.parts)

    def margins(self, x, first=0, last=None):
        self.asked.append((first, last))
        start = self.base if first == 0 else 0.0
        return start + np.asarray(x, np.float64)[:, :1] * sum(self.parts[first:last])


def test_only_new_parts_are_looked_at():
    rows = KnownRows(np.array([[1.0], [3.0]]))
    assert rows.under(Parts()).tolist() == [[0.25], [0.25]]
    assert rows.under(Parts(2.0)).tolist() == [[2.25], [6.25]]
    grown = Parts(2.0, 0.5, 0.25)
    assert rows.under(grown).tolist() == [[3.0], [8.5]]
    assert grown.asked == [(1, 2), (2, 3)]
    assert rows.under(grown).tolist() == [[3.0], [8.5]]
    assert len(grown.asked) == 2, "nothing is new"
    assert rows.under(Parts(1.0)).tolist() == [[1.25], [3.25]], "one with fewer parts is another model"


def test_the_bits_do_not_depend_on_when_one_looked():
    rng = np.random.default_rng(0)
    x, parts = rng.normal(size=(50, 2)), rng.normal(size=9) / 3
    often, once = KnownRows(x), KnownRows(x)
    for number in range(10):
        last = often.under(Parts(*parts[:number]))
    assert last.tobytes() == once.under(Parts(*parts)).tobytes()


def split():
    x = np.arange(24, dtype=np.float32).reshape(12, 2) - 12
    data = Dataset("rows", x[:8], np.arange(8) % 2, x[8:], np.array([0, 1, 1, 1]), ("no", "yes"))
    return SplitRows(data, Partition("by hand", (np.arange(4), np.arange(4, 8)), ("a", "b")), held_out=0.5)


def test_figures_have_the_names_of_nets_and_are_right():
    rows = split()
    look = MarginLook(rows, Parts(1.0), {}, TriedRows(rows.dataset))
    found = figures_of_round(look, rows, scores_of("classification"))
    assert found["accuracy"] == 0.75, "all margins are positive"
    signed = np.array([4.25, -6.25, -8.25, -10.25])
    assert found["loss"] == pytest.approx(np.mean(np.log1p(np.exp(signed))))
    assert found["parties"]["count"] == 2
    assert found["validation_accuracy"] is None, "there are no such rows"
    assert "personal" not in found


def test_each_party_is_judged_by_its_own_model():
    rows = split()
    look = MarginLook(rows, None, {0: Parts(base=-1.0), 1: Parts(base=1.0)}, TriedRows(rows.dataset))
    found = figures_of_round(look, rows, scores_of("classification"))
    held = [party.held_out for party in rows.parties]
    y = rows.dataset.y
    assert found["personal"]["each"] == [np.mean(y[held[0]] == 0), np.mean(y[held[1]] == 1)]
    assert found["accuracy"] is None
    alone = MarginLook(rows, None, {0: Parts()}, TriedRows(rows.dataset))
    with pytest.raises(UserError, match="Party 1 did not train and has no model"):
        figures_of_round(alone, rows, scores_of("classification"))


def test_rows_become_a_table():
    pictures = np.arange(24, dtype=np.uint8).reshape(2, 1, 3, 4)
    assert as_table(pictures, np.array([1])).tolist() == [list(range(12, 24))]
    assert as_table(pictures, np.array([1])).dtype == np.float32
    assert as_table(pictures, np.zeros(0, np.int64)).shape == (0, 12)
    assert as_table(np.zeros((2, 3)), np.array([0])).dtype == np.float64
    matrix = sparse.csr_matrix(np.eye(3))
    assert as_table(matrix, np.array([2, 0])).toarray().tolist() == [[0, 0, 1], [1, 0, 0]]


def test_one_margin_is_that_of_the_second_class():
    assert two_sided(np.array([[2.0], [-1.0]])).tolist() == [[0, 2], [0, -1]]
    assert two_sided(np.zeros((2, 3))).shape == (2, 3)
