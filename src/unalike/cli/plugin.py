"""``--plugin FILE.py``: a user's own algorithms, data sets, partitions and models."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path

from unalike.errors import UserError


def load_plugins(paths: Iterable[Path] | None) -> None:
    """Run the files that ``--plugin`` names."""
    for path in paths or ():
        load_plugin(path)


def load_plugin(path: Path) -> None:
    """Run a Python file, which registers its parts by decorator."""
    if not path.is_file():
        raise UserError(f"There is no plugin file {path}. Check the path.")
    path = path.resolve()
    # Two files of one name are two modules; the parts find their own file through sys.modules.
    name = f"plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"The plugin {path} is not a Python file. Its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with redirect_stdout(sys.stderr):  # what it prints must not mix with a command's answer
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UserError(f"The plugin {path} failed{_line(path, error)}: {_what(error)}") from error


def _line(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f" in line {lines[-1]}" if lines else ""


def _what(error: BaseException) -> str:
    if isinstance(error, UserError):
        return str(error)
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}"
