"""``unalike list``: the parts that a run can be made of."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from unalike.cli.complete import choices
from unalike.cli.options import AsJson, Plugins
from unalike.cli.plugin import load_plugins
from unalike.cli.show import draw, indented, print_json
from unalike.errors import unknown
from unalike.registry import Registry
from unalike.runs.parts import registry

_NAMED = ("algorithm", "dataset", "partition", "model", "channel", "optimiser", "cohort")
_FIELDS = {**{f"{field}s": field for field in _NAMED}, "losses": "loss"}
_KINDS = (*_FIELDS, "scores", "engines")

Part = dict[str, Any]


def list_parts(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]", help=f"one of {', '.join(_KINDS)} [all]", autocompletion=choices(*_KINDS)
        ),
    ] = None,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """List the parts that a run can be made of, with their parameters.

    Write a part as name, name(value) or name(key=value).
    """
    if kind is not None and kind not in _KINDS:
        raise unknown("kind of part", kind, _KINDS)
    load_plugins(plugin)
    found = {each: parts(each) for each in (_KINDS if kind is None else (kind,))}
    if as_json:
        print_json(found if kind is None else {kind: found[kind]})
        return
    for each, those in found.items():
        if kind is None:
            draw(each.upper(), "")
        for part in those:
            draw(*_lines(part), "")


def parts(kind: str) -> list[Part]:
    """What is registered of a kind, ready for JSON. A parameter without a default has none here either."""
    if kind == "engines":
        return _engines()
    if kind == "scores":
        return _scores()
    known = registry(_FIELDS[kind])
    return [
        {
            "name": entry.name,
            "parameters": [_parameter(field, known) for field in entry.parameters],
            "summary": entry.summary,
            "paper": entry.paper,
        }
        for entry in known
    ]


def _engines() -> list[Part]:
    from unalike.engines.table import engines

    return [{"name": name, "parameters": [], "summary": what, "paper": ""} for name, what in engines().items()]


def _scores() -> list[Part]:
    from unalike.scores import SCORES

    made = []
    for score in SCORES.values():
        way = "higher is better" if score.better == "up" else "lower is better"
        told = f"{score.summary} ({score.task}, {way})"
        more = {"task": score.task, "better": score.better, "unit": score.unit}
        made.append({"name": score.name, "parameters": [], "summary": told, "paper": "", **more})
    return made


def _parameter(field: dataclasses.Field[Any], known: Registry[Any]) -> Part:
    """A parameter's name and default; one that holds a part says of what kind, and has the part's text."""
    if field.default is not dataclasses.MISSING:
        default = field.default
    elif field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    else:
        return {"name": field.name}
    if dataclasses.is_dataclass(default):
        return {"name": field.name, "default": known.brief(default), "holds": known.kind}
    return {"name": field.name, "default": default}


def _lines(part: Part) -> list[Any]:
    """Lines, not a table: they fit any width of screen, and a part is chosen by its description."""
    parameters = ", ".join(_shown(each) for each in part["parameters"])
    title = f"{part['name']}({parameters})" if parameters else part["name"]
    return [title, *(indented(line) for line in (part["summary"], part["paper"]) if line)]


def _shown(parameter: Part) -> str:
    if "default" not in parameter:
        return str(parameter["name"])
    default = parameter["default"]
    shown = str(default).lower() if isinstance(default, bool) else default
    if (
        isinstance(default, str) and not default.isidentifier() and "holds" not in parameter
    ):  # as it must be written: label='', delimiter=','
        shown = repr(default)
    return f"{parameter['name']}={shown}"
