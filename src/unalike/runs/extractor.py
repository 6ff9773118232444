"""The body of a finished run's model as a function of rows: what "features" are to that model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load

from unalike.data.dataset import Array, Dataset
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.runs.build import net_maker
from unalike.runs.record import SPEC, checked_weights, read_run
from unalike.runs.seals import Broken
from unalike.runs.spec import RunSpec
from unalike.toml import read_toml


def run_extractor(run: Path, dataset: Dataset) -> Callable[[Array], Array]:
    """From rows of ``dataset``, as a batch has them, to the features of the run's final global model."""
    found = read_run(run)
    if found.result is None:
        problem = found.damage or "this is not the folder of a finished run."
        raise UserError(f"{run}: {problem} Run it again, or choose another: unalike runs list")
    try:
        weights = checked_weights(run, found.result)
    except Broken as error:
        raise UserError(f"{run}: {error}. Run it again, or choose another: unalike runs list") from None
    spec = RunSpec.as_recorded(read_toml(found.spec or "", run / SPEC), str(found.result.get("key")))
    model, *others = MODELS.terms(MODELS.build(str(spec.model)))
    if others:
        raise UserError(f"{spec.model} is {1 + len(others)} nets. Give a run with one as the extractor.")
    net = net_maker(spec, model, dataset)()
    try:
        net.load_state_dict(load(weights), strict=True)
    except (RuntimeError, SafetensorError):
        raise UserError(
            f"The weights of {run} do not fit {spec.model} on {dataset.name}. Give a run with one global model on "
            "the same kind of data."
        ) from None
    net.eval()
    kind = torch.int64 if dataset.kind == "tokens" else torch.float32

    def extract(rows: Array) -> Array:
        with torch.no_grad():
            features: Array = net(torch.as_tensor(rows).to(kind))[1].numpy()
        return features

    return extract
