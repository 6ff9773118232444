"""The text of a part, such as ``fedprox(mu=0.1)``: how it is taken apart, and how values are read and written.

Nothing in a text is ever run: values are Python's literals and bare words.
"""

from __future__ import annotations

import ast
import math
import os
import re
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from unalike.errors import UserError, shown

_TYPES: WeakKeyDictionary[type, Mapping[str, Any]] = WeakKeyDictionary()
_PATH = re.compile(r"\s*([A-Za-z][\w+-]*):([^()]+)(?:\((.*)\))?\s*", re.DOTALL)
_TEXT = re.compile(r"\s*([A-Za-z][\w+-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_DOTTED = re.compile(r"[^\W\d]\w*(\.\w+)+")
_NAMED = re.compile(r"\s*([^\W\d]\w*)\s*=(?!=)(.*)", re.DOTALL)
_BARE = re.compile(r"""[^\s'"()\[\]{},=\\]+""")  # such as ; or latin-1 or %d.%m.%Y
_FILE = re.compile(r"[^():]+\.(csv|parquet)(\(.*\))?", re.DOTALL)


def types_of(cls: type) -> Mapping[str, Any]:
    """The types of a class's fields, read once: a plan of a study asks for them ten thousand times."""
    if cls not in _TYPES:
        _TYPES[cls] = get_type_hints(cls)
    return _TYPES[cls]


def unreadable(text: str, kind: str) -> UserError:
    """The error for a text that is none of a part."""
    remedy = "Write name, name(value) or name(key=value)."
    if kind == "data set" and (file := _FILE.fullmatch(text.strip())):
        remedy = f"Say that it is a file: {file[1]}:{text.strip()}."
    if kind == "model" and re.match(r"\s*[^():]+\.py(:|\s*$)", text):
        remedy = "Say that it is code: module:FILE.py:NAME."
    return UserError(f"Cannot read the {kind} {shown(text)}. {remedy}")


def parse(text: str, kind: str) -> tuple[str, list[str], dict[str, str]]:
    """Split ``name(value, key=value)`` into the name and the texts of positional and of named values."""
    call = text
    path = _PATH.fullmatch(text)
    if path is not None:  # csv:PATH and csv:PATH(label=...) are csv(PATH) and csv(PATH, label=...)
        call = f"{path[1]}({path[2].strip()!r}, {path[3] or ''})"
    match = _TEXT.fullmatch(call)
    if match is None:
        raise unreadable(text, kind)
    positional: list[str] = []
    named: dict[str, str] = {}
    for value in _values(match[2] or ""):
        key = _NAMED.fullmatch(value)
        if key is None:
            positional.append(value)
        if (key is None and named) or (key is not None and key[1] in named) or not value:
            raise unreadable(text, kind)
        if key is not None:
            named[key[1]] = key[2].strip()
    return match[1], positional, named


def _values(text: str) -> list[str]:
    """What stands between commas; one may also follow the last value."""
    values = [value.strip() for value in split(text, ",")]
    return values if values[-1] else values[:-1]


def split(text: str, sign: str) -> list[str]:
    """What stands between the signs that are outside brackets and quotes."""
    pieces, depth, quote, escaped = [""], 0, "", False
    for character in text:
        if quote:
            quote = "" if character == quote and not escaped else quote
            escaped = character == "\\" and not escaped
        elif character in "'\"":
            quote = character
        else:
            depth += (character in "([{") - (character in ")]}")
        if character == sign and not depth and not quote:
            pieces.append("")
        else:
            pieces[-1] += character
    return pieces


def value_of(text: str) -> Any:
    """The value that a text means: a literal of Python's or a bare word; a ValueError for anything else."""
    if _DOTTED.fullmatch(text):  # a layer or a file, as in head=classifier.1 or query=patients.sql
        return text
    try:
        call = ast.parse(f"_({text})", mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):  # 1)+(2 and 1)(2
            raise ValueError
        (value,) = call.args
        if call.keywords:
            raise ValueError
        return _value(value)
    except (SyntaxError, TypeError, RecursionError, MemoryError):
        raise ValueError from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):  # a bare word is text, as in norm=batch
        return {"true": True, "false": False}.get(node.id.lower(), node.id)
    if isinstance(node, ast.List | ast.Tuple):  # of words, too, as in ignore=[id, name]
        return tuple(map(_value, node.elts))
    return ast.literal_eval(node)


def text_value_of(text: str) -> Any:
    """The value of a text where one is wanted: as ``value_of``, or what stands there, such as latin-1."""
    try:
        return value_of(text)
    except ValueError:
        if _BARE.fullmatch(text):
            return text
        raise


def texts_value_of(text: str) -> Any:
    """The values of a text where several texts are wanted, such as ``(case-no, 'family name')``."""
    inside = text[1:-1] if text[:1] + text[-1:] in ("()", "[]") else None
    if inside is None:
        return text_value_of(text)
    return tuple(map(text_value_of, _values(inside)))


def as_text(name: str) -> str:
    """A name, such as a column's, as it is written in a text: in quotes where it needs them."""
    try:
        return name if text_value_of(name) == name else repr(name)
    except ValueError:
        return repr(name)


def show(value: Any) -> str:
    """A plain value, as it is written in a text."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def text_of(table: Mapping[str, Any], kind: str) -> str:
    """The text of a TOML table such as ``{name = "fedprox", mu = 0.1}``; a value may be such a table, too."""
    rest = dict(table)
    name = rest.pop("name", None)
    if not isinstance(name, str):
        raise UserError(f'A table for the {kind} needs a name, got {shown(dict(table))}. Add name = "...".')
    try:
        values = {k: text_of(v, f"{k} of {name}") if isinstance(v, Mapping) else repr(v) for k, v in rest.items()}
    except ValueError:  # Python writes out no more than 4,300 digits
        raise UserError(f"The table of the {kind} {name} has a number of thousands of digits.") from None
    return f"{name}({', '.join(f'{key}={value}' for key, value in values.items())})"


def coerce(value: Any, wanted: Any, label: str) -> Any:
    """``value`` as the type that the annotation ``wanted`` asks for, or an error that names ``label``."""
    origin, options = get_origin(wanted), get_args(wanted)
    if origin is Literal:
        if value in options:
            return value
        raise UserError(f"{label} must be one of {', '.join(map(str, options))}, got {shown(value)}.")
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return coerce(value, next(o for o in options if o is not type(None)), label)
    if origin is tuple:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(coerce(item, options[0], label) for item in items)
    number = isinstance(value, int | float) and not isinstance(value, bool) and _finite(value)
    if wanted is float and number:
        return float(value)
    if wanted is int and number and float(value).is_integer():
        return int(value)
    if wanted is str and type(value) is int and number:  # the number of a column, a year as a name
        return str(value)
    if wanted is str and isinstance(value, os.PathLike):  # a result's own folder, as in init=result.run_dir
        return os.fspath(value)
    if wanted in (bool, str) and isinstance(value, wanted):
        return value
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise UserError(f"{label} must be {kinds.get(wanted, wanted)}, got {shown(value)}.")


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number too large for floating point
        return False
