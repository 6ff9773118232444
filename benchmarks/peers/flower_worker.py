"""Flower: its FedAvg on its simulation runtime (Ray), one client at a time on one CPU, central evaluation.

The clients train with the plain loop's own function; start-up and the first round are not counted.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn

from benchmarks.peers.flower_client import client
from benchmarks.peers.worker import Line, tree_time
from benchmarks.plain import evaluate
from benchmarks.workload import Workload


def server(line: Line, job: dict[str, Any]) -> Any:
    """The server's app, which waits between rounds."""
    workload, turns = Workload.of(job["workload"]), job["turns"]
    cohort = workload.cohort or workload.parties
    net: nn.Module = torch.load(job["net"], weights_only=False)
    x_test, y_test = (torch.from_numpy(part) for part in workload.arrays()[2:])
    app = ServerApp()

    def after(number: int, arrays: Any) -> Any:
        if number == 0:
            line.ready(version("flwr"))
            return None
        net.load_state_dict(arrays.to_torch_state_dict())
        loss, accuracy = evaluate(net, x_test, y_test)
        line.played({"accuracy": accuracy}, last=number == turns)
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        torch.set_num_threads(1)
        strategy = FedAvg(
            fraction_train=cohort / workload.parties,
            fraction_evaluate=0.0,
            min_train_nodes=cohort,
            min_available_nodes=workload.parties,
        )
        strategy.start(grid, ArrayRecord(net.state_dict()), turns, evaluate_fn=after)

    return app


def main() -> None:
    line = Line(cpu=tree_time)
    job = line.job()
    torch.set_num_threads(1)
    run_simulation(
        server(line, job),
        client(json.dumps(job)),
        num_supernodes=Workload.of(job["workload"]).parties,
        backend_config={
            "init_args": {"num_cpus": 1, "include_dashboard": False, "log_to_driver": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )


if __name__ == "__main__":
    main()
