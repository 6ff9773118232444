"""Uploads made up for tests."""

import numpy as np
import torch

from unalike.channels import ChannelSetting, Layout, Upload, parse_channel, simulated_random

SETTING = ChannelSetting(cohort=4, scale=100.0, party=3, random=simulated_random(0, 1, 0, 3))
SERVER = SETTING.of(None, simulated_random(0, 1, 0, None))


def upload_of(vector, weight=25.0, loss=None, dtype="float32", plain=(), **more):
    vectors = {"delta": torch.as_tensor(np.asarray(vector, dtype))}
    vectors |= {key: torch.as_tensor(np.asarray(value, dtype)) for key, value in more.items()}
    return Upload(vectors, Layout.of(vectors, frozenset(plain), dtype, loss is not None), weight, loss)


def through(text, upload, setting=SETTING, memory=None):
    """The upload as the server of a channel that shows single ones sees it; the bytes; the party's memory."""
    channel = parse_channel(text)
    coded, kept = channel.encode(upload, memory or {}, setting)
    return channel.decode(coded.data, upload.layout, SERVER), coded.data, kept
