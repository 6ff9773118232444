"""The model that a site has at the end of a training, ready for new rows of its own."""

from __future__ import annotations

from pathlib import Path

from unalike.data.new_rows import Unknown, read_new_rows
from unalike.data.schema import Schema
from unalike.errors import UserError
from unalike.federation.folders import AGREED, read_object
from unalike.federation.making import SiteFolder
from unalike.federation.rows import agreed_tasks
from unalike.runs.predict import Predictor, flat_model, read_model
from unalike.scores import choose


def site_predictor(folder: Path, unknown: Unknown = "error") -> Predictor:
    """The model in a site's folder, its own where the algorithm gives each site one, with the agreed coding."""
    place = SiteFolder(folder)
    plan, agreed = place.plan(), read_object(folder / AGREED)
    number = plan.number(place.name)
    path = folder / "model.safetensors"
    model = read_model(path)
    if model is None:
        raise UserError(_why_none(folder, plan.spec.algorithm))
    tensors, about = model
    try:
        schema = Schema.from_dict(agreed["schema"])
    except (KeyError, ValueError) as error:
        raise UserError(f"{folder / AGREED} does not hold what was agreed on: {error}. Copy it back.") from None
    if (agreed.get("plan"), about.get("schema")) != (plan.digest, schema.digest):
        raise UserError(
            f"{path} was not trained by the plan and the agreement that lie beside it. Copy them back."
        )
    tasks = agreed_tasks(plan.spec, schema)
    task = tasks[number % len(tasks)]
    return Predictor(
        task,
        *flat_model(task, tensors, path),
        schema.classes,
        choose(plan.spec.score, "classification"),
        lambda columns: read_new_rows(schema, columns, plan.missing, unknown),
    )


def _why_none(folder: Path, algorithm: str) -> str:
    figures = folder / "figures.json"
    if figures.exists() and not read_object(figures):
        return f"{algorithm} leaves no model at a site: nothing can be predicted. Choose another algorithm."
    return f"{folder} has no model: it comes at the end of the training. See: unalike federation status {folder}"
