"""Who is in a batch: the same at all parties, everybody once in a pass."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.vertical.talking import people, terms_of
from unalike.algorithms.vertical.batches import batches, learning_rate, outputs_of


@given(rows=st.integers(1, 90), size=st.integers(1, 100), round=st.integers(0, 5))
def test_everybody_is_in_one_batch_of_a_pass(rows, size, round):
    blocks, y = people(5)
    found = batches(terms_of(blocks, y, batch_size=size), rows, round)
    assert sorted(np.concatenate(found)) == list(range(rows))
    assert all(len(batch) == size for batch in found[:-1])


@pytest.mark.parametrize(
    ("pace", "number"), [({"steps": 7}, 7), ({"epochs": 2.5}, 10), ({"epochs": 2.125}, 9), ({"epochs": 0.01}, 1)]
)
def test_a_round_has_as_many_batches_as_its_pace_says(pace, number):
    blocks, y = people(5)
    terms = terms_of(blocks, y, batch_size=10, **pace)
    assert len(batches(terms, 35, 1)) == number
    again = batches(terms, 35, 1)
    assert all((a == b).all() for a, b in zip(batches(terms, 35, 1), again, strict=True))
    assert any(len(a) != len(b) or (a != b).any() for a, b in zip(batches(terms, 35, 2), again, strict=True))


def test_rates_and_outputs():
    blocks, y = people(5)
    terms = terms_of(blocks, y, lr=0.5, lr_decay=0.5)
    assert [learning_rate(terms, round) for round in (1, 2, 3)] == [0.5, 0.25, 0.125]
    assert [outputs_of(terms_of(blocks, y, classes=n)) for n in (0, 2, 3)] == [1, 1, 3]
