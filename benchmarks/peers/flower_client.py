"""Flower's side of the parties: a module of its own, so that what a Ray actor has loaded stays there."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

from benchmarks.plain import train
from benchmarks.workload import Workload


@cache
def _loaded(job: str) -> tuple[Workload, nn.Module, Any, Any]:
    """The net and all parties' rows, once in the life of an actor."""
    fields = json.loads(job)
    workload = Workload.of(fields["workload"])
    torch.set_num_threads(1)
    x, y, _, _ = workload.arrays()
    rows = [torch.split(torch.from_numpy(part), workload.rows) for part in (x, y)]
    return workload, torch.load(fields["net"], weights_only=False), rows[0], rows[1]


def client(job: str) -> Any:
    """The app that every party runs."""
    app = ClientApp()

    @app.train()
    def answer(message: Message, context: Context) -> Message:
        workload, net, x, y = _loaded(job)
        number = int(context.node_config["partition-id"])
        net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
        train(net, x[number], y[number], workload)
        content = RecordDict()
        content["arrays"] = ArrayRecord(net.state_dict())
        content["metrics"] = MetricRecord({"num-examples": len(y[number])})
        return Message(content=content, reply_to=message)

    return app
