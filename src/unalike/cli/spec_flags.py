"""Flags that are the fields of RunSpec, for the commands that say what is trained."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection
from typing import Annotated, Any, get_args, get_type_hints

import typer

from unalike.engine.spec import RunSpec


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
            annotation=Annotated[_plain_type(hints[field.name]) | None, typer.Option(help=_help(field))],
        )
        for field in RunSpec.options()
        if field.name not in without
    ]


def _plain_type(hint: Any) -> type:
    """The type that the command line reads. RunSpec itself refuses what is not among a Literal's values."""
    return next((kind for kind in (bool, int, float) if hint is kind or kind in get_args(hint)), str)


def _help(field: dataclasses.Field[Any]) -> str:
    text = str(field.metadata["help"])
    if field.default is not None:
        default = "no" if field.default is False else field.default
        text = f"{text} [{default}]"
    return text
