"""``--plugin FILE.py`` for the commands of a federation.

A site runs no code that a server sends: its people give it the file themselves, and the plan has its fingerprint.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unalike.cli.options import Plugins
from unalike.cli.plugin import load_plugins

_loaded: list[str] = []


def loads_plugins(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option ``--plugin``: the files are run before it does anything."""
    own = inspect.signature(function, eval_str=True)

    @functools.wraps(function)
    def command(*args: Any, plugin: list[Path] | None = None, **options: Any) -> None:
        load_plugins(plugin)
        _loaded[:] = [str(path.resolve()) for path in plugin or ()]
        function(*args, **options)

    option = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
    command.__signature__ = own.replace(parameters=[*own.parameters.values(), option])  # type: ignore[attr-defined]
    return command


def loaded() -> list[str]:
    """The files that this command was given, for a process that another program starts."""
    return list(_loaded)
