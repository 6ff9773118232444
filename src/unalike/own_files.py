"""Python files of the user's own: which of them a run needs, what is in them, and running them when asked to.

Looking at a file never runs it: the files beside it that it imports are found in its text. A file is run only
after the user named it: on the command line, or in a call of this library. A text in a file that somebody else may
have written, such as a run's ``spec.toml``, does not count.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from unalike.errors import UserError

_allowed: set[Path] = set()
_loaded: dict[Path, tuple[str, ModuleType]] = {}
"""The files that are in memory, with the digest of what they were when they were run."""


class CodeFile(NamedTuple):
    """A file with code of the user's own, and the SHA-256 of its content."""

    path: Path
    sha256: str


def code_files(path: Path | str) -> tuple[CodeFile, ...]:
    """The file and the files beside it that it imports, without running any: what loading it would run.

    Imports that a program makes up while it runs (``importlib``) cannot be seen in its text.
    """
    home = _there(Path(path))
    waiting, found = [home], dict[Path, CodeFile]()
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        data = _read(file)
        found[file] = CodeFile(file, hashlib.sha256(data).hexdigest())
        waiting += _imports(file, data, home.parent)
    return (found.pop(home), *(found[file] for file in sorted(found)))


def code_digest(path: Path | str) -> str:
    """SHA-256 of the contents of a file and of those beside it that it imports, and of their names."""
    files = code_files(path)
    home = files[0].path.parent
    lines = [f"{file.path.relative_to(home).as_posix()} {file.sha256}" for file in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def allow_code(path: Path | str) -> None:
    """Let a file be run: the user has named it."""
    _allowed.add(Path(path).expanduser().resolve())


def check_allowed(path: Path | str) -> None:
    """Refuse a file that the user has not named, with a line that names it and those that it would run too."""
    home = _there(Path(path))
    if home not in _allowed:
        shown = "; ".join(f"{file.path} (SHA-256 {file.sha256[:16]})" for file in code_files(home))
        raise UserError(
            f"This would run code that nobody has named here: {shown}. Look at it; to run it, add --plugin "
            f"{path}, or call unalike.allow_code({str(path)!r}) in Python."
        )


def remember(module: ModuleType, path: Path | str) -> None:
    """A module that the user's program has imported, or is, itself: its file is not run a second time."""
    allow_code(path)
    home = _there(Path(path))
    known = _loaded.get(home)
    if known is None or known[1] is not module:
        _loaded[home] = code_digest(home), module


def load(path: Path | str, what: str = "") -> ModuleType:
    """The module that a file makes, run anew only where it, or a file beside it, has changed since.

    ``what`` it is stands before its name in the line about a mistake in it.
    """
    home = _there(Path(path))
    digest = code_digest(home)
    known = _loaded.get(home)
    if known is not None and known[0] == digest:
        return known[1]
    if known is not None and not known[1].__name__.startswith(_PREFIX):
        raise UserError(f"{home.name} has changed since this program imported it. Start the program again.")
    check_allowed(path)
    _loaded[home] = digest, _run(home, what)
    return _loaded[home][1]


def loaded() -> tuple[Path, ...]:
    """The files that were run here because the user named them, in that order."""
    return tuple(path for path, (_, module) in _loaded.items() if module.__name__.startswith(_PREFIX))


_PREFIX = "plugin_"


def _run(home: Path, what: str) -> ModuleType:
    # Two files of one name are two modules; the parts find their own file through sys.modules.
    name = f"{_PREFIX}{home.stem}_{hashlib.sha256(str(home).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, home)
    if spec is None or spec.loader is None:
        raise UserError(f"{what}{home} is not a Python file. Its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        with _importing_beside(home), redirect_stdout(sys.stderr):  # its prints must not mix with an answer
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise UserError(f"{what}{home} failed{_line(home, error)}: {_reason(error)}") from error
    return module


@contextmanager
def _importing_beside(home: Path) -> Iterator[None]:
    """In here the file imports those beside it, as they are now, whatever else has their names."""
    folder = home.parent
    beside = [file.path.relative_to(folder) for file in code_files(home)[1:]]
    tops = {path.parts[0].removesuffix(".py") for path in beside}
    taken = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in tops}
    for name, module in taken.items():
        if "site-packages" in Path(getattr(module, "__file__", None) or "").parts:
            top = name.partition(".")[0]
            raise UserError(f"{top} beside {home.name} has the name of an installed package. Rename it.")
    for name in taken:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    # Python takes kept bytecode for a file's as long as its size and the second of its last change are the same.
    keeps_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = keeps_none
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
        sys.modules.update(taken)


def _there(path: Path) -> Path:
    """The file of that path; or the one of that name that the user has named, wherever it is."""
    path = path.expanduser()
    named = [file for file in _allowed if file.name == path.name and file.is_file()]
    if len(named) == 1 and path.resolve() not in _allowed:
        return named[0]
    if not path.is_file():
        raise UserError(f"There is no Python file {path}. Check the path, or say where it is with --plugin.")
    return path.resolve()


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"Cannot read {file}: {error.strerror}. Check the file.") from None


def _imports(file: Path, data: bytes, folder: Path) -> Iterator[Path]:
    """The files below ``folder`` that a file imports, wherever in it; the standard library comes first."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # running it will say where
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _modules(folder, alias.name)
        elif isinstance(node, ast.ImportFrom):
            start = folder if not node.level else file.parents[min(node.level, len(file.parents)) - 1]
            if not start.is_relative_to(folder):
                continue
            for alias in node.names:
                yield from _modules(start, ".".join(filter(None, (node.module, alias.name))))


def _modules(start: Path, name: str) -> Iterator[Path]:
    """The files of a dotted name, those of the packages on the way included."""
    first, *_ = parts = name.split(".")
    if first in sys.stdlib_module_names:
        return
    for depth in range(1, len(parts) + 1):
        place = start.joinpath(*parts[:depth])
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if file.is_file():
                if not _installed(file.resolve()):
                    yield file.resolve()
                break


def _installed(file: Path) -> bool:
    """Whether a file is a package's or this library's, which may lie below the user's own in a checkout."""
    return "site-packages" in file.parts or file.is_relative_to(Path(__file__).resolve().parent)


def _line(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f" in line {lines[-1]}" if lines else ""


def _reason(error: BaseException) -> str:
    if isinstance(error, UserError):
        return str(error)
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}"
