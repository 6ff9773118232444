"""Private channels: what lies between a party's upload and the server's sum (docs/privacy.md).

Each file registers one kind of stage; ``parse_channel("clip(1.0)+gauss(0.8)+masked")`` puts them together.
"""

from __future__ import annotations

from unalike.channels import clip, encrypted, layers, masked, noise, quantise, subsample, ternary, topk
from unalike.channels.accountant import Accountant, Participation
from unalike.channels.channel import CHANNELS, Channel, Coded, parse_channel
from unalike.channels.errors import ChannelError, NotFinite
from unalike.channels.layout import Layout, Summand, Upload
from unalike.channels.setting import ChannelSetting, secret_random, simulated_random

__all__ = [
    "CHANNELS",
    "Accountant",
    "Channel",
    "ChannelError",
    "ChannelSetting",
    "Coded",
    "Layout",
    "NotFinite",
    "Participation",
    "Summand",
    "Upload",
    "clip",
    "encrypted",
    "layers",
    "masked",
    "noise",
    "parse_channel",
    "quantise",
    "secret_random",
    "simulated_random",
    "subsample",
    "ternary",
    "topk",
]
