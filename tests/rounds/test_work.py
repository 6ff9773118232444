import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.rounds.work import PADDING, LocalWork

SIZES = st.integers(1, 100)
BATCHES = st.integers(1, 40)


@given(SIZES, BATCHES, st.integers(1, 4), st.booleans(), st.integers(0, 5))
def test_epochs_pass_over_all_rows(size, batch, epochs, drop_last, seed):
    work = LocalWork(batch, epochs=epochs, drop_last=drop_last)
    plan = work.plan(size, np.random.default_rng(seed))
    assert len(plan) == work.count(size) == epochs * work.steps_per_epoch(size)
    for epoch in np.split(plan, epochs):
        real = epoch[epoch != PADDING]
        assert len(set(real)) == len(real)
        assert set(real) <= set(range(size))
        expected = size if not drop_last or size < batch else size // batch * batch
        assert len(real) == expected
        assert (epoch[:-1] != PADDING).all()  # only an epoch's last batch is short
        short = epoch[-1] == PADDING
        assert not (short[:-1] & ~short[1:]).any()  # and its real rows come first


@given(SIZES, BATCHES, st.integers(1, 50), st.integers(0, 5))
def test_steps_are_steps(size, batch, steps, seed):
    plan = LocalWork(batch, steps=steps).plan(size, np.random.default_rng(seed))
    assert len(plan) == steps
    seen = plan[plan != PADDING]
    whole = steps // math.ceil(size / batch)
    counts = np.bincount(seen, minlength=size)
    assert counts.min() >= whole
    assert counts.max() <= whole + 1


def test_the_order_is_the_streams():
    work = LocalWork(7, epochs=2)
    first, again, other = (work.plan(50, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[:8], first[8:])  # each epoch is shuffled anew


@pytest.mark.parametrize(
    "fields",
    [{"epochs": 1, "steps": 1}, {}, {"epochs": 0}, {"steps": -1}, {"epochs": 1, "batch_size": 0}],
)
def test_bad_work(fields):
    with pytest.raises(UserError):
        LocalWork(**{"batch_size": 8, **fields})
