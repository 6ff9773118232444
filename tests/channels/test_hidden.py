"""masked and encrypted: sums on the grid are exact, and a value beyond the range is an error."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.channels.uploads import upload_of
from unalike.channels import ChannelError, ChannelSetting, parse_channel
from unalike.channels.grid import fraction_bits
from unalike.errors import UserError
from unalike.secure import secure_sum
from unalike.secure.crypto import bfv

HIDDEN = ["masked", "masked(64)", "masked(32, range=64)", "encrypted", "encrypted(2)"]


def modulus_half(text):
    return {"masked(64)": 2**63 - 1, "encrypted": bfv.HALF}.get(text, 2**31 - 1)


def total_of(text, vectors, weights, losses, scale=100.0):
    """The sum as the server sees it, and the step of the grid."""
    channel = parse_channel(text)
    setting = ChannelSetting(len(vectors), scale)
    uploads = [
        upload_of(v, w, x, "float64", n=2.0, plain=("n",))
        for v, w, x in zip(vectors, weights, losses, strict=True)
    ]
    grids = [channel.encode(upload, {}, setting)[0].grid for upload in uploads]
    message = channel.from_grid(sum(grids[1:], grids[0]), uploads[0].layout, setting)
    return message, 2.0 ** -fraction_bits(channel.hidden, len(vectors))


@pytest.mark.parametrize("text", HIDDEN)
def test_the_sum_is_the_weighted_sum_up_to_the_grid(text):
    rng = np.random.default_rng(0)
    vectors, weights, losses = rng.normal(size=(5, 300)), [100.0, 50.0, 1.0, 33.0, 7.0], [2.0, 1.0, 0.5, 3.0, 4.0]
    message, step = total_of(text, vectors, weights, losses)
    wanted = sum(w * v for w, v in zip(weights, vectors, strict=True))
    most = 5 / 2 * step * 100 + 1e-12  # half a step for every party, times the scale
    assert np.abs(message.vectors["delta"].numpy() - wanted).max() <= most
    assert message.weight == pytest.approx(sum(weights), abs=most)
    assert message.loss == pytest.approx(np.dot(weights, losses), abs=most)
    assert float(message.vectors["n"]) == 10.0


@pytest.mark.parametrize("text", HIDDEN)
def test_the_grid_is_as_fine_as_fits_and_never_wraps(text):
    hidden = parse_channel(text).hidden
    for cohort in (1, 2, 3, 10, 100):
        bits = fraction_bits(hidden, cohort)
        steps = -(-Fraction(hidden.range) * 2**bits // 1)
        assert steps <= hidden.largest(cohort)
        assert 4 * steps > hidden.largest(cohort)
        if text != "encrypted(2)":
            assert cohort * steps <= modulus_half(text)


@pytest.mark.parametrize("text", HIDDEN)
@settings(max_examples=8, deadline=None)
@given(signs=st.lists(st.sampled_from([-1, 1]), min_size=3, max_size=3))
def test_extreme_values_add_up_exactly(text, signs):
    channel = parse_channel(text)
    limit, setting = channel.hidden.range, ChannelSetting(3, 1.0)
    uploads = [upload_of([sign * limit, limit / 3], 1.0, dtype="float64") for sign in signs]
    grids = [channel.encode(upload, {}, setting)[0].grid for upload in uploads]
    if text.startswith("encrypted"):
        assert max(np.abs(grid).max() for grid in grids) <= bfv.HALF // 3
    message = channel.from_grid(sum(grids[1:], grids[0]), uploads[0].layout, setting)
    assert message.vectors["delta"][0] == sum(signs) * limit


@pytest.mark.parametrize("text", HIDDEN)
def test_a_value_beyond_the_range_names_party_value_and_remedy(text):
    channel = parse_channel(text)
    setting = ChannelSetting(3, 10.0, party=7)
    beyond = channel.hidden.range * 1.5
    with pytest.raises(ChannelError, match=rf"Party 7's delta has the value -{beyond:g}.*range={beyond / 0.75:g}"):
        channel.encode(upload_of([0.0, -beyond], 10.0), {}, setting)
    with pytest.raises(ChannelError, match="Party 7's loss"):
        channel.encode(upload_of([0.0], 10.0, loss=beyond), {}, setting)
    with pytest.raises(ChannelError, match="Party 7's weight"):
        channel.encode(upload_of([0.0], 10.0 * beyond), {}, setting)
    channel.encode(upload_of([0.0, -beyond], 5.0), {}, setting)  # half the weight: fits


def test_weights_do_not_eat_the_range():
    channel = parse_channel("masked")
    upload = upload_of([7.9], weight=1e6)
    grid = channel.encode(upload, {}, ChannelSetting(2, 1e6))[0].grid
    total = channel.from_grid(2 * grid, upload.layout, ChannelSetting(2, 1e6))
    assert float(total.vectors["delta"]) / total.weight == pytest.approx(7.9, rel=1e-6)


def test_sums_that_cannot_be_are_refused():
    channel, layout, setting = parse_channel("masked"), upload_of([0.0, 0.0]).layout, ChannelSetting(3)
    for wrong in (np.zeros(2, np.int64), np.zeros(3), np.zeros((3, 1), np.int64), [0, 0, 0]):
        with pytest.raises(ChannelError, match="3 whole numbers"):
            channel.from_grid(wrong, layout, setting)
    for wrong in (2**31, -(2**31), np.iinfo(np.int64).min):
        with pytest.raises(ChannelError, match="cannot add up to"):
            channel.from_grid(np.array([0, 0, wrong]), layout, setting)


def test_a_grid_too_coarse_is_refused():
    for text, cohort in [("masked(range=1e9)", 10), ("encrypted", 100_000), ("encrypted(2)", 10**7)]:
        with pytest.raises(UserError, match="bits after the point"):
            fraction_bits(parse_channel(text).hidden, cohort)


def test_encrypted_sums_are_exact_and_their_bytes_real():
    channel, setting = parse_channel("encrypted(2)"), ChannelSetting(3, 10.0)
    rng = np.random.default_rng(0)
    uploads = [upload_of(rng.normal(size=50), weight) for weight in (10.0, 3.0, 1.0)]
    grids = [channel.encode(upload, {}, setting)[0].grid for upload in uploads]
    done = channel.hidden.add(grids, setting)
    assert done.total.tolist() == sum(grids).tolist()
    assert done.up > 3 * bfv.SMALLEST_CHUNK + 4 * len(done.total)
    assert done.down > 0


def test_masked_sums_are_those_of_the_grid():
    channel, setting = parse_channel("masked"), ChannelSetting(3, 10.0)
    grids = [np.array([1, -2, 3]), np.array([2**29, 5, 0]), np.array([7, 7, -7])]
    done = channel.hidden.add(grids, setting)
    assert done.total.tolist() == [2**29 + 8, 10, -4]
    with pytest.raises(UserError, match="at least 3 parties"):
        channel.hidden.add(grids[:1], ChannelSetting(1))


@pytest.mark.parametrize("bits", [32, 64])
def test_the_real_protocol_gives_the_same_sum_for_the_same_bytes(bits):
    channel, setting = parse_channel(f"masked({bits})"), ChannelSetting(4, 10.0)
    rng = np.random.default_rng(bits)
    uploads = [upload_of(rng.normal(size=200), weight, loss=1.0) for weight in (10.0, 3.0, 1.0, 7.5)]
    grids = [channel.encode(upload, {}, setting)[0].grid for upload in uploads]
    bound = 4 * channel.hidden.largest(4)
    done, real = channel.hidden.add(grids, setting), secure_sum(grids, protect="masks", bits=bits, bound=bound)
    assert real.total.tolist() == done.total.tolist()
    assert (done.up, done.down) == (sum(real.bytes_up), sum(real.bytes_down))
    some = secure_sum(grids, protect="masks", bits=bits, bound=bound, drop_after={3: "start"})
    three = channel.hidden.add(grids[:3], setting)
    assert some.total.tolist() == three.total.tolist()
    assert (three.up, three.down) == (sum(some.bytes_up), sum(some.bytes_down))
    message = channel.from_grid(real.total, uploads[0].layout, setting)
    assert message.weight == pytest.approx(21.5, abs=1e-4)
