"""quantise, ternary and topk: unbiased, tightly packed, and nothing is lost for good."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.channels.uploads import SERVER, SETTING, through, upload_of
from unalike.channels import ChannelError, ChannelSetting, packing, parse_channel, simulated_random
from unalike.channels.topk import TopK

VECTOR = np.random.default_rng(1).normal(size=700).astype(np.float32) * np.geomspace(1e-3, 10, 700)


def block_scales():
    return np.repeat([np.abs(VECTOR[:512]).max(), np.abs(VECTOR[512:]).max()], [512, 188])


@pytest.mark.parametrize("text", ["quantise(2)", "quantise(5)", "quantise(8)", "quantise(16)", "ternary"])
def test_rounding_is_right_on_average(text):
    many, levels = 1000, 1 if text == "ternary" else 2 ** (int(text[9:-1]) - 1) - 1
    total = np.zeros(700)
    for seed in range(many):
        setting = ChannelSetting(4, random=simulated_random(seed, 1, 0, 0))
        total += through(text, upload_of(VECTOR), setting)[0].vectors["delta"].numpy()
    step = block_scales() / levels
    # Hoeffding: a mean of 1000 draws within one step is off by more than this with probability below 1e-9.
    assert (np.abs(total / many - VECTOR) <= 0.104 * step + 1e-6 * np.abs(VECTOR)).all()


@pytest.mark.parametrize("bits", range(2, 17))
def test_quantised_values_are_levels_near_the_entry(bits):
    arrived, data, _ = through(f"quantise({bits})", upload_of(VECTOR))
    levels = 2 ** (bits - 1) - 1
    scale = block_scales()
    steps = arrived.vectors["delta"].numpy() / scale * levels
    assert np.abs(steps - np.rint(steps)).max() < 1e-2
    assert np.abs(steps - VECTOR / scale * levels).max() <= 1 + 1e-2
    assert len(data) == 8 + 2 * 4 + math.ceil(700 * bits / 8)


def test_ternary_is_a_sign_or_nothing():
    arrived, data, _ = through("ternary", upload_of(VECTOR))
    first = arrived.vectors["delta"].numpy()[:512]
    assert set(np.unique(np.abs(first))) == {0.0, np.abs(VECTOR.astype(np.float32)[:512]).max()}
    assert (first * VECTOR[:512] >= 0).all()
    assert len(data) == 8 + 2 * 4 + 140


def test_zeros_stay_zeros_and_huge_values_finite():
    for text in ("quantise(4)", "ternary", "topk(0.1)+quantise(4)"):
        assert not through(text, upload_of(np.zeros(600)))[0].vectors["delta"].any()
        assert torch.isfinite(through(text, upload_of([3e38, -3e38, 1e-45]))[0].vectors["delta"]).all()


def test_topk_sends_the_largest_and_keeps_the_rest():
    arrived, data, memory = through("topk(0.01)", upload_of(VECTOR))
    sent = arrived.vectors["delta"].numpy()
    largest = np.argsort(-np.abs(VECTOR))[:7]
    assert set(np.flatnonzero(sent)) == set(largest)
    assert torch.equal(arrived.vectors["delta"] + memory["residual.0"], torch.as_tensor(VECTOR.astype(np.float32)))
    assert len(data) == 8 + math.ceil(7 * 10 / 8) + 7 * 4


def test_topk_of_many_entries_sends_one_bit_for_each():
    _, data, _ = through("topk(0.5)", upload_of(VECTOR))
    assert len(data) == 8 + math.ceil(700 / 8) + 350 * 4


@pytest.mark.parametrize("text", ["topk(0.05)", "topk(0.05)+quantise(4)", "topk(0.05)+ternary"])
def test_with_error_feedback_nothing_is_lost_for_good(text):
    """The sum of what arrived is the sum of what was sent less what is still kept, and that stays small."""
    memory, arrived, rounds = {}, np.zeros(700), 200
    for number in range(rounds):
        setting = ChannelSetting(4, party=0, random=simulated_random(0, number, 0, 0))
        got, _, memory = through(text, upload_of(VECTOR), setting, memory)
        arrived += got.vectors["delta"].numpy()
    assert arrived + memory["residual.0"].numpy() == pytest.approx(rounds * VECTOR, rel=1e-3, abs=1e-2)
    if text == "topk(0.05)":
        assert np.linalg.norm(arrived / rounds - VECTOR) < 0.2 * np.linalg.norm(VECTOR)


def test_exchanges_of_a_round_have_memories_of_their_own():
    other = ChannelSetting(4, turn=1, party=3, random=simulated_random(0, 1, 1, 3))
    _, _, memory = through("topk(0.1)", upload_of(VECTOR))
    _, _, both = through("topk(0.1)", upload_of(VECTOR[:50]), other, memory)
    assert {key: value.numel() for key, value in both.items()} == {"residual.0": 700, "residual.1": 50}
    assert torch.equal(both["residual.0"], memory["residual.0"])


def test_places_must_be_in_order_and_inside():
    upload = upload_of(np.arange(1, 101))
    channel = parse_channel("topk(0.02)")
    values = np.zeros(2, "<f4").tobytes()
    for places in ([5, 5], [7, 3], [3, 100]):
        wrong = np.float64(1).tobytes() + packing.pack(np.array(places), 7) + values
        with pytest.raises(ChannelError, match="different places below 100"):
            channel.decode(wrong, upload.layout, SERVER)
    dense = TopK(0.5)
    with pytest.raises(ChannelError, match="50 different places"):
        dense.decode(b"\xff" * 12 + b"\0" * 201, 100, np.dtype("<f4"), parse_channel("quantise(8)").parts[0])


def test_levels_beyond_the_scale_are_refused():
    upload = upload_of(np.ones(4))
    good = parse_channel("quantise(3)").encode(upload, {}, SETTING)[0].data
    with pytest.raises(ChannelError, match="at most 3 levels"):
        parse_channel("quantise(3)").decode(good[:12] + b"\xff\x0f", upload.layout, SERVER)
    with pytest.raises(ChannelError, match="must be zero"):
        parse_channel("quantise(3)").decode(good[:12] + b"\0\xf0", upload.layout, SERVER)
    with pytest.raises(ChannelError, match="finite and not below zero"):
        parse_channel("quantise(3)").decode(good[:8] + np.float32(-1).tobytes() + good[12:], upload.layout, SERVER)
    with pytest.raises(ChannelError, match="below 243"):
        parse_channel("ternary").decode(good[:12] + b"\xff", upload.layout, SERVER)


@settings(max_examples=60, deadline=None)
@given(bits=st.integers(1, 32), data=st.data())
def test_packing_is_exact(bits, data):
    codes = np.array(data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=40)), np.int64)
    packed = packing.pack(codes, bits)
    assert len(packed) == math.ceil(len(codes) * bits / 8)
    assert int.from_bytes(packed, "little") == sum(int(code) << (bits * i) for i, code in enumerate(codes))
    assert packing.unpack(packed, len(codes), bits).tolist() == codes.tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=40))
def test_packing_of_three_values_is_exact(codes):
    packed = packing.pack_trits(np.array(codes, np.int64))
    assert len(packed) == math.ceil(len(codes) / 5)
    assert packing.unpack_trits(packed, len(codes)).tolist() == codes
