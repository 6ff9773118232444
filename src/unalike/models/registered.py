# ruff: noqa: F401
"""All models by name: to import this registers every one of them, and loads no torch until one is built."""

from __future__ import annotations

from unalike.models.fedavg_cnn import FedAvgCnn
from unalike.models.fedrep_cnn import FedRepCnn
from unalike.models.logistic import Linear, Logistic
from unalike.models.lstm import Lstm
from unalike.models.mlp import Mlp
from unalike.models.model import MODELS, Model, ReadsWords, SeveralModels, register_model
from unalike.models.own import files_of, module, name_code
from unalike.models.resnet import ResNet18, ResNet50
from unalike.models.simple_cnn import SimpleCnn
from unalike.models.token_mlp import TokenMlp
from unalike.models.trees import Trees
from unalike.models.vgg9 import Vgg9
