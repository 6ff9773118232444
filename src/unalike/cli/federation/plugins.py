"""``--plugin FILE.py`` for the commands of a federation, and for the server's own process, which a command starts.

A site runs no code that a server sends: its people give it the file themselves, and the plan has its fingerprint.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unalike.cli.options import Plugins
from unalike.cli.plugin import load_plugins

if TYPE_CHECKING:
    from unalike.federation.speaker import Transport

VARIABLE = "UNALIKE_PLUGINS"
"""In the environment of the server's process: the files that ``serve`` was given."""
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


def pass_on() -> None:
    """Have the processes that this one starts load the same files."""
    os.environ[VARIABLE] = os.pathsep.join(_loaded)


def serve(transport: Transport, folder: Path) -> None:
    """Do the server's work in a process of its own, with the plug-ins that ``serve`` was given."""
    from unalike.federation import attempts

    load_plugins(map(Path, filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))))
    attempts.serve(transport, folder)
