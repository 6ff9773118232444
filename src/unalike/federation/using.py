"""The model that a site has at the end of a training, ready for new rows of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unalike.data.new_rows import Unknown
from unalike.data.schema import Schema
from unalike.errors import UserError
from unalike.federation.folders import AGREED, read_object
from unalike.federation.making import SiteFolder
from unalike.federation.plan import Plan
from unalike.federation.rows import made_up
from unalike.models import MODELS
from unalike.runs.deploy import reader_of
from unalike.runs.model_file import ModelFile
from unalike.runs.predict import Predictor, read_model
from unalike.runs.trained import rebuilt


def site_predictor(folder: Path, unknown: Unknown = "error") -> Predictor:
    """The model in a site's folder, its own where the algorithm gives each site one, with the agreed coding."""
    place = SiteFolder(folder)
    plan, agreed = place.plan(), read_object(folder / AGREED)
    if plan.splits_columns:
        raise UserError(
            f"{folder} has one part of a model whose other parts are at other sites. Predict together: "
            "unalike federation predict."
        )
    number = plan.number(place.name)
    path = folder / "model.safetensors"
    model = read_model(path)
    if model is None:
        raise UserError(_why_none(folder, plan.spec.algorithm))
    tensors, told = model
    try:
        schema = Schema.from_dict(agreed["schema"])
    except (KeyError, ValueError) as error:
        raise UserError(f"{folder / AGREED} does not hold what was agreed on: {error}. Copy it back.") from None
    if (agreed.get("plan"), told.get("schema")) != (plan.digest, schema.digest):
        raise UserError(
            f"{path} was not trained by the plan and the agreement that lie beside it. Copy them back."
        )
    about = site_model(plan, schema, number)
    return Predictor(rebuilt(about, [tensors], path), about.chosen_score, reader_of(about, unknown))


def site_model(plan: Plan, schema: Schema, number: int | None = None) -> ModelFile:
    """What the model of a federation is and reads, from what was agreed on, without the names of sites.

    With ``number`` it is that of one site, whose net may be another than others'.
    """
    coded = replace(made_up(schema), schema=replace(schema, missing=plan.missing))
    about, nets = ModelFile.of(plan.spec, coded), MODELS.terms(MODELS.build(str(plan.spec.model)))
    return about if number is None else replace(about, model=MODELS.describe_part(nets[number % len(nets)]))


def _why_none(folder: Path, algorithm: str) -> str:
    figures = folder / "figures.json"
    if figures.exists() and not read_object(figures):
        return f"{algorithm} leaves no model at a site: nothing can be predicted. Choose another algorithm."
    return f"{folder} has no model: it comes at the end of the training. See: unalike federation status {folder}"
