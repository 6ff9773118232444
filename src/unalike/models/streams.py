"""The global random streams that layers draw from, such as dropout: the processor's, and that of a device."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_ONE_AT_A_TIME = threading.RLock()
_CPU = torch.device("cpu")


@contextmanager
def own_torch_stream(rng: np.random.Generator, device: torch.device = _CPU) -> Iterator[None]:
    """Layers that draw from torch's global streams draw from ``rng`` in here.

    Initial weights are drawn on the processor, wherever they go afterwards; dropout draws where the net is.
    One thread at a time: there is one stream, and a party's method may ask for initial weights.
    """
    seed = int(rng.integers(2**63))
    with _ONE_AT_A_TIME, kept_streams(device) as streams:
        for each in streams:
            each.manual_seed(seed)
        yield


@contextmanager
def kept_streams(device: torch.device) -> Iterator[list[torch.Generator]]:
    """The streams that layers of nets on this device may draw from; afterwards they are as they were before."""
    streams = [torch.default_generator] if device.type == "cpu" else [torch.default_generator, _stream_on(device)]
    before = [each.get_state() for each in streams]
    try:
        yield streams
    finally:
        for each, state in zip(streams, before, strict=True):
            each.set_state(state)


def _stream_on(device: torch.device) -> torch.Generator:
    """The stream that layers on an accelerator draw from where they name none."""
    if device.type == "mps":
        mps: torch.Generator = torch.mps._get_default_mps_generator()
        return mps
    module = torch.get_device_module(device)
    module.init()  # before that there are none
    streams: tuple[torch.Generator, ...] = module.default_generators
    return streams[module.current_device() if device.index is None else device.index]
