"""Named, parametrised parts: ``fedprox(mu=0.1)``, ``label-dirichlet(0.5)``, ``mlp(32,16,8)``.

Every part (data set, partition, model, optimiser, algorithm) is a frozen dataclass. Its fields are its
parameters, so the text above, the TOML file, the listing and a run's key all come from one place. A field may hold
another part of the same kind, as ``base: Algorithm = FedAvg()`` does: ``ditto(base=scaffold(option=i), lam=0.1)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin

from unalike.errors import UserError, shown, unknown
from unalike.own_code import explained
from unalike.part_text import (
    coerce,
    parse,
    show,
    split,
    text_value_of,
    texts_value_of,
    types_of,
    unreadable,
    value_of,
)

T = TypeVar("T")
C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Registration(Generic[T]):
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
        """The fields that make up the part's parameters, but for the one that collects others."""
        fields = dataclasses.fields(self.cls)  # type: ignore[arg-type]
        return [field for field in fields if field.init and field.name != self.collects]

    @property
    def collects(self) -> str | None:
        """The field that takes all parameters which are no fields, as (name, value); a class names it so."""
        return getattr(self.cls, "collects", None)

    def values(self, part: Any) -> list[tuple[str, Any, Any]]:
        """Name, value and default of all parameters of a part, those that were collected last."""
        own = [(field.name, getattr(part, field.name), field.default) for field in self.parameters]
        more = getattr(part, self.collects) if self.collects else ()
        return own + [(name, value, dataclasses.MISSING) for name, value in more]


class Registry(Generic[T]):
    """Parts of one kind, by name."""

    sign: str = "+"
    """What joins several parts of this kind, where they can be joined."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Registration[T]] = {}

    def register(self, name: str, *, paper: str = "") -> Callable[[C], C]:
        """Class decorator: make the class a frozen dataclass and register it under ``name``."""

        def add(cls: C) -> C:
            made: Any = dataclass(frozen=True)(cls)
            old = self._entries.get(name)
            if old is not None and old.cls.__qualname__ != made.__qualname__:
                raise UserError(
                    f"The {self.kind} name {name!r} is taken by {old.cls.__qualname__}. Choose another."
                )
            self._entries[name] = Registration(name, made, paper)
            return cls  # `dataclass` changes the class itself

        return add

    def __iter__(self) -> Iterator[Registration[T]]:
        return iter(sorted(self._entries.values(), key=lambda entry: entry.name))

    def entry(self, name: str) -> Registration[T]:
        """The entry of that name; the nearest match is suggested when there is none."""
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries)
        return self._entries[name]

    def build(self, text: str) -> T:
        """The part that ``text`` describes, e.g. ``fedprox(mu=0.1)``."""
        name, positional, named = parse(text, self.kind)
        entry = self.entry(name)
        try:
            arguments = self._arguments(entry, positional, named)
        except (ValueError, RecursionError):  # a value that is none, or parts in parts without end
            raise unreadable(text, self.kind) from None
        if missing := sorted(getattr(entry.cls, "__abstractmethods__", ())):
            raise UserError(
                f"{entry.cls.__name__} has no {' and no '.join(missing)}. Write what its base class asks for."
            )
        with explained(entry.cls):
            return entry.cls(**arguments)

    def _arguments(self, entry: Registration[T], positional: list[str], named: dict[str, str]) -> dict[str, Any]:
        fields = entry.parameters
        names = [field.name for field in fields]
        hints = _hints(entry)
        last = len(fields) - 1
        if 0 <= last < len(positional) and get_origin(hints[names[last]]) is tuple:  # mlp(32,16,8)
            positional = [*positional[:last], f"({', '.join(positional[last:])},)"]
        if len(positional) > len(fields):
            takes = f"takes {len(fields)} value(s)" if fields else "takes no values"
            raise UserError(f"{entry.name} {takes}, got {len(positional)}. See: unalike list.")
        given = dict(zip(names, positional, strict=False))
        for key in named:
            if key in given:
                raise UserError(f"{entry.name} got {key} twice. Give it once.")
            if key in getattr(entry.cls, "refused", {}):  # what somebody may well try, with what to do instead
                raise UserError(entry.cls.refused[key])  # type: ignore[attr-defined]
            if key not in names and not entry.collects:
                raise unknown(f"parameter of {entry.name}", key, names)
        given |= {key: text for key, text in named.items() if key in names}
        for field in fields:
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            if required and field.name not in given:
                raise UserError(f"{entry.name} needs {field.name}. Write {entry.name}({field.name}=...).")
        made = {key: self._argument(text, hints[key], f"{entry.name}'s {key}") for key, text in given.items()}
        if entry.collects:
            made[entry.collects] = tuple(
                (key, value_of(named[key])) for key in sorted(named.keys() - given.keys())
            )
        return made

    def _argument(self, text: str, hint: Any, label: str) -> Any:
        """The value of a field: of the type that its annotation says, which may be a part of this kind."""
        wanted = self._part_type(hint)
        if wanted is None:
            usual = text_value_of if get_origin(hint) is Literal else value_of  # as in objective=squared-error
            read = {str: text_value_of, tuple[str, ...]: texts_value_of}.get(hint, usual)
            try:
                return coerce(read(text), hint, label)
            except ValueError:
                if read is value_of:
                    raise
                remedy = (
                    f"it in quotes: {shown(text)}" if hint is str else "each name in quotes: ('family name', id)"
                )
                raise UserError(f"Cannot read {label}, {shown(text)}. Put {remedy}.") from None
        if text == "None" and type(None) in get_args(hint):
            return None
        part = self.build(str(value_of(text)) if text[:1] in ("'", '"') else text)
        if not isinstance(part, wanted):
            fitting = ", ".join(entry.name for entry in self if issubclass(entry.cls, wanted))
            raise UserError(f"{label} must be one of {fitting}, got {shown(text)}.")
        return part

    def _part_type(self, hint: Any) -> type | None:
        """The class that an annotation asks for, where parts of this kind are of it; None for a plain value."""
        kinds = {cls for entry in self for cls in entry.cls.__mro__} - {object}
        return next((option for option in get_args(hint) or (hint,) if option in kinds), None)

    def terms(self, part: T) -> list[Any]:
        """The parts that a part is joined of."""
        return [part]

    def members(self, part: T) -> list[Any]:
        """The single parts that make up a part, those in its fields included."""
        found = []
        for term in self.terms(part):
            fields = (getattr(term, field.name) for field in self.entry_of(term).parameters)
            found += [term, *(member for value in fields if _is_part(value) for member in self.members(value))]
        return found

    def entry_of(self, part: Any) -> Registration[T]:
        """The entry that a part was made by."""
        for entry in self:
            if entry.cls is type(part):
                return entry
        raise UserError(f"{type(part).__qualname__} is not a registered {self.kind}. Register it by decorator.")

    def describe(self, part: T) -> str:
        """The canonical text of a part: every parameter written out."""
        return self.sign.join(map(self.describe_part, self.terms(part)))

    def describe_part(self, part: Any) -> str:
        """The canonical text of one of the parts that a part is joined of."""
        entry = self.entry_of(part)
        values = entry.values(part)
        shown = [f"{k}={self.describe(v) if _is_part(v) else show(v)}" for k, v, _ in values]
        if len(values) == 1 and isinstance(values[0][1], tuple) and values[0][1]:  # mlp(32,16,8)
            shown = [",".join(map(show, values[0][1]))]
        return entry.name + (f"({', '.join(shown)})" if shown else "")

    def told(self, part: T) -> str:
        """A text with just the parameters that are not as by default: one that is added later leaves it alone."""
        return self.sign.join(map(self._told, self.terms(part)))

    def _told(self, part: Any) -> str:
        entry = self.entry_of(part)
        values = entry.values(part)
        given = [f"{k}={self.told(v) if _is_part(v) else show(v)}" for k, v, usual in values if v != usual]
        return f"{entry.name}({', '.join(given)})"

    def brief(self, part: T) -> str:
        """A text for people: without the parameters that are as by default; those after one left out are named."""
        return self.sign.join(map(self._brief, self.terms(part)))

    def _brief(self, part: Any) -> str:
        entry = self.entry_of(part)
        shown: list[str] = []
        for place, (name, value, usual) in enumerate(entry.values(part)):
            if value != usual:
                text = self.brief(value) if _is_part(value) else str(value)
                told = len(shown) == place < len(entry.parameters)
                shown.append(text if told else f"{name}={text}")
        return entry.name + (f"({', '.join(shown)})" if shown else "")


class CompositionRegistry(Registry[Any]):
    """Parts that are joined by a sign: ``compose`` makes one of them all, which keeps them as its ``parts``."""

    def __init__(self, kind: str, compose: Callable[[tuple[Any, ...]], Any], sign: str = "+") -> None:
        super().__init__(kind)
        self._compose, self.sign = compose, sign

    def build(self, text: str) -> Any:
        """The composition that ``text`` describes."""
        terms = split(text, self.sign)
        if len(terms) > 1 and not all(map(str.strip, terms)):
            raise UserError(
                f"The {self.kind} {shown(text)} has an empty part. Write a name on both sides of {self.sign}."
            )
        return self._compose(tuple(map(super().build, terms)))

    def terms(self, part: Any) -> list[Any]:
        """The parts of a composition; a single part is its own."""
        single = any(entry.cls is type(part) for entry in self)
        return [part] if single else list(getattr(part, "parts", (part,)))


def _hints(entry: Registration[Any]) -> Mapping[str, Any]:
    try:
        return types_of(entry.cls)
    except NameError as error:
        raise UserError(
            f"The types of {entry.name}'s parameters cannot be read: {error}. Import it in the file of "
            f"{entry.cls.__qualname__}, and not for type checkers alone."
        ) from None


def _is_part(value: Any) -> bool:
    """Whether the value of a field is a part: all parts are dataclasses, and plain values are none."""
    return dataclasses.is_dataclass(value)
