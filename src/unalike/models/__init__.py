"""Tasks and the small nets they train."""

from __future__ import annotations

from unalike.models.batch import Batch
from unalike.models.fedavg_cnn import FedAvgCnn
from unalike.models.layout import WeightLayout
from unalike.models.logistic import Logistic
from unalike.models.lstm import Lstm
from unalike.models.mlp import Mlp
from unalike.models.model import MODELS, Model, ReadsWords, SeveralModels, register_model
from unalike.models.resnet import ResNet18, ResNet50
from unalike.models.simple_cnn import SimpleCnn
from unalike.models.task import Net, Task, without_running_statistics
from unalike.models.token_mlp import TokenMlp
from unalike.models.vgg9 import Vgg9

__all__ = [
    "MODELS",
    "Batch",
    "FedAvgCnn",
    "Logistic",
    "Lstm",
    "Mlp",
    "Model",
    "Net",
    "ReadsWords",
    "ResNet18",
    "ResNet50",
    "SeveralModels",
    "SimpleCnn",
    "Task",
    "TokenMlp",
    "Vgg9",
    "WeightLayout",
    "register_model",
    "without_running_statistics",
]
