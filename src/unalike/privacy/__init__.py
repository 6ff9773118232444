"""Private channels: what lies between a party's upload and the server's sum (docs/privacy.md).

Each file registers one kind of stage; ``parse_channel("clip(1.0)+gauss(0.8)+masked")`` puts them together.
"""

from __future__ import annotations

from unalike.privacy import clip, encrypted, masked, noise, quantise, ternary, topk
from unalike.privacy.accountant import Accountant, Participation
from unalike.privacy.channel import CHANNELS, Channel, Coded, parse_channel
from unalike.privacy.errors import ChannelError, NotFinite
from unalike.privacy.layout import Layout, Message, Upload
from unalike.privacy.setting import ChannelSetting, secret_random, simulated_random

__all__ = [
    "CHANNELS",
    "Accountant",
    "Channel",
    "ChannelError",
    "ChannelSetting",
    "Coded",
    "Layout",
    "Message",
    "NotFinite",
    "Participation",
    "Upload",
    "clip",
    "encrypted",
    "masked",
    "noise",
    "parse_channel",
    "quantise",
    "secret_random",
    "simulated_random",
    "ternary",
    "topk",
]
