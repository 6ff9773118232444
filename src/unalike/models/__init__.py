"""Tasks and the small nets they train."""

from __future__ import annotations

from unalike.models.mlp import Mlp
from unalike.models.simple_cnn import SimpleCnn
from unalike.models.task import MODELS, Batch, Layout, Model, Net, Task
from unalike.models.token_mlp import TokenMlp

__all__ = ["MODELS", "Batch", "Layout", "Mlp", "Model", "Net", "SimpleCnn", "Task", "TokenMlp"]
