"""Named, parametrised parts: ``fedprox(mu=0.1)``, ``label-dirichlet(0.5)``, ``mlp(32,16,8)``.

Every part (data set, partition, model, optimiser, algorithm) is a frozen dataclass. Its fields are its
parameters, so the text above, the TOML file, the listing and a run's key all come from one place.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import (
    Any,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from unalike.errors import UserError, shown, unknown

T = TypeVar("T")
C = TypeVar("C", bound=type)

_PATH = re.compile(r"\s*([A-Za-z][\w+-]*):([^()]+)(?:\((.*)\))?\s*", re.DOTALL)
_TEXT = re.compile(r"\s*([A-Za-z][\w+-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered part: its name, its class and where it was published."""

    name: str
    cls: type[T]
    paper: str

    @property
    def summary(self) -> str:
        """The first line of the class's docstring."""
        return (self.cls.__doc__ or "").strip().split("\n")[0]

    @property
    def parameters(self) -> list[dataclasses.Field[Any]]:
        """The fields that make up the part's parameters."""
        return [f for f in dataclasses.fields(self.cls) if f.init]  # type: ignore[arg-type]


class Registry(Generic[T]):
    """Parts of one kind, by name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[T]] = {}

    def register(self, name: str, *, paper: str = "") -> Callable[[C], C]:
        """Class decorator: make the class a frozen dataclass and register it under ``name``."""

        def add(cls: C) -> C:
            made: Any = dataclass(frozen=True)(cls)
            old = self._entries.get(name)
            if old is not None and old.cls.__qualname__ != made.__qualname__:
                raise UserError(
                    f"The {self.kind} name {name!r} is taken by {old.cls.__qualname__}. Choose another."
                )
            self._entries[name] = Entry(name, made, paper)
            return cls  # `dataclass` changes the class itself

        return add

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(sorted(self._entries.values(), key=lambda entry: entry.name))

    def entry(self, name: str) -> Entry[T]:
        """The entry of that name; the nearest match is suggested when there is none."""
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries)
        return self._entries[name]

    def build(self, text: str) -> T:
        """The part that ``text`` describes, e.g. ``fedprox(mu=0.1)``."""
        name, positional, named = parse(text, self.kind)
        entry = self.entry(name)
        return entry.cls(**_arguments(entry, positional, named))

    def members(self, part: T) -> list[Any]:
        """The single parts that make up a part."""
        return [part]

    def entry_of(self, part: Any) -> Entry[T]:
        """The entry that a part was made by."""
        for entry in self:
            if entry.cls is type(part):
                return entry
        raise UserError(f"{type(part).__qualname__} is not a registered {self.kind}. Register it by decorator.")

    def describe(self, part: T) -> str:
        """The canonical text of a part: every parameter written out."""
        entry = self.entry_of(part)
        values = [(f.name, getattr(part, f.name)) for f in entry.parameters]
        shown = [f"{k}={_show(v)}" for k, v in values]
        if len(values) == 1 and isinstance(values[0][1], tuple) and values[0][1]:  # mlp(32,16,8)
            shown = [",".join(map(_show, values[0][1]))]
        return entry.name + (f"({', '.join(shown)})" if shown else "")

    def told(self, part: T) -> str:
        """A text with just the parameters that are not as by default: one that is added later leaves it alone."""
        return "+".join(map(self._told, self.members(part)))

    def _told(self, part: Any) -> str:
        entry = self.entry_of(part)
        values = {field.name: getattr(part, field.name) for field in entry.parameters}
        given = [f"{f.name}={_show(values[f.name])}" for f in entry.parameters if values[f.name] != f.default]
        return f"{entry.name}({', '.join(given)})"

    def brief(self, part: T) -> str:
        """A text for people: without the parameters at the end that are as by default."""
        return "+".join(map(self._brief, self.members(part)))

    def _brief(self, part: Any) -> str:
        entry = self.entry_of(part)
        values = [(field, getattr(part, field.name)) for field in entry.parameters]
        while values and values[-1][0].default == values[-1][1]:
            values.pop()
        return entry.name + (f"({', '.join(str(value) for _, value in values)})" if values else "")


class CompositionRegistry(Registry[Any]):
    """Parts that are joined by ``+``: ``compose`` makes one of them all, and keeps them as its ``parts``."""

    def __init__(self, kind: str, compose: Callable[[tuple[Any, ...]], Any]) -> None:
        super().__init__(kind)
        self._compose = compose

    def build(self, text: str) -> Any:
        """The composition that ``text`` describes."""
        build = super().build
        return self._compose(tuple(build(term) for term in _terms(text)))

    def describe(self, part: Any) -> str:
        """The canonical text of a composition or of one of its parts."""
        return "+".join(map(self.describe_part, self.members(part)))

    def describe_part(self, part: Any) -> str:
        """The canonical text of one part."""
        return super().describe(part)

    def members(self, part: Any) -> list[Any]:
        """The parts of a composition."""
        return list(getattr(part, "parts", (part,)))


def _terms(text: str) -> list[str]:
    """The parts between the ``+`` signs that are outside parentheses and quotes."""
    terms, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            depth += (character == "(") - (character == ")")
        if character == "+" and not depth and not quote:
            terms.append("")
        else:
            terms[-1] += character
    return terms


def parse(text: str, kind: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Split ``name(value, key=value)`` into name, positional values and named values."""
    wrong = UserError(f"Cannot read the {kind} {shown(text)}. Write name, name(value) or name(key=value).")
    path = _PATH.fullmatch(text)
    if path is not None:  # csv:PATH and csv:PATH(label=...) are csv(PATH) and csv(PATH, label=...)
        text = f"{path[1]}({path[2].strip()!r}, {path[3] or ''})"
    match = _TEXT.fullmatch(text)
    if match is None:
        raise wrong
    try:
        call = ast.parse(f"_({match[2] or ''})", mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):  # a(1)+(2), a(1)(2)
            raise wrong
        positional = [_value(node) for node in call.args]
        named = {k.arg: _value(k.value) for k in call.keywords if k.arg is not None}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise wrong from None
    if len(named) < len(call.keywords):  # a(**{}), a(b=1, b=2)
        raise wrong
    return match[1], positional, named


def text_of(table: Mapping[str, Any], kind: str) -> str:
    """The text of a TOML table such as ``{name = "fedprox", mu = 0.1}``."""
    rest = dict(table)
    name = rest.pop("name", None)
    if not isinstance(name, str):
        raise UserError(f'A table for the {kind} needs a name, got {shown(dict(table))}. Add name = "...".')
    try:
        return f"{name}({', '.join(f'{k}={v!r}' for k, v in rest.items())})"
    except ValueError:  # Python writes out no more than 4,300 digits
        raise UserError(f"The table of the {kind} {name} has a number of thousands of digits.") from None


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
    if wanted in (bool, str) and isinstance(value, wanted):
        return value
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise UserError(f"{label} must be {kinds.get(wanted, wanted)}, got {shown(value)}.")


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number too large for floating point
        return False


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):  # a bare word is text, as in norm=batch
        return {"true": True, "false": False}.get(node.id.lower(), node.id)
    if isinstance(node, ast.List | ast.Tuple):  # of words, too, as in ignore=[id, name]
        return tuple(map(_value, node.elts))
    return ast.literal_eval(node)


def _show(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _arguments(entry: Entry[Any], positional: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    fields = entry.parameters
    hints = get_type_hints(entry.cls)
    last = len(fields) - 1
    if 0 <= last < len(positional) and get_origin(hints[fields[last].name]) is tuple:  # mlp(32,16,8)
        positional = [*positional[:last], tuple(positional[last:])]
    if len(positional) > len(fields):
        takes = f"takes {len(fields)} value(s)" if fields else "takes no values"
        raise UserError(f"{entry.name} {takes}, got {len(positional)}. See: unalike list.")
    given = dict(zip((f.name for f in fields), positional, strict=False))
    for key in named:
        if key in given:
            raise UserError(f"{entry.name} got {key} twice. Give it once.")
        if key not in hints or key not in {f.name for f in fields}:
            raise unknown(f"parameter of {entry.name}", key, [f.name for f in fields])
    given |= named
    for field in fields:
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in given:
            raise UserError(f"{entry.name} needs {field.name}. Write {entry.name}({field.name}=...).")
    return {k: coerce(v, hints[k], f"{entry.name}'s {k}") for k, v in given.items()}
