"""Apple's pfl: FederatedAveraging on its simulated backend, with its in-memory data set of tensors.

That data set cuts a party's batches once and keeps them, so pfl neither shuffles nor gathers: its fastest way.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend  # type: ignore[import-not-found]
from pfl.aggregate.weighting import WeightByDatapoints  # type: ignore[import-not-found]
from pfl.algorithm.base import NNAlgorithmParams  # type: ignore[import-not-found]
from pfl.algorithm.federated_averaging import FederatedAveraging  # type: ignore[import-not-found]
from pfl.callback.base import TrainingProcessCallback  # type: ignore[import-not-found]
from pfl.callback.central_evaluation import CentralEvaluationCallback  # type: ignore[import-not-found]
from pfl.data.federated_dataset import FederatedDataset  # type: ignore[import-not-found]
from pfl.data.pytorch import PyTorchTensorDataset  # type: ignore[import-not-found]
from pfl.data.sampling import get_user_sampler  # type: ignore[import-not-found]
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams  # type: ignore[import-not-found]
from pfl.metrics import Metrics, Weighted, get_overall_value  # type: ignore[import-not-found]
from pfl.model.pytorch import PyTorchModel  # type: ignore[import-not-found]
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.peers.worker import Line
from benchmarks.plain import EVALUATED
from benchmarks.workload import LR, MOMENTUM, Workload


class Model(nn.Module):
    """The net with the loss and the metrics that pfl asks for."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(self.net(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        logits = self.net(x)
        loss = float(functional.cross_entropy(logits, y, reduction="sum"))
        correct = float((logits.argmax(dim=1) == y).sum())
        return {"loss": Weighted(loss, len(y)), "accuracy": Weighted(correct, len(y))}


class Turns(TrainingProcessCallback):  # type: ignore[misc]
    """Waits between rounds; comes after the evaluation."""

    def __init__(self, line: Line, turns: int) -> None:
        self.line, self.turns = line, turns

    def on_train_begin(self, *, model: Any) -> Any:
        self.line.ready(version("pfl"))
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Any, model: Any, *, central_iteration: int
    ) -> tuple[bool, Any]:
        found = {str(name): value for name, value in aggregate_metrics}
        value = found.get("Central val | accuracy")
        accuracy = None if value is None else float(get_overall_value(value))
        self.line.played({"accuracy": accuracy}, last=central_iteration == self.turns - 1)
        return False, Metrics()


def main() -> None:
    line = Line()
    job = line.job()
    workload, turns = Workload.of(job["workload"]), job["turns"]
    torch.set_num_threads(1)
    net: nn.Module = torch.load(job["net"], weights_only=False)
    x, y, x_test, y_test = (torch.from_numpy(part) for part in workload.arrays())
    users = [
        PyTorchTensorDataset(pair, user_id=str(number))
        for number, pair in enumerate(
            zip(torch.split(x, workload.rows), torch.split(y, workload.rows), strict=True)
        )
    ]
    data = FederatedDataset(users.__getitem__, get_user_sampler("minimize_reuse", range(workload.parties)))
    model = Model(net)
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    wrapped = PyTorchModel(model, lambda values, lr: torch.optim.SGD(values, lr=lr, momentum=MOMENTUM), sgd)
    evaluation = NNEvalHyperParams(local_batch_size=EVALUATED)
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=turns,
            evaluation_frequency=10**9,  # of the parties' own rows, which nobody else evaluates
            train_cohort_size=workload.cohort or workload.parties,
            val_cohort_size=0,
        ),
        SimulatedBackend(data, data, [WeightByDatapoints()]),
        wrapped,
        NNTrainHyperParams(
            local_num_epochs=workload.epochs, local_learning_rate=LR, local_batch_size=workload.batch
        ),
        evaluation,
        [CentralEvaluationCallback(PyTorchTensorDataset((x_test, y_test)), evaluation), Turns(line, turns)],
        send_metrics_to_platform=False,
    )


if __name__ == "__main__":
    main()
