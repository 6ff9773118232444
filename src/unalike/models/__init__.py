"""Tasks and the small nets they train.

To import this package loads nothing. Models are settings until they build a net, so that a run's spec can be read
without waiting for torch; a name that is asked for here imports all of them, so that every one is registered.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unalike.models.batch import Batch
    from unalike.models.fedavg_cnn import FedAvgCnn
    from unalike.models.fedrep_cnn import FedRepCnn
    from unalike.models.layout import WeightLayout
    from unalike.models.logistic import Linear, Logistic
    from unalike.models.loss import (
        LOSSES,
        Classification,
        CrossEntropy,
        Loss,
        Regression,
        SquaredError,
        register_loss,
    )
    from unalike.models.lstm import Lstm
    from unalike.models.mlp import Mlp
    from unalike.models.model import MODELS, Model, ReadsWords, SeveralModels, register_model
    from unalike.models.net import Net, loaded_module
    from unalike.models.own import files_of, module, name_code
    from unalike.models.resnet import ResNet18, ResNet50
    from unalike.models.simple_cnn import SimpleCnn
    from unalike.models.task import Task, without_running_statistics
    from unalike.models.token_mlp import TokenMlp
    from unalike.models.trees import Trees
    from unalike.models.vgg9 import Vgg9

__all__ = [
    "LOSSES",
    "MODELS",
    "Batch",
    "Classification",
    "CrossEntropy",
    "FedAvgCnn",
    "FedRepCnn",
    "Linear",
    "Logistic",
    "Loss",
    "Lstm",
    "Mlp",
    "Model",
    "Net",
    "ReadsWords",
    "Regression",
    "ResNet18",
    "ResNet50",
    "SeveralModels",
    "SimpleCnn",
    "SquaredError",
    "Task",
    "TokenMlp",
    "Trees",
    "Vgg9",
    "WeightLayout",
    "files_of",
    "loaded_module",
    "module",
    "name_code",
    "register_loss",
    "register_model",
    "without_running_statistics",
]


_HEAVY = {
    "LOSSES",
    "Batch",
    "Classification",
    "CrossEntropy",
    "Loss",
    "Net",
    "Regression",
    "SquaredError",
    "Task",
    "WeightLayout",
    "loaded_module",
    "register_loss",
    "without_running_statistics",
}
"""The names whose modules load torch."""


def __getattr__(name: str) -> Any:
    """One of the names above; every model is registered then, whichever name it is."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    models = import_module("unalike.models.registered")
    return getattr(import_module("unalike.models.every") if name in _HEAVY else models, name)
