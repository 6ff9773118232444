"""The bound holds for every upload, and short ones stay as they are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tests.channels.uploads import SETTING, through, upload_of
from unalike.channels import ChannelError, parse_channel
from unalike.channels.clip import Clip

BOUNDS = st.floats(1e-6, 1e6)


def exact_norm(vector, norm):
    """In extended precision, of the largest entry's multiples: no square is too large or too small."""
    vector = np.abs(vector.astype(np.longdouble))
    return vector.sum() if norm == "l1" else np.sqrt((vector * vector).sum())


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=100, deadline=None)
@given(data=st.data(), bound=BOUNDS)
def test_no_upload_is_longer_than_the_bound(norm, dtype, data, bound):
    width = 32 if dtype is np.float32 else 64
    finite = st.floats(allow_nan=False, allow_infinity=False, width=width)
    vector = data.draw(arrays(dtype, array_shapes(max_dims=1, max_side=40), elements=finite))
    clipped = Clip(bound, norm).clip(vector)
    assert clipped.dtype == vector.dtype
    assert exact_norm(clipped, norm) <= bound * (1 + 1e-12)
    assert Clip(bound, norm).holds(clipped)  # whoever kept to it is never refused
    if exact_norm(vector, norm) <= bound * (1 - 1e-9):
        assert np.array_equal(clipped, vector)
    elif exact_norm(vector, norm) > bound * (1 + 1e-9):
        assert exact_norm(clipped, norm) >= bound * (1 - 1e-4) - 1e-37


def test_huge_zero_and_tiny():
    for vector in ([3e38] * 1000, [0.0] * 10, [1e-45] * 10, [3e38, 1e-45, 0.0]):
        clipped = Clip(1.0).clip(np.array(vector, np.float32))
        assert np.isfinite(clipped).all()
        assert exact_norm(clipped, "l2") <= 1
    assert Clip(1.0).clip(np.array([1.7e308, -1.7e308])) == pytest.approx([0.5**0.5, -(0.5**0.5)])


def test_the_direction_stays():
    clipped = Clip(5.0).clip(np.array([30.0, 40.0]))
    assert clipped == pytest.approx([3.0, 4.0])
    assert Clip(7.0, "l1").clip(np.array([30.0, -40.0])) == pytest.approx([3.0, -4.0])


def test_all_keys_are_clipped_as_one_vector_before_the_weight():
    upload = upload_of([30.0, 0.0], weight=10.0, other=[[40.0]], plain=("other",))
    arrived, _, _ = through("clip(5.0)", upload)
    assert arrived.vectors["delta"].tolist() == pytest.approx([3.0, 0.0])
    assert arrived.vectors["other"].tolist() == [[pytest.approx(4.0)]]
    assert arrived.message().vectors["delta"].tolist() == pytest.approx([30.0, 0.0])


@pytest.mark.parametrize("text", ["clip(1.0)+gauss(1.0)+masked", "clip(1.0)+gauss(1.0)+masked(range=2)"])
def test_the_bound_holds_on_the_grid_under_central_noise(text):
    from unalike.channels.grid import fraction_bits

    channel = parse_channel(text)
    steps = 2.0 ** fraction_bits(channel.hidden, SETTING.cohort)
    for seed in range(20):
        vector = np.random.default_rng(seed).normal(size=5000)
        grid = channel.encode(upload_of(vector), {}, SETTING)[0].grid
        assert exact_norm(grid / steps, "l2") <= 1 + 1e-12


@pytest.mark.parametrize("text", ["clip(1.0)", "clip(1.0, l1)", "clip(1.0)+gauss(1.0)"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_server_refuses_what_was_not_clipped(text, dtype):
    """A party that does not keep to the channel cannot move the sum further than the others."""
    channel, rng = parse_channel(text), np.random.default_rng(0)
    for size in (1, 3, 5000):
        honest = upload_of(100 * rng.normal(size=size), dtype=dtype)
        data = channel.encode(honest, {}, SETTING)[0].data
        arrived = channel.decode(data, honest.layout, SETTING).vectors["delta"].numpy()
        assert exact_norm(arrived, channel.clip.norm) == pytest.approx(1)
        head = data[: len(data) - arrived.nbytes]
        longer = head + (arrived * 1.001).astype(dtype).tobytes()
        with pytest.raises(ChannelError, match="longer than its clip, 1"):
            channel.decode(longer, honest.layout, SETTING)
