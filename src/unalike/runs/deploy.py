"""A run's models in use: taken from memory or from a folder, and asked about new rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unalike.data.columns import Column
from unalike.data.dataset import Array
from unalike.data.files import check_file
from unalike.data.frames import frame_columns, is_frame
from unalike.data.new_rows import Unknown, read_new_rows
from unalike.data.table import read_table
from unalike.data.unpack import read_npy
from unalike.errors import UserError, within
from unalike.runs.by_name import run_by_name
from unalike.runs.files import list_folder, named_folder
from unalike.runs.kept import FolderModels, ModelStore, trained_model
from unalike.runs.model_file import ModelFile, Which
from unalike.runs.predict import Predictions, Predictor, array_rows, predictions
from unalike.runs.record import MODEL, SPEC, read_run
from unalike.runs.result import Result
from unalike.runs.spec import RunSpec
from unalike.runs.trained import TrainedModel
from unalike.runs.trained_trees import TrainedTrees
from unalike.toml import read_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unalike.runs.predict import CodedRows
    from unalike.trees.importance import Importance


def load(folder: Path | str, runs: Path | str = "runs") -> Result:
    """The result of a finished run, with its models, from its folder or the beginning of its key in ``runs``.

    Neither the data nor the files of own parts are needed, and nothing from the folder is run.
    """
    path = run_folder(named_folder(folder, "load"), named_folder(runs, "runs"))
    found = read_run(path, weights=True)
    if found.result is None:
        problem = found.damage or "this is not the folder of a finished run."
        raise UserError(f"{path}: {problem} Run it again, or choose another: unalike runs list")
    spec = RunSpec.as_recorded(read_toml(found.spec or "", path / SPEC), str(found.result.get("key")))
    return Result(spec, found.result, found.rounds, path)


def run_folder(name: Path, runs: Path) -> Path:
    """A folder with a run or an exported model, or that of the run in ``runs`` whose key or name begins so."""
    if (name / SPEC).is_file() or (name / MODEL).is_file():
        return name
    return run_by_name((path for path in list_folder(runs) if (path / SPEC).is_file()), str(name), runs)


def read_array(path: Path) -> Array:
    """The rows in a .npy file; one that holds Python objects is refused."""
    check_file(path)
    try:
        return read_npy(path.read_bytes())  # unlike numpy.load, no more memory than the file has
    except (OSError, ValueError, EOFError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"Cannot read the array {path}: {reason}. Write it with numpy.save.") from None


def store_of(result: Result) -> ModelStore:
    """The models of a run."""
    if result.models is not None:
        return result.models
    if result.run_dir is None:
        raise UserError("This result has no models: it was put together by hand. Use what unalike.run returns.")
    return FolderModels.open(result.run_dir)


def trained_of(result: Result, which: Which, party: int | str | None) -> TrainedModel:
    """One of a run's models, as :meth:`Result.trained` says."""
    return trained_model(store_of(result), which, party)


def importance_in(result: Result, which: Which, party: int | str | None) -> Importance:
    """What columns are to one of a run's models, as :meth:`Result.importance` says."""
    model = trained_of(result, which, party)
    if not isinstance(model, TrainedTrees):
        raise UserError(f"{model.text} is a net, and only trees tell what they go by. Train trees: --model trees.")
    return model.importance()


def predictor_of(
    store: ModelStore, which: Which = "final", party: int | str | None = None, unknown: Unknown = "error"
) -> Predictor:
    """A model with the coding of its training's table."""
    return Predictor(trained_model(store, which, party), store.about.chosen_score, reader_of(store.about, unknown))


def reader_of(about: ModelFile, unknown: Unknown = "error") -> Callable[[Sequence[Column]], CodedRows]:
    """What codes a table's columns as the training's were; a UserError where that was no table."""
    schema = about.schema
    if schema is None:
        raise UserError(
            f"{about.dataset} is no table of one's own, so no other can be coded like it. Give arrays: "
            "unalike.load(FOLDER).predict(x), or --data rows.npy."
        )
    return lambda columns: read_new_rows(schema, columns, schema.missing, unknown)


def ask(result: Result, x: Any, which: Which, party: int | str | None) -> Predictions:
    """What one of a run's models says of arrays, of a table in a file, or of a data frame."""
    store = store_of(result)
    if is_frame(x):
        return predictor_of(store, which, party).predict(frame_columns(x))
    if not isinstance(x, str | Path):
        model = trained_model(store, which, party)
        return predictions(model, store.about.chosen_score, array_rows(x, store.about))
    predictor, columns = predictor_of(store, which, party), read_table(str(x))
    try:
        return predictor.predict(columns)
    except UserError as error:
        raise within(str(x), error) from None


def answers(result: Result, x: Any, which: Which, party: int | str | None) -> Array:
    """The predicted classes by name, or numbers, as :meth:`Result.predict` says."""
    made = ask(result, x, which, party)
    if not made.classes:
        return made.answers
    if not made.predicted.all():
        raise UserError(
            f"{int((~made.predicted).sum())} rows have a missing value, which the training left out. Fill them in."
        )
    return class_labels(made.classes)[made.answers]


def class_labels(classes: tuple[str, ...]) -> Array:
    """The names of the classes; as whole numbers or truth values, where all of them are."""
    if sorted(name.lower() for name in classes) == ["false", "true"]:
        return np.array([name.lower() == "true" for name in classes])
    whole = all(name.removeprefix("-").isdecimal() and str(int(name)) == name for name in classes)
    return np.array([int(name) for name in classes]) if whole else np.array(classes)


def probabilities(result: Result, x: Any, which: Which, party: int | str | None) -> Array:
    """The probabilities of the classes, as :meth:`Result.predict_proba` says."""
    made = ask(result, x, which, party)
    if not made.classes:
        raise UserError("This model predicts numbers, which have no probabilities. Use predict.")
    return made.probabilities
