"""The fields of RunSpec for type checkers. Made by ``python -m unalike.runs.fields``; do not edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from torch import nn

    from unalike.data import Dataset

    OwnModule = nn.Module | Callable[..., nn.Module]

Part = str | Mapping[str, Any]
"""A part of a run: ``"fedprox(mu=0.1)"``, or ``{"name": "fedprox", "mu": 0.1}``."""


class RunFields(TypedDict, total=False):
    """What may be said of a run by name; what is left out is as RunSpec has it."""

    dataset: Part | Dataset
    """data set, e.g. digits, heart."""
    partition: Part
    """the split, e.g. "label-dirichlet(0.1)"."""
    parties: int | None
    """number of parties [10, or as many as the data have by nature]."""
    model: Part | Sequence[Part] | OwnModule | None
    """net, e.g. "mlp(32,16,8)" [the data set's own, else mlp(64)]."""
    algorithm: Part
    """algorithm, e.g. "fedprox(mu=0.1)"; auto: as recommended."""
    rounds: int
    """rounds of communication."""
    epochs: int | None
    """local epochs in a round [2]."""
    steps: int | None
    """local steps in a round, instead of epochs."""
    batch_size: int
    """rows in a local step."""
    drop_last: bool
    """leave an epoch's incomplete last batch out."""
    optimiser: Part
    """local optimiser, e.g. "adam"."""
    lr: float
    """local learning rate [0.1; adam and rmsprop 0.001]."""
    lr_decay: float
    """factor on the learning rate after each round."""
    sample: float
    """fraction of the parties in each round."""
    cohort: Part
    """how they are chosen, e.g. label-balanced, clustered, power-of-choice."""
    public: float
    """fraction of the training rows that the server owns."""
    validation: float
    """fraction of each party's rows that selects a round."""
    loss: Part | None
    """what is minimised, e.g. a loss of your own [cross-entropy; squared-error in regression]."""
    score: str | None
    """what rounds are selected and parties compared by, e.g. auroc [accuracy; rmse in regression]."""
    held_out: float
    """fraction of each party's rows that the party is evaluated on."""
    evaluate_every: int
    """rounds between evaluations (the last is always evaluated)."""
    evaluate_parties: int | None
    """parties whose own rows are tried, a sample that stays the same [all, but at most 10,000]."""
    fine_tune: int
    """epochs that each party trains its model further before it is tried on its rows."""
    newcomers: float
    """fraction of the parties that never train, and are reported apart."""
    test_by: Literal["held-out", "labels", "all"]
    """try parties on held-out rows, or also on test rows with their own labels, or on all of them."""
    init: str | PathLike[str] | None
    """weights to begin with: a .safetensors file, or a finished run's folder."""
    freeze: str | Sequence[str] | None
    """layers that stay as they are, e.g. "body.0,body.2"."""
    batch_norm: Literal["average", "local", "drop"]
    """running statistics of batch norm: average them, keep them local, or drop them."""
    augment: Literal["none", "crop-flip"]
    """none, or crop-flip for training images."""
    channel: Part | None
    """private channel for uploads, e.g. "clip(1.0)+gauss(0.8)+masked"; none: as they are."""
    seed: int
    """seed of everything random."""
    engine: str
    """what trains the parties: auto, or one of unalike list engines."""
    device: str
    """cpu, cuda or mps; auto: the accelerator, if there is one."""
    dtype: Literal["float32", "float64"]
    """float32 or float64."""
    threads: int
    """CPU threads: parties at once, or inside an operation (vectorised)."""
