"""Order of stages, what is sent, what is refused, and what the server may use."""

import sys
from dataclasses import replace
from subprocess import run

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.channels.uploads import SERVER, SETTING, through, upload_of
from unalike.channels import (
    CHANNELS,
    ChannelError,
    ChannelSetting,
    NotFinite,
    Summand,
    parse_channel,
    secret_random,
    simulated_random,
)
from unalike.errors import UserError

SINGLE = ["clip(1.0)", "quantise(8)", "quantise(3)", "ternary", "topk(0.1)", "topk(0.1)+quantise(4)", "topk(0.9)"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gauss(1.0)", r"needs an l2 clip before it.*clip\(1.0\)\+gauss"),
        ("laplace(1.0)", "needs an l1 clip before it"),
        ("clip(1.0)+laplace(1.0)", "needs an l1 clip before it"),
        ("clip(1.0, l1)+gauss(1.0)", "needs an l2 clip before it"),
        ("gauss(1.0)+clip(1.0)", "must come before gauss"),
        ("masked+clip(1.0)", r"Write clip\(1.0\)\+masked"),
        ("quantise(8)+topk(0.1)", "must come before quantise"),
        ("masked+encrypted", "Keep one of them"),
        ("quantise(8)+ternary", "Keep one of them"),
        ("clip(1.0)+clip(2.0)", "Keep one of them"),
        ("topk(0.1)+masked", "Leave topk"),
        ("quantise(8)+encrypted", "Leave quantise"),
        ("clip(1.0)+gauss(1.0)+quantise(8)", "above its clip.*where=party"),
        ("clip(1.0)+gauss(1.0, where=shared)", "Add .masked"),
        ("clip(1.0)+gauss(1.0)+encrypted", r"before the server adds noise\. Use where=shared"),
        ("clip(0)", "clip's bound must be above 0"),
        ("clip(1.0)+gauss(0)", "multiplier must be above 0"),
        ("clip(1.0)+gauss(1.0, delta=2)", "delta must be between"),
        ("quantise(1)", "bits must be from 2 to 16"),
        ("topk(0)", "fraction must be above 0"),
        ("masked(16)", "one of 32, 64"),
        ("masked(range=0)", "range must be"),
        ("encrypted(3)", "one of 1, 2"),
        ("clipp(1.0)", "Did you mean 'clip'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(text, says):
    with pytest.raises(UserError, match=says) as refused:
        parse_channel(text)
    assert "\n" not in str(refused.value)


def test_text_is_canonical_and_read_back():
    text = "clip(1.0)+gauss(0.8)+masked"
    channel = parse_channel(text)
    assert parse_channel(CHANNELS.describe(channel)) == channel
    assert CHANNELS.brief(channel) == text
    assert channel.hides_single
    assert channel.uniform_weights
    assert parse_channel(None) == parse_channel("none")
    assert not parse_channel(None).parts


@pytest.mark.parametrize("text", ["none", *SINGLE])
def test_weight_loss_and_numbers_arrive_as_they_are(text):
    upload = upload_of(np.linspace(-0.01, 0.01, 999), weight=37.0, loss=2.25, h=0.75, count=[1.0])
    arrived, _, _ = through(text, upload)
    assert (arrived.weight, arrived.loss) == (37.0, 2.25)
    if text != "clip(1.0)":  # which scales everything
        assert float(arrived.vectors["h"]) == 0.75
        assert arrived.vectors["count"].tolist() == [1.0]
    assert arrived.vectors["delta"].shape == (999,)
    assert arrived.vectors["h"].shape == ()


def test_without_loss_of_information_the_message_is_the_same_to_the_bit():
    upload = upload_of(
        np.random.default_rng(0).normal(size=500), weight=37.0, loss=1.5, plain=("other",), other=[3.0]
    )
    arrived, data, memory = through("clip(1e9)", upload)
    message = arrived.message()
    assert torch.equal(message.vectors["delta"], upload.vectors["delta"] * torch.tensor(37.0))
    assert message.vectors["other"].tolist() == [3.0]
    assert message.loss == 1.5 * 37
    assert len(data) == 16 + 501 * 4
    assert not memory


@pytest.mark.parametrize("text", SINGLE)
@pytest.mark.parametrize("size", [0, 1, 2, 5, 511, 513])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_size_goes_through(text, size, dtype):
    vector = np.random.default_rng(size).normal(size=size)
    arrived, _, _ = through(text, upload_of(vector, dtype=dtype))
    assert arrived.vectors["delta"].dtype == getattr(torch, dtype)
    assert arrived.vectors["delta"].shape == (size,)
    if size > 1 and "topk" not in text and text != "clip(1.0)":
        assert np.abs(arrived.vectors["delta"].numpy() - vector).max() <= np.abs(vector).max()


@pytest.mark.parametrize("text", SINGLE)
@settings(max_examples=30, deadline=None)
@given(cut=st.integers(1, 200), noise=st.binary(min_size=1, max_size=64), data=st.data())
def test_bytes_from_outside_are_refused_or_harmless(text, cut, noise, data):
    channel = parse_channel(text)
    upload = upload_of(np.linspace(-1, 1, 300), loss=1.0)
    raw = channel.encode(upload, {}, SETTING)[0].data
    for wrong in (raw[:-cut], raw + noise, b"", noise):
        with pytest.raises(ChannelError):
            channel.decode(wrong, upload.layout, SERVER)
    place = data.draw(st.integers(0, len(raw) - len(noise)))
    changed = raw[:place] + noise + raw[place + len(noise) :]
    try:
        arrived = channel.decode(changed, upload.layout, SERVER)
    except ChannelError:
        return
    assert bool(torch.isfinite(arrived.vectors["delta"]).all())
    assert np.isfinite([arrived.weight, arrived.loss]).all()


@pytest.mark.parametrize("text", [*SINGLE, "masked", "clip(1.0)+gauss(1.0)"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_an_error_that_names_the_party(text, wrong):
    with pytest.raises(NotFinite, match="Party 3's delta"):
        parse_channel(text).encode(upload_of([1.0, wrong, 2.0]), {}, SETTING)
    if "gauss" not in text:
        with pytest.raises(NotFinite, match="weight or loss"):
            parse_channel(text).encode(upload_of([1.0, 2.0], loss=wrong), {}, SETTING)


def test_another_layout_is_refused():
    upload = upload_of([1.0, 2.0])
    with pytest.raises(ChannelError, match="other keys or shapes"):
        parse_channel("clip(1.0)").encode(replace(upload, layout=upload_of([1.0]).layout), {}, SETTING)
    with pytest.raises(ChannelError, match="use from_grid"):
        parse_channel("masked").decode(b"", upload.layout, SERVER)
    with pytest.raises(ChannelError, match="use decode"):
        parse_channel("clip(1.0)").from_grid(np.zeros(2, np.int64), upload.layout, SERVER)


def test_under_noise_neither_weight_nor_loss_leaves_the_party():
    channel = parse_channel("clip(1.0)+gauss(0.5)")
    several = {channel.encode(upload_of([0.1, 0.2], w, loss), {}, SETTING)[0].data for w, loss in [(1, 2), (9, 3)]}
    assert len(several) == 1
    assert len(several.pop()) == 8
    grids = [
        parse_channel("clip(1.0)+gauss(0.5)+masked").encode(upload_of([0.1, 0.2], w, 1.0), {}, SETTING)[0].grid
        for w in (1, 9)
    ]
    assert grids[0].tolist() == grids[1].tolist()
    assert len(grids[0]) == 2


def test_under_noise_the_sum_is_divided_by_the_public_cohort():
    channel = parse_channel("clip(1.0)+gauss(1e-9)")
    layout = upload_of([0.0, 0.0]).layout
    total = channel.finish(Summand({"delta": torch.tensor([1.0, 2.0])}, 3.0, 5.0), layout, SERVER, answered=3)
    assert total.weight == 4
    assert total.loss is None


def test_shares_of_noise_of_too_few_are_refused():
    channel = parse_channel("clip(1.0)+gauss(1.0, where=shared)+masked")
    layout, message = upload_of([0.0]).layout, Summand({"delta": torch.tensor([1.0])}, 3.0)
    with pytest.raises(ChannelError, match="3 parties answered"):
        channel.finish(message, layout, SERVER, answered=3)
    channel.finish(message, layout, replace(SERVER, fewest=3), answered=3)


def test_simulated_streams_repeat_and_secret_ones_do_not():
    def draw(random, use="noise"):
        return random(use).random()

    assert draw(simulated_random(0, 1, 0, 3)) == draw(simulated_random(0, 1, 0, 3))
    places = [(0, 1, 0, 3), (1, 1, 0, 3), (0, 2, 0, 3), (0, 1, 1, 3), (0, 1, 0, 4), (0, 1, 0, None)]
    drawn = {draw(simulated_random(*place)) for place in places} | {draw(simulated_random(0, 1, 0, 3), "rounding")}
    assert len(drawn) == 7
    assert draw(secret_random) != draw(secret_random)
    assert ChannelSetting(3).random is secret_random


def test_a_setting_that_makes_no_sense_is_refused():
    for wrong in ({"cohort": 0}, {"cohort": 3, "scale": 0.0}, {"cohort": 3, "fewest": 4}):
        with pytest.raises(UserError):
            ChannelSetting(**wrong)


def test_listing_stages_needs_no_torch():
    code = "import sys, unalike.channels; sys.exit('torch' in sys.modules or 'dp_accounting' in sys.modules)"
    assert run([sys.executable, "-c", code]).returncode == 0
