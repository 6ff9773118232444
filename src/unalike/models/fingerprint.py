"""A fingerprint of what a Python program holds: a class that was typed in, or a module with its weights.

It has to change whenever the thing would compute something else. What cannot promise that is refused: a lambda, or
a function inside a function, may use values that stand nowhere in a source.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import linecache
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unalike.models.layout import tensors_digest
from unalike.models.names import codes, functions, names, untold
from unalike.own_code import source_of

_METHODS = (FunctionType, property, staticmethod, classmethod, functools.cached_property)
_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size, Path)


class Unknowable(Exception):
    """Why a thing has no fingerprint, as the end of a sentence about it."""


def fingerprint(value: Any) -> str:
    """SHA-256 of all that decides what a class, a function or a module computes; else ``Unknowable``."""
    sha = hashlib.sha256()
    for text in _texts(value, {}):
        sha.update(f"{len(text)} {text} ".encode())
    return sha.hexdigest()


def _texts(value: Any, seen: dict[int, Any]) -> Iterator[str]:
    """The value as texts, depth first; one that was met before is named by its number."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
    elif id(value) in seen:
        yield f"again {list(seen).index(id(value))}"
    else:
        seen[id(value)] = value
        yield from _parts(value, seen)


def _parts(value: Any, seen: dict[int, Any]) -> Iterator[str]:
    if isinstance(value, Tensor):
        yield f"tensor {tensors_digest({type(value).__name__: value.detach()})} {value.requires_grad}"
    elif isinstance(value, np.ndarray):
        yield f"array {tensors_digest({str(value.dtype): torch.from_numpy(np.ascontiguousarray(value))})}"
    elif isinstance(value, Mapping):
        yield f"{type(value).__name__} of {len(value)}"
        for key, each in value.items():
            yield from _texts(key, seen)
            yield from _texts(each, seen)
    elif isinstance(value, list | tuple):
        yield f"{type(value).__name__} of {len(value)}"
        for each in value:
            yield from _texts(each, seen)
    elif isinstance(value, set | frozenset):
        yield f"{type(value).__name__} {sorted(map(repr, value))}"
    elif isinstance(value, type | FunctionType | BuiltinFunctionType | ModuleType):
        yield from _code(value, seen)
    elif isinstance(value, MethodType):
        yield from _texts(value.__func__, seen)
        yield from _texts(value.__self__, seen)
    elif isinstance(value, functools.partial):
        yield "partial"
        yield from _texts((value.func, value.args, value.keywords), seen)
    elif hasattr(value, "__dict__"):
        yield from _texts(type(value), seen)
        yield from _texts(vars(value), seen)
    else:
        raise Unknowable(f"it holds a {type(value).__name__}, which has no fingerprint")


def _code(value: Any, seen: dict[int, Any]) -> Iterator[str]:
    """What says which class or function this is: its name where it is installed, its source where it is not."""
    module = value if isinstance(value, ModuleType) else sys.modules.get(getattr(value, "__module__", None) or "")
    name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    file = getattr(module, "__file__", None)
    builtin = module is not None and (
        module.__name__ in sys.builtin_module_names or (file and not is_own_file(file))
    )
    if builtin or isinstance(value, BuiltinFunctionType):
        package = sys.modules.get(getattr(module, "__name__", "").partition(".")[0])
        version = "" if package is torch else getattr(package, "__version__", "")  # a checkpoint names torch's
        yield f"{getattr(module, '__name__', '')}.{name} {version}"
        return
    if "<" in name:
        what = "a lambda" if "<lambda>" in name else f"{name.rpartition('.')[2]}, which is made inside a function"
        raise Unknowable(f"it is {what}: what that uses stands in no source")
    if isinstance(value, ModuleType) or file:
        yield f"{name} {source_of(value if isinstance(value, type) else _Holder.of(value))}"
        if not isinstance(value, ModuleType):
            yield from _texts(dict(sorted(untold(value).items())), seen)
    else:
        yield from _typed_in(value, module, seen)


class _Holder:
    """A stand-in for a class of the same file: the file's source is what counts."""

    @staticmethod
    def of(value: Any) -> type:
        module = value.__name__ if isinstance(value, ModuleType) else value.__module__
        return type("Holder", (), {"__module__": module})


def _typed_in(value: Any, module: ModuleType | None, seen: dict[int, Any]) -> Iterator[str]:
    """A class or function of a notebook or prompt: its source, and that of the names there that it uses."""
    source = _source(value)
    if source is None:
        raise Unknowable("it was typed in where Python keeps no source")
    yield source
    yield from _given(value, seen)
    if isinstance(value, type):
        for base in value.__mro__[1:]:
            yield from _texts(base, seen)
    there = vars(module) if module is not None else {}
    for name in sorted(set(names(value))):
        if name in there and there[name] is not value:
            yield name
            yield from _texts(there[name], seen)


def _given(value: Any, seen: dict[int, Any]) -> Iterator[str]:
    """The values that were computed when a class or function was made, such as defaults: a source names them."""
    for function in functions(value):
        plain = inspect.unwrap(function)
        if value is not function and not function.__qualname__.startswith(
            f"{value.__qualname__}."
        ):  # put in since
            yield from _texts(plain, seen)
        yield from _texts((plain.__defaults__, plain.__kwdefaults__), seen)
    for name, each in vars(value).items() if isinstance(value, type) else ():
        if isinstance(each, type) and each.__qualname__.startswith(f"{value.__qualname__}."):
            yield from _given(each, seen)
        elif not name.startswith(("__", "_abc_")) and not isinstance(each, _METHODS):
            yield name
            yield from _texts(each, seen)


def _source(value: Any) -> str | None:
    """The source of a class or function; of a notebook's class by way of its methods, which know their cell."""
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        pass
    for code in codes(value):
        text = "".join(linecache.getlines(code.co_filename))
        for node in ast.walk(ast.parse(text)):
            here = isinstance(node, ast.ClassDef) and node.name == getattr(value, "__name__", "")
            if here and node.lineno <= code.co_firstlineno <= (node.end_lineno or 0):  # type: ignore[attr-defined]
                return ast.get_source_segment(text, node)
    return None


def is_own_file(file: str) -> bool:
    """Whether a file is neither of Python's library nor installed."""
    path = Path(file).resolve()
    library = Path(inspect.__file__).resolve().parent
    installed = "site-packages" in path.parts or path.is_relative_to(library)
    return not installed and not path.is_relative_to(Path(__file__).resolve().parents[1])
