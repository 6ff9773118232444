"""subsample and layers: both sides know what is sent, nothing else is, and the sum is right on average."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.channels.uploads import upload_of
from unalike.channels import ChannelError, ChannelSetting, Layout, Upload, parse_channel, simulated_random
from unalike.errors import UserError

VECTOR = np.random.default_rng(1).normal(size=41).astype(np.float32)
LAYERS = (("body.0", 20), ("body.2", 10), ("head", 11))


def setting(round=1, party=0, seed=0, cohort=3, turn=0):
    return ChannelSetting(
        cohort, 100.0, round, turn, party, None, simulated_random(seed, round, turn, party), seed
    )


def upload(vector=VECTOR, **more):
    made = upload_of(vector, **more)
    layout = Layout(made.layout.shapes, made.layout.plain, made.layout.dtype, layers=LAYERS)
    return Upload(made.vectors, layout, made.weight)


def through(text, made, here, memory=None):
    """What the server opens; the bytes; the party's memory."""
    channel = parse_channel(text)
    coded, kept = channel.encode(made, memory or {}, here)
    opened = channel.decode(coded.data, made.layout, here.of(here.party, simulated_random(9, 9, 9, None)))
    return opened.vectors["delta"].numpy(), coded.data, kept


def hidden_sum(text, uploads, round=1):
    channel, here = (
        parse_channel(text),
        [setting(round, party, cohort=len(uploads)) for party in range(len(uploads))],
    )
    grids = [channel.encode(made, {}, each)[0].grid for made, each in zip(uploads, here, strict=True)]
    server = setting(round, None, cohort=len(uploads))
    total = channel.from_grid(sum(grids[1:], grids[0]), uploads[0].layout, server)
    assert {len(each) for each in grids} == {channel.grid_length(uploads[0].layout, server)}
    return total, len(grids[0])


@pytest.mark.parametrize("text", ["subsample(0.25)", "subsample(0.25, same=true)"])
def test_the_mean_over_draws_is_the_upload(text):
    many = 400
    total = sum(through(text, upload(), setting(round=1 + number))[0] for number in range(many))
    # Hoeffding: a mean of 400 draws from 0 to 41/11 of an entry is off by more with probability below 1e-9.
    assert (np.abs(total / many - VECTOR) <= 41 / 11 * np.abs(VECTOR) * 0.164 + 1e-6).all()


def test_what_is_sent_is_divided_by_its_part_and_the_rest_is_not_sent():
    arrived, data, memory = through("subsample(0.25)", upload(), setting())
    sent = np.flatnonzero(arrived)
    assert len(sent) == math.ceil(0.25 * 41) == 11
    assert arrived[sent] == pytest.approx(VECTOR[sent] * 41 / 11, rel=1e-6)
    assert (len(data), memory) == (8 + 4 * 11, {})


def test_each_party_and_exchange_draws_for_itself_unless_all_send_the_same():
    def places(text, **where):
        return tuple(np.flatnonzero(through(text, upload(), setting(**where))[0]))

    for where in ({"round": 2}, {"turn": 1}, {"seed": 1}):
        for text in ("subsample(0.5)", "subsample(0.5, same=true)"):
            assert places(text) != places(text, **where), (text, where)
    assert places("subsample(0.5)") != places("subsample(0.5)", party=1)
    assert places("subsample(0.5, same=true)") == places("subsample(0.5, same=true)", party=1)


@pytest.mark.parametrize(
    "text", ["subsample(1)", "subsample(1, same=true)", "subsample(1, keep=true)", "layers(1)"]
)
def test_what_leaves_nothing_out_changes_no_bit(text):
    arrived, data, memory = through(text, upload(), setting())
    assert arrived.tobytes() == VECTOR.tobytes()
    assert len(data) == 8 + 4 * 41
    assert not any(value.any() for value in memory.values())


def test_layers_sends_deep_ones_in_every_third_round():
    for round in range(1, 7):
        arrived, data, memory = through("layers(3)", upload(), setting(round))
        shallow = 41 if round % 3 == 0 else 30  # of three layers one is deep
        assert np.array_equal(arrived, np.where(np.arange(41) < shallow, VECTOR, 0))
        assert (len(data), memory) == (8 + 4 * shallow, {})
    assert np.count_nonzero(through("layers(3, deep=2)", upload(), setting())[0]) == 20


def test_layers_takes_stacks_of_nets_apart_and_leaves_other_things_alone():
    stack = np.stack([VECTOR, 2 * VECTOR])
    made = upload(stack, counts=np.ones(7))
    opened = parse_channel("layers(2, deep=2)")
    data = opened.encode(made, {}, setting())[0].data
    vectors = opened.decode(data, made.layout, setting()).vectors
    assert np.array_equal(vectors["delta"].numpy() != 0, np.tile(np.arange(41) < 20, (2, 1)))
    assert (vectors["counts"] == 1).all()
    assert len(data) == 8 + 4 * (2 * 20 + 7)


@pytest.mark.parametrize("text", ["subsample(0.1)", "layers(2)", "subsample(0.1)+quantise(8)"])
def test_single_numbers_and_what_must_be_complete_are_sent_whole(text):
    vectors = {"delta": torch.as_tensor(VECTOR), "engine": torch.full((9,), 2.0), "n": torch.tensor(5.0)}
    layout = Layout.of(vectors, complete=frozenset({"engine"}), layers=LAYERS)
    opened = parse_channel(text)
    data = opened.encode(Upload(vectors, layout), {}, setting())[0].data
    arrived = opened.decode(data, layout, setting()).vectors
    assert torch.equal(arrived["n"], vectors["n"])
    assert torch.allclose(arrived["engine"], vectors["engine"], rtol=1e-2)
    assert int((arrived["delta"] != 0).sum()) <= 30


@pytest.mark.parametrize(
    "text", ["subsample(0.2, keep=true)", "layers(4, keep=true)", "subsample(0.2, keep=true)+quantise(4)"]
)
def test_with_keep_nothing_is_lost_for_good(text):
    memory, arrived, rounds = {}, np.zeros(41), 40
    for number in range(1, rounds + 1):
        got, _, memory = through(text, upload(), setting(number), memory)
        arrived += got
    assert arrived + memory["residual.0"].numpy() == pytest.approx(rounds * VECTOR, rel=1e-3, abs=1e-3)
    if text.startswith("layers"):
        assert not memory["residual.0"].any()  # round 40 sent everything


def test_without_keep_what_parties_learnt_between_is_lost():
    arrived = [through("layers(2)", upload(), setting(number))[0] for number in (1, 2)]
    assert np.array_equal(sum(arrived), np.where(np.arange(41) < 30, 2 * VECTOR, VECTOR))


@pytest.mark.parametrize("hidden", ["masked(64)", "encrypted(2)"])
@pytest.mark.parametrize(
    ("text", "round", "sent"), [("subsample(0.25, same=true)", 1, 11), ("layers(2)", 1, 30), ("layers(2)", 2, 41)]
)
def test_hidden_sums_add_only_what_is_sent(text, round, sent, hidden):
    uploads = [upload(VECTOR * k, weight=10.0 * k) for k in (1, 2, 3)]
    total, length = hidden_sum(f"{text}+{hidden}", uploads, round)
    assert length == (sent + 1) * (2 if hidden == "encrypted(2)" else 1)  # and the weight
    single = [through(text, made, setting(round, party))[0] * made.weight for party, made in enumerate(uploads)]
    assert total.vectors["delta"].numpy() == pytest.approx(sum(single), rel=1e-5, abs=1e-4)
    assert total.weight == pytest.approx(60)


def test_under_a_hidden_sum_too_what_was_left_out_is_kept():
    channel, made = parse_channel("layers(2, keep=true)+masked"), upload()
    _, memory = channel.encode(made, {}, setting(1))
    assert set(memory) == {"residual.0"}
    assert np.array_equal(memory["residual.0"].numpy(), np.where(np.arange(41) < 30, 0, VECTOR))
    _, memory = channel.encode(made, memory, setting(2))
    assert not memory["residual.0"].any()


def test_a_value_beyond_the_range_is_named_by_where_it_really_is():
    wrong = np.where(np.arange(41) == 40, 100.0, 0.0)
    made = upload(np.zeros(41), other=wrong)
    for text, round in (("layers(2)+masked", 2), ("subsample(1, same=true)+masked", 1)):
        with pytest.raises(ChannelError, match="Party 0's other has the value"):
            parse_channel(text).encode(made, {}, setting(round))
    parse_channel("layers(2)+masked").encode(made, {}, setting(1))  # it is not sent


def test_what_was_not_clipped_is_refused_though_the_server_scales_it():
    here, honest, longer = setting(), parse_channel("clip(1.0)+subsample(0.5)"), parse_channel("subsample(0.5)")
    made = upload(10 * VECTOR)
    data = honest.encode(made, {}, here)[0].data
    assert np.linalg.norm(honest.decode(data, made.layout, here).vectors["delta"]) > 1  # times 41 / 21
    with pytest.raises(ChannelError, match="it was not clipped"):
        honest.decode(longer.encode(made, {}, here)[0].data, made.layout, here)


@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=80))
def test_bytes_of_another_length_are_refused(data):
    made = upload()
    if len(data) != 8 + 44:
        with pytest.raises(ChannelError):
            parse_channel("subsample(0.25)").decode(data, made.layout, setting())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("subsample(0)", "above 0 and at most 1"),
        ("subsample(1.5)", "Try subsample"),
        ("layers(0)", "at least 1"),
        ("layers(deep=0)", "at least 1"),
        ("subsample(0.1)+masked", "Write same=true"),
        ("subsample(0.1, same=true)+quantise(8)+masked", "quantise.* saves nothing under"),
        ("subsample(0.1)+topk(0.1)", "do the same work"),
        ("layers+subsample(0.1)", "do the same work"),
        ("clip(1.0)+gauss(1.0)+subsample(0.1)", "Use where=party"),
        ("clip(1.0)+gauss(1.0, where=shared)+layers+masked", "Use where=party"),
        ("quantise+layers", "must come before"),
    ],
)
def test_what_does_not_go_together_is_told(text, says):
    with pytest.raises(UserError, match=says) as refused:
        parse_channel(text)
    assert "\n" not in str(refused.value)


def test_a_net_must_have_deep_layers_and_others():
    for text, layers in itertools.product(["layers(deep=3)", "layers(deep=9)"], [LAYERS]):
        with pytest.raises(UserError, match="3 layers with weights"):
            parse_channel(text).chosen.check(layers)
    for layers in ((), (("head", 5),)):
        with pytest.raises(UserError):
            parse_channel("layers").chosen.check(layers)
    parse_channel("layers(deep=2)").chosen.check(LAYERS)
