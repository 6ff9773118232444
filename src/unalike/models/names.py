"""The names that the code of a class or function looks up, and which of their values no file tells."""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

_DATA = (type(None), bool, int, float, complex, str, bytes)
_CONSTANT = (
    *(ast.Constant, ast.Name, ast.Load, ast.Tuple, ast.List, ast.Dict, ast.Set),
    *(ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop),
)


def untold(value: Any) -> dict[str, Any]:
    """The data that a class or function of a file uses, and that are not as the file's text says.

    A program may compute them, as of its command line, or another may have set them. Its functions and classes
    that it uses are looked at, too.
    """
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if module is None or not file or not Path(file).is_file():
        return {}
    there, waiting, seen, found = vars(module), [value], set[int](), dict[str, Any]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for name in names(one):
            used = there.get(name)
            if isinstance(used, type | FunctionType) and used.__module__ == module.__name__:
                waiting.append(used)
            elif name in there and not name.startswith("__") and _is_data(used):
                found[name] = used
        if isinstance(one, type):
            waiting += [base for base in one.__mro__ if base.__module__ == module.__name__]
    told = _told(Path(file)) if found else {}
    return {name: used for name, used in found.items() if not _same(told.get(name, _NONE), used)}


_NONE, _IMPORTED = object(), object()


def _same(told: Any, used: Any) -> bool:
    return told is _IMPORTED or (type(told) is type(used) and bool(told == used))


def _told(file: Path) -> dict[str, Any]:
    """What the lines of a file, outside of everything, say of names: constants, and what is imported."""
    found: dict[str, Any] = {}
    try:
        lines = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):  # it has changed since it was run
        return found
    for node in lines:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.partition(".")[0]: _IMPORTED for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            made = _constant(node.value, found)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    found[target.id] = made
    return found


def _constant(node: ast.expr, known: dict[str, Any]) -> Any:
    if not all(isinstance(each, _CONSTANT) for each in ast.walk(node)):
        return _NONE
    try:
        return eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}}, known)
    except Exception:
        return _NONE


def _is_data(value: Any, depth: int = 4) -> bool:
    """Whether a value is numbers, texts, or lists and the like of them."""
    if isinstance(value, Namespace | SimpleNamespace):
        value = vars(value)
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return depth > 0 and all(_is_data(each, depth - 1) for each in value)
    return isinstance(value, _DATA)


def functions(value: Any) -> Iterator[Any]:
    """A function, or the methods of a class; a property has up to three."""
    for each in vars(value).values() if isinstance(value, type) else [value]:
        parts = (each.fget, each.fset, each.fdel) if isinstance(each, property) else (each,)
        for part in parts:
            function = getattr(part, "func", part) if isinstance(part, functools.cached_property) else part
            function = getattr(function, "__func__", function)
            if isinstance(function, FunctionType):
                yield function


def codes(value: Any) -> Iterator[CodeType]:
    """The code of a function, or of the methods of a class."""
    for function in functions(value):
        code = getattr(inspect.unwrap(function), "__code__", None)
        if isinstance(code, CodeType):
            yield code


def names(value: Any) -> Iterator[str]:
    """The global names that the code of a class or function may look up."""
    for code in codes(value):
        yield from _names_of(code)


def _names_of(code: CodeType) -> Iterator[str]:
    looks_up = ("LOAD_GLOBAL", "LOAD_NAME")
    yield from (each.argval for each in dis.get_instructions(code) if each.opname in looks_up)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_of(constant)
