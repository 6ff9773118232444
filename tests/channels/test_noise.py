"""Noise has the promised size and shape, wherever it is added."""

import numpy as np
import pytest
import torch
from scipy import stats

from tests.channels.uploads import through, upload_of
from unalike.channels import ChannelSetting, Summand, parse_channel, simulated_random

SIZE = 20_000


def party(number, cohort=4):
    return ChannelSetting(cohort, party=number, random=simulated_random(5, 1, 0, number))


def noise_on_sum(text, cohort=4):
    """The sum of zero uploads of a cohort, as the server may use it."""
    channel, upload = parse_channel(text), upload_of(np.zeros(SIZE))
    server = ChannelSetting(cohort, random=simulated_random(5, 1, 0, None))
    coded = [channel.encode(upload, {}, party(k, cohort))[0] for k in range(cohort)]
    if channel.hides_single:
        total = channel.from_grid(sum(each.grid for each in coded), upload.layout, server)
    else:
        messages = [channel.decode(each.data, upload.layout, server).message() for each in coded]
        total = sum(messages[1:], messages[0])
    return channel.finish(total, upload.layout, server, cohort).vectors["delta"].numpy()


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("clip(2.0)+gauss(0.5)", stats.norm(0, 1.0)),
        ("clip(2.0)+gauss(0.5)+masked(range=64)", stats.norm(0, 1.0)),
        ("clip(2.0)+gauss(0.5, where=party)", stats.norm(0, 2.0)),  # four times the variance
        ("clip(2.0)+gauss(0.5, where=shared)+masked(range=64)", stats.norm(0, 1.0)),
        ("clip(2.0, l1)+laplace(0.5)", stats.laplace(0, 1.0)),
        ("clip(2.0, l1)+laplace(0.5, where=shared)+masked(range=64)", stats.laplace(0, 1.0)),
    ],
)
def test_the_sum_has_noise_of_the_promised_law(text, law):
    assert stats.kstest(noise_on_sum(text), law.cdf).pvalue > 1e-3


def test_every_party_has_noise_of_its_own():
    channel, upload = parse_channel("clip(1.0)+gauss(1.0, where=party)"), upload_of(np.zeros(SIZE))
    one, other = (
        channel.decode(channel.encode(upload, {}, party(k))[0].data, upload.layout, party(k)).vectors["delta"]
        for k in (0, 1)
    )
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.05
    assert stats.kstest(one.numpy(), stats.norm(0, 1).cdf).pvalue > 1e-3


def test_numbers_and_all_keys_are_noised():
    channel = parse_channel("clip(1.0)+gauss(1.0)")
    upload = upload_of([0.0, 0.0], count=0.0)
    total = channel.finish(Summand(dict(upload.vectors), 1.0), upload.layout, party(0), 4)
    assert all(bool((value != 0).all()) for value in total.vectors.values())


def test_local_noise_may_be_compressed_afterwards():
    arrived, _, _ = through("clip(1.0)+gauss(1.0, where=party)+quantise(8)", upload_of(torch.zeros(1000)))
    assert arrived.vectors["delta"].std() == pytest.approx(1.0, rel=0.1)
