"""Unalike: federated learning for data that are unalike (non-IID)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unalike.algorithms import Algorithm, Ask, ByParty, Party, Phase, Replies, Vectors, algorithm
    from unalike.channels.channel import register_channel
    from unalike.data import DATASETS, Dataset, load_dataset
    from unalike.data.dataset import register_dataset
    from unalike.errors import UserError
    from unalike.models import MODELS, Batch, Net, Task
    from unalike.models.loss import register_loss
    from unalike.models.model import register_model
    from unalike.partition import PARTITIONS, Partition, make_partition
    from unalike.partition.partition import register_partition
    from unalike.rounds.optimisers import register_optimiser
    from unalike.runs.check import check_algorithm
    from unalike.runs.result import Result
    from unalike.runs.run import run
    from unalike.runs.spec import RunSpec
    from unalike.studies.tuning.tune import tune

__version__ = "0.1.0"

_HOME = {
    "unalike.algorithms": ("Algorithm", "Ask", "ByParty", "Party", "Phase", "Replies", "Vectors", "algorithm"),
    "unalike.channels.channel": ("register_channel",),
    "unalike.data": ("DATASETS", "Dataset", "load_dataset"),
    "unalike.data.dataset": ("register_dataset",),
    "unalike.runs.check": ("check_algorithm",),
    "unalike.runs.result": ("Result",),
    "unalike.runs.run": ("run",),
    "unalike.runs.spec": ("RunSpec",),
    "unalike.errors": ("UserError",),
    "unalike.models": ("MODELS", "Batch", "Net", "Task"),
    "unalike.models.loss": ("register_loss",),
    "unalike.models.model": ("register_model",),
    "unalike.partition": ("PARTITIONS", "Partition", "make_partition"),
    "unalike.partition.partition": ("register_partition",),
    "unalike.rounds.optimisers": ("register_optimiser",),
    "unalike.studies.tuning.tune": ("tune",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "DATASETS",
    "MODELS",
    "PARTITIONS",
    "Algorithm",
    "Ask",
    "Batch",
    "ByParty",
    "Dataset",
    "Net",
    "Partition",
    "Party",
    "Phase",
    "Replies",
    "Result",
    "RunSpec",
    "Task",
    "UserError",
    "Vectors",
    "algorithm",
    "check_algorithm",
    "load_dataset",
    "make_partition",
    "register_channel",
    "register_dataset",
    "register_loss",
    "register_model",
    "register_optimiser",
    "register_partition",
    "run",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import on first use, so that ``import unalike`` does not load torch."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'unalike' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
