"""Mistakes that no processor notices, each put into a place where an accelerator would."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from tests.accelerator.federated import federated
from unalike.algorithms import FedAvg
from unalike.channels.channel import Channel
from unalike.engines.vectorised import _Stack
from unalike.federation import deployed
from unalike.rounds.judging import Judged
from unalike.runs.small import play, small_simulation


@dataclass(frozen=True)
class Mistake:
    """Code in place of a function of the product, and a run that calls it."""

    owner: Any
    name: str
    instead: Callable
    run: Callable[[str], str]

    @contextmanager
    def planted(self):
        before = getattr(self.owner, self.name)
        setattr(self.owner, self.name, self.instead)
        try:
            yield
        finally:
            setattr(self.owner, self.name, before)


def two_rounds(**fields):
    """A run on a device, and the digest that it ends with."""

    def run(device):
        settings = {"epochs": None, "steps": 2, "rounds": 2, "device": device} | fields
        return play(small_simulation("fedavg", **settings), 2).state.digest()

    return run


def zeros_from_nowhere(self, task, w):
    """Momentum of a server's that begins with a vector of the default device."""
    return {"w": w + torch.zeros(len(w))}


real_judge = deployed.judge


def rows_by_the_processors_numbers(task, w, buffers, rows, index, *more):
    """A site that tries a model on rows of the device, whose numbers it left on the processor."""
    return real_judge(task, w, buffers, rows, index.cpu(), *more)


real_tally = Judged.tally


def read_where_it_is(self, parts):
    """A tally that reads its table as an array without asking for it: ``.numpy()`` without ``.cpu()``."""
    table, true = (torch.from_numpy(each.numpy()) for each in (self.table, self.true))
    return real_tally(Judged(self.task, table, true), parts)


real_encode = Channel.encode


def with_memory(self, upload, memory, setting):
    """A channel that adds what did not get through the last time before the upload leaves the device."""
    for kept in memory.values():
        upload.vectors["delta"] = upload.vectors["delta"] + 0 * kept
    return real_encode(self, upload, memory, setting)


real_rows = _Stack._rows


def masks_left_behind(self, data, plan):
    """A stack whose masks of real rows stay where they were made."""
    rows = real_rows(self, data, plan)
    return rows | {"mask": rows["mask"].cpu()} if "mask" in rows else rows


PLANTED = {
    "algorithm": Mistake(FedAvg, "init_server", zeros_from_nowhere, two_rounds()),
    "site": Mistake(deployed, "judge", rows_by_the_processors_numbers, federated),
    "evaluation": Mistake(Judged, "tally", read_where_it_is, two_rounds()),
    "channel": Mistake(Channel, "encode", with_memory, two_rounds(channel="topk(0.5)", sample=1.0)),
    "engine": Mistake(_Stack, "_rows", masks_left_behind, two_rounds(engine="vectorised", epochs=1, steps=None)),
}
