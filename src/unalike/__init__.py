"""Unalike: federated learning for data that are unalike (non-IID)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unalike.algorithms import Algorithm, Ask, ByParty, Party, Phase, Replies, Vectors, algorithm
    from unalike.channels.channel import register_channel
    from unalike.data import DATASETS, Dataset, load_dataset
    from unalike.data.dataset import register_dataset
    from unalike.data.making import dataset
    from unalike.errors import UserError
    from unalike.models import MODELS, Batch, Net, Task
    from unalike.models.loss import register_loss
    from unalike.models.model import register_model
    from unalike.models.own import module
    from unalike.notebook.comparison import Comparison, compare
    from unalike.notebook.run import run, run_until
    from unalike.own_files import allow_code
    from unalike.partition import PARTITIONS, Partition, make_partition
    from unalike.partition.partition import register_partition
    from unalike.rounds.cohorts.cohort import register_cohort
    from unalike.rounds.optimisers import register_optimiser
    from unalike.runs.check import check_algorithm
    from unalike.runs.check_protocol import check_protocol
    from unalike.runs.deploy import load
    from unalike.runs.paused import Paused
    from unalike.runs.result import Result
    from unalike.runs.run_fields import RunFields
    from unalike.runs.spec import RunSpec
    from unalike.studies.tuning.tune import tune

__version__ = "0.1.0"

_HOME = {
    "unalike.algorithms": ("Algorithm", "Ask", "ByParty", "Party", "Phase", "Replies", "Vectors", "algorithm"),
    "unalike.channels.channel": ("register_channel",),
    "unalike.data": ("DATASETS", "Dataset", "load_dataset"),
    "unalike.data.dataset": ("register_dataset",),
    "unalike.data.making": ("dataset",),
    "unalike.runs.check": ("check_algorithm",),
    "unalike.runs.check_protocol": ("check_protocol",),
    "unalike.runs.deploy": ("load",),
    "unalike.runs.paused": ("Paused",),
    "unalike.runs.result": ("Result",),
    "unalike.notebook.comparison": ("Comparison", "compare"),
    "unalike.notebook.run": ("run", "run_until"),
    "unalike.runs.run_fields": ("RunFields",),
    "unalike.runs.spec": ("RunSpec",),
    "unalike.errors": ("UserError",),
    "unalike.models": ("MODELS", "Batch", "Net", "Task"),
    "unalike.models.loss": ("register_loss",),
    "unalike.models.model": ("register_model",),
    "unalike.models.own": ("module",),
    "unalike.own_files": ("allow_code",),
    "unalike.partition": ("PARTITIONS", "Partition", "make_partition"),
    "unalike.partition.partition": ("register_partition",),
    "unalike.rounds.cohorts.cohort": ("register_cohort",),
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
    "Comparison",
    "Dataset",
    "Net",
    "Partition",
    "Party",
    "Paused",
    "Phase",
    "Replies",
    "Result",
    "RunFields",
    "RunSpec",
    "Task",
    "UserError",
    "Vectors",
    "algorithm",
    "allow_code",
    "check_algorithm",
    "check_protocol",
    "compare",
    "dataset",
    "load",
    "load_dataset",
    "make_partition",
    "module",
    "register_channel",
    "register_cohort",
    "register_dataset",
    "register_loss",
    "register_model",
    "register_optimiser",
    "register_partition",
    "run",
    "run_until",
    "tune",
]


def _rooms() -> set[str]:
    """The packages and modules in here, but for those that are started and not imported."""
    from pkgutil import iter_modules

    return {room.name for room in iter_modules(__path__) if not room.name.startswith("_")}


def __getattr__(name: str) -> Any:
    """Import on first use, so that ``import unalike`` does not load torch."""
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    if not name.startswith("_") and name in _rooms():
        return import_module(f"unalike.{name}")
    raise AttributeError(f"module 'unalike' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What the package offers, and the rooms in it, for ``dir`` and for Tab."""
    return sorted({*__all__, *_rooms(), "__version__"})
