"""The body of a finished run's model as a function of rows: what "features" are to that model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from unalike.data.dataset import Array, Dataset
from unalike.engine.build import net_maker
from unalike.engine.run import WEIGHTS
from unalike.engine.rundir import read_spec
from unalike.engine.spec import RunSpec
from unalike.errors import UserError


def run_extractor(run: Path, dataset: Dataset) -> Callable[[Array], Array]:
    """From rows of ``dataset``, as a batch has them, to the features of the run's final global model."""
    text, file = read_spec(run), run / WEIGHTS
    if text is None or not file.is_file():
        raise UserError(f"{run} is not the folder of a finished run. See: unalike runs list")
    spec = RunSpec.from_toml(run / "spec.toml")
    net = net_maker(spec, dataset)()
    try:
        net.load_state_dict(load_file(file), strict=True)
    except (RuntimeError, SafetensorError, OSError):
        raise UserError(
            f"The weights of {run} do not fit {spec.model} on {dataset.name}. Give a run with one global model on "
            "the same kind of data."
        ) from None
    net.eval()
    kind = torch.int64 if dataset.kind == "tokens" else torch.float32

    def extract(rows: Array) -> Array:
        with torch.no_grad():
            features: Array = net.body(torch.as_tensor(rows).to(kind)).numpy()
        return features

    return extract
