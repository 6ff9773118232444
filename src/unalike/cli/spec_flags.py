"""Flags that are the fields of RunSpec, for the commands that say what is trained."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from unalike.cli import complete
from unalike.engines.table import engine_names
from unalike.runs.parts import PARTS
from unalike.runs.spec import RunSpec
from unalike.scores import SCORES

_METAVARS = {int: "INTEGER", float: "FLOAT", str: "TEXT"}
"""As they are called in every version of typer."""


def with_flags(function: Any, without: Collection[str] = ()) -> None:
    """Give a command with ``**fields`` one option for each field of RunSpec but those in ``without``.

    Without a default: what is not given is left to a file, or to RunSpec.
    """
    own = inspect.signature(function, eval_str=True)
    fixed = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    arguments = [each for each in fixed if each.default is inspect.Parameter.empty]
    options = [each for each in fixed if each not in arguments]
    function.__signature__ = own.replace(parameters=[*arguments, *_flags(without), *options])


def _flags(without: Collection[str]) -> list[inspect.Parameter]:
    hints = get_type_hints(RunSpec)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=None,
            annotation=Annotated[
                (kind := _plain_type(hints[field.name])) | None,
                typer.Option(
                    metavar=_METAVARS.get(kind),
                    help=_help(field),
                    autocompletion=_completer(field.name, hints[field.name]),
                    callback=_named_code if field.name == "model" else None,
                ),
            ],
        )
        for field in RunSpec.options()
        if field.name not in without
    ]


def _named_code(text: str | None) -> str | None:
    """A model on the command line: a file of code in it is named by the user, and may be run."""
    if text and "module" in text:
        from unalike.models.own import name_code

        name_code(text)
    return text


def _completer(name: str, hint: Any) -> complete.Completer | None:
    """What the shell may offer as a value: the parts of that kind, or the words that a field can be."""
    if name in PARTS:
        return complete.parts(name)
    known = {"device": ("auto", "cpu", "cuda", "mps"), "engine": engine_names(), "score": tuple(SCORES)}
    words = known.get(name) or (get_args(hint) if get_origin(hint) is Literal else ())
    return complete.choices(*words) if words else None


def _plain_type(hint: Any) -> type:
    """The type that the command line reads. RunSpec itself refuses what is not among a Literal's values."""
    return next((kind for kind in (bool, int, float) if hint is kind or kind in get_args(hint)), str)


def _help(field: dataclasses.Field[Any]) -> str:
    text = str(field.metadata["help"])
    if field.default is not None:
        default = "no" if field.default is False else field.default
        text = f"{text} [{default}]"
    return text
