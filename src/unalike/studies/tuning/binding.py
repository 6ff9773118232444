"""A space bound to one algorithm in one setting: which dimensions mean anything there, and a trial's fields."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, get_args, get_type_hints

from unalike.errors import UserError, unknown
from unalike.part_text import coerce, parse
from unalike.registry import Registry
from unalike.runs.parts import registry
from unalike.runs.spec import RunSpec
from unalike.studies.planned import Fields
from unalike.studies.tuning.space import ATTEMPTS, Dimension

FIELDS = (
    *("lr", "lr_decay", "epochs", "steps", "batch_size", "drop_last", "optimiser", "model", "loss", "augment"),
    *("batch_norm", "fine_tune", "channel"),
)
"""What may be tuned of a run: how it learns, never what it learns from or is judged by."""
PARTS = ("algorithm", "optimiser", "model", "loss", "channel")
"""Parts whose parameters may be tuned; the name of an algorithm stands for that one alone."""


def check_names(space: Iterable[Dimension]) -> None:
    """Refuse a dimension that is nothing which can be tuned, with the nearest that is."""
    for each in space:
        kind, dot, parameter = each.name.partition(".")
        if not dot and kind == "algorithm":
            raise UserError("The space cannot hold algorithms: each is tuned by itself. Give several of them.")
        if not dot and kind not in FIELDS:
            raise unknown("field that can be tuned", kind, [*FIELDS, *_of_parts(kind)])
        if dot and kind not in PARTS:
            names = [entry.name for entry in registry("algorithm")]
            if kind not in names:
                raise unknown("part that can be tuned", kind, [*PARTS, *names])
            _check_parameter(registry("algorithm"), kind, parameter)


def _of_parts(parameter: str) -> list[str]:
    """How a parameter that some part has is written: eta of trees is ``model.eta``."""
    return [
        f"{kind}.{parameter}"
        for kind in PARTS
        if any(field.name == parameter for entry in registry(kind) for field in entry.parameters)
    ]


def _check_parameter(parts: Registry[Any], name: str, parameter: str) -> None:
    known = [field.name for field in parts.entry(name).parameters]
    if parameter not in known:
        raise unknown(f"parameter of {name}", parameter, known)


class Binding:
    """The dimensions that mean something for a run, which is untuned as it is given."""

    def __init__(self, space: Iterable[Dimension], untuned: RunSpec, written: str) -> None:
        """``written`` is the algorithm as the user wrote it: a parameter in it is not tuned."""
        self._untuned = untuned
        self._name, self._fixed = _fixed(written)
        self._space = tuple(space)
        self.dimensions = tuple(self._typed(each) for each in self._space if self._applies(each))

    @property
    def size(self) -> float:
        """How many points the space has here; none where there is nothing to tune."""
        return math.prod(each.size for each in self.dimensions) if self.dimensions else 0

    def draws(self, seed: int, count: int) -> Iterator[dict[str, Any]]:
        """The values of trials 1, 2, 3, ...: each depends on the seed and its number, and none comes twice."""
        seen: set[str] = set()
        for trial in range(1, count + 1):
            tries = (
                {one.name: one.draw(seed, trial, turn) for one in self.dimensions} for turn in range(ATTEMPTS)
            )
            values = next((values for values in tries if repr(values) not in seen), None)
            values = values or next(values for values in self._all() if repr(values) not in seen)
            seen.add(repr(values))
            yield values

    def _all(self) -> Iterator[dict[str, Any]]:
        """Every point of a space that has an end."""
        names = [one.name for one in self.dimensions]
        ranges = [one.choices or range(int(one.low), int(one.high) + 1) for one in self.dimensions]
        return (dict(zip(names, values, strict=True)) for values in product(*ranges))

    def fields(self, values: Mapping[str, Any]) -> Fields:
        """The fields of a run with these values."""
        made: Fields = {"algorithm": self._untuned.algorithm}
        made |= {name: value for name, value in values.items() if "." not in name}
        for name, value in values.items():
            kind, dot, parameter = name.partition(".")
            if dot:
                part = kind if kind in PARTS else "algorithm"
                text = str(made.get(part, getattr(self._untuned, part)))
                made[part] = _with_parameter(registry(part), text, parameter, value)
        return made

    def _applies(self, one: Dimension) -> bool:
        kind, dot, parameter = one.name.partition(".")
        if not dot:
            return True
        if kind == "algorithm" or kind not in PARTS:
            here = kind in ("algorithm", self._name)
            return here and parameter not in self._fixed and self._has("algorithm", parameter)
        if self._has(kind, parameter):
            return True
        text = getattr(self._untuned, kind)
        remedy = "Leave it out of the space, or choose another" if text else f"Give a {kind} with it, --{kind}"
        raise UserError(f"The {kind} {text or 'none'} has no parameter {parameter}. {remedy}.")

    def _has(self, part: str, parameter: str) -> bool:
        """Whether the untuned part, or one that is tried in its place, has a parameter of that name."""
        others = next((one.choices for one in self._space if one.name == part), ())
        texts = [text for text in (getattr(self._untuned, part), *others) if text]
        return any(_owners(registry(part), str(text), parameter) for text in texts)

    def _typed(self, one: Dimension) -> Dimension:
        kind, dot, parameter = one.name.partition(".")
        hint = get_type_hints(RunSpec).get(kind)
        if dot:
            part = kind if kind in PARTS else "algorithm"
            owners = _owners(registry(part), str(getattr(self._untuned, part)), parameter)
            hint = get_type_hints(type(owners[0]))[parameter] if owners else None
        return one.of_whole_numbers() if hint is int or int in get_args(hint) else one


def _fixed(written: str) -> tuple[str, set[str]]:
    """The name of an algorithm, and the parameters that its text sets."""
    name, positional, named = parse(written, "algorithm")
    fields = [field.name for field in registry("algorithm").entry(name).parameters]
    return name, {*fields[: len(positional)], *named}


def _owners(parts: Registry[Any], text: str, parameter: str) -> list[Any]:
    """Of the parts that a text joins, those with the parameter."""
    terms = parts.terms(parts.build(text)) if text != "None" else []
    return [one for one in terms if parameter in (field.name for field in parts.entry_of(one).parameters)]


def _with_parameter(parts: Registry[Any], text: str, parameter: str, value: Any) -> str:
    """The text of a part with another value; one that has no such parameter stays as it is."""
    made = []
    for term in parts.terms(parts.build(text)):
        entry = parts.entry_of(term)
        if parameter in (field.name for field in entry.parameters):
            hint = get_type_hints(entry.cls)[parameter]
            term = replace(term, **{parameter: coerce(value, hint, f"{entry.name}'s {parameter}")})
        made.append(parts.describe_part(term))
    return parts.sign.join(made)
