# ruff: noqa: F401
"""What of this package loads torch: tasks, nets and losses."""

from __future__ import annotations

from unalike.models.batch import Batch
from unalike.models.layout import WeightLayout
from unalike.models.loss import LOSSES, Classification, CrossEntropy, Loss, Regression, SquaredError, register_loss
from unalike.models.net import Net, loaded_module
from unalike.models.task import Task, without_running_statistics
