"""``python -m unalike.runs.fields`` writes ``run_fields.py``: what ``unalike.run`` takes, for mypy and editors.

A type checker does not run code, so the fields of RunSpec have to stand in a file once more. Nobody writes that
file by hand, and a test says when it is no longer what RunSpec is.
"""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

from unalike.runs.parts import PARTS
from unalike.runs.spec import RunSpec

PATH = Path(__file__).with_name("run_fields.py")
_OBJECTS = {
    "dataset": "Part | Dataset",
    "model": "Part | Sequence[Part] | OwnModule",
    "init": "str | PathLike[str]",
    "freeze": "str | Sequence[str]",
}
"""What a field may be in Python; any other part is a text or a table."""
_HEAD = '''"""The fields of RunSpec for type checkers. Made by ``python -m unalike.runs.fields``; do not edit."""

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

'''


def source() -> str:
    """The text of ``run_fields.py`` as it has to be now."""
    lines = []
    for field in RunSpec.options():
        lines += [f"    {field.name}: {_type(field)}", f'    """{field.metadata["help"]}."""']
    return _HEAD + "\n".join(lines) + "\n"


def _type(field: dataclasses.Field[Any]) -> str:
    """The field's type as RunSpec has it, and what else Python programs may give."""
    own = str(field.type).replace("'", '"')
    if field.name not in {*PARTS, *_OBJECTS}:
        return own
    return own.replace("str", _OBJECTS.get(field.name, "Part"), 1)


def with_fields(function: Any) -> None:
    """Let ``help``, ``inspect`` and editors see the fields of RunSpec where the function has ``**fields``."""
    own = inspect.signature(function)
    fixed = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    more = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in RunSpec.options()
    ]
    function.__signature__ = own.replace(parameters=[*fixed, *more])


if __name__ == "__main__":
    PATH.write_text(source(), encoding="utf-8")
