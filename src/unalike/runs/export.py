"""A trained model for other programs: safetensors, a torch.export program, ONNX; of trees, JSON or XGBoost."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch

from unalike.errors import UserError, unknown
from unalike.runs.checkpoint import tensor_bytes
from unalike.runs.files import atomic_write, make_folder, named_folder
from unalike.runs.kept import OwnModels, tensors_of
from unalike.runs.model_file import KeptRound, ModelFile, Which, is_trees
from unalike.runs.record import MODEL, WEIGHTS, file_sha256
from unalike.runs.trained import Named, TrainedModel, rebuilt
from unalike.runs.trained_grown import TrainedGrown
from unalike.runs.trained_trees import TrainedTrees

if TYPE_CHECKING:
    from unalike.runs.kept import ModelStore
    from unalike.runs.result import Result

Format = Literal["safetensors", "torch", "onnx", "json", "xgboost", "card"]
FORMATS: tuple[Format, ...] = get_args(Format)
OF_NETS = ("torch", "onnx")
OF_TREES = ("json", "xgboost")
_ROWS = 3
"""Rows of the example that a program is traced with: any number may be given to it later."""
_SMALLEST_EXTERNAL = 2**31 - 2**20
"""Bytes from which ONNX cannot have a model in one file."""


def export(
    result: Result, folder: Path | str, format: str, which: Which = "final", party: int | str | None = None
) -> list[Path]:
    """Write one of a run's models, or the run's card, into a folder; what was written."""
    from unalike.runs.card import card_of
    from unalike.runs.deploy import store_of

    check_format(format)
    if format == "card":
        return write_all({f"card.{kind}": text.encode() for kind, text in card_of(result).texts().items()}, folder)
    return export_model(store_of(result), folder, format, which, party)


def export_model(
    store: ModelStore, folder: Path | str, format: str, which: Which = "final", party: int | str | None = None
) -> list[Path]:
    """Write one of the models that a store has into a folder; what was written."""
    check_format(format, store.about.model)
    tensors, number = tensors_of(store, which, party)
    model = rebuilt(store.about, tensors, store.place, number)
    if format == "safetensors":
        return write_all(_plain_files(tensors, replace(store.about, model=model.text), which), folder)
    if isinstance(model, TrainedTrees):
        name, data = _trees_file(model, format)
    elif isinstance(model, TrainedGrown):
        algorithm = store.about.algorithm.partition("(")[0]
        raise UserError(
            f"{format} is for nets, and this is what {algorithm} joined of the parties' parts. Use one of "
            "safetensors, card."
        )
    else:
        make = {"torch": _torch_program, "onnx": _onnx_program}[format]
        name, data = make(model, store.about)
    return write_all({name: data}, folder)


def check_format(format: str, model: str | None = None) -> None:
    """Refuse what nothing can be exported as; what a ``model`` of that text cannot."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    if model is None:
        return
    trees = is_trees(model)
    others = OF_NETS if trees else OF_TREES
    if format in others:
        kinds = ("nets", "these are trees") if trees else ("trees", "this is a net")
        fitting = ", ".join(one for one in FORMATS if one not in others)
        raise UserError(f"{format} is for {kinds[0]}, and {kinds[1]}. Use one of {fitting}.")


def write_all(files: dict[str, bytes], folder: Path | str) -> list[Path]:
    """Write files into a folder, none of which may be there; their paths."""
    place = named_folder(folder, "-o")
    if place.exists() and not place.is_dir():
        raise UserError(f"{place} is a file, and a folder is needed. Choose another name.")
    for name in files:
        if (place / name).exists():
            raise UserError(f"{place / name} exists, and nothing is overwritten. Choose another folder.")
    make_folder(place)
    for name, data in files.items():
        atomic_write(place / name, data)
    return [place / name for name in files]


def _plain_files(tensors: Sequence[Named], about: ModelFile, which: Which) -> dict[str, bytes]:
    """The weights, and a model.json beside them: a folder that unalike predict takes.

    Neither names of parties nor where the data lie are in it.
    """
    metadata = {"key": about.key, "algorithm": about.algorithm}
    kept = KeptRound(about.stages[which].round)
    if len(tensors) == 1:
        data = tensor_bytes(tensors[0], metadata)
        kept = replace(kept, weights=WEIGHTS, weights_sha256=file_sha256(data))
    else:  # nets that predict together, as the one party's own
        data = OwnModels(tensors, torch.arange(len(tensors))[None]).encode(metadata)
        kept = replace(kept, personal=WEIGHTS, personal_sha256=file_sha256(data))
    described = replace(about, stages={"final": kept}, parties=(), dataset=about.dataset.partition("(")[0])
    return {WEIGHTS: data, MODEL: described.encode()}


def example_rows(about: ModelFile) -> torch.Tensor:
    """A few raw rows of zeros, of the type that they are stored as: images are whole numbers."""
    stored = about.dtype if about.stored == "float32" else about.stored
    return torch.from_numpy(np.zeros((_ROWS, *about.shape), stored))


def _told(about: ModelFile) -> dict[str, str]:
    """What a program's file says of itself."""
    classes, features = json.dumps(about.classes), json.dumps(about.features[:10_000])
    told = {"key": about.key, "task": about.task, "classes": classes, "features": features}
    if about.schema is None:
        return told
    return told | {"coding": json.dumps(about.schema.to_dict()["fields"])}


def _trees_file(model: TrainedTrees, format: str) -> tuple[str, bytes]:
    """Trees as a file that other programs read, in the table's own units."""
    from unalike.trees.json_file import json_bytes
    from unalike.trees.xgboost_file import xgboost_bytes

    if format == "json":
        return "trees.json", json_bytes(model.ensemble, model.columns, model.classes)
    return "xgboost.json", xgboost_bytes(model.ensemble, model.columns)


def _torch_program(model: TrainedModel, about: ModelFile) -> tuple[str, bytes]:
    """A torch.export program with a free number of rows."""
    with _quiet():
        program = torch.export.export(
            model, (example_rows(about),), dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}}
        )
        data = io.BytesIO()
        torch.export.save(program, data, extra_files=_told(about))
    return "model.pt2", data.getvalue()


def _onnx_program(model: TrainedModel, about: ModelFile) -> tuple[str, bytes]:
    """An ONNX model with a free number of rows: input ``rows``, output ``logits`` or ``number``."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise UserError("ONNX needs further packages. Install them: pip install 'unalike[onnx]'.") from None
    if sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers())) > _SMALLEST_EXTERNAL:
        raise UserError("The net is larger than 2 GB, which ONNX cannot have in one file. Use --to torch.")
    with _quiet():
        made: Any = torch.onnx.export(
            model,
            (example_rows(about),),
            dynamo=True,
            dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}},
            input_names=["rows"],
            output_names=["logits" if model.classes else "number"],
            verbose=False,
        )
        made.model.metadata_props.update({f"unalike.{name}": text for name, text in _told(about).items()})
        return "model.onnx", made.model_proto.SerializeToString()


@contextlib.contextmanager
def _quiet() -> Any:
    """Without the warnings of exporters, which speak to their authors."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
