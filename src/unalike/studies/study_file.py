"""A study's TOML file: a base, axes whose product are the runs, seeds, and what is tuned on validation rows.

Reading the titles of the studies that come with the package needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib import resources
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unalike.errors import UserError
from unalike.studies.wants import Wants, read_wants
from unalike.toml import read_toml

if TYPE_CHECKING:
    from unalike.studies.tuning.chosen import Chosen
    from unalike.studies.tuning.search import Search

Fields = dict[str, Any]
"""Fields of a RunSpec, by name."""

_TOP = {
    "title": str,
    "about": str,
    "published": str,
    "published_setting": str,
    "figure": str,
    "baselines": bool,
    "target": (int, float),
    "seeds": list,
    "base": dict,
    "axes": dict,
    "tune": dict,
    "tuning": dict,
    "chosen": dict,
    "notes": list,
    "resources": dict,
}
_KINDS = {str: "text", bool: "true or false", list: "a list", dict: "a table", (int, float): "a number"}
TUNING = "tuning"
"""In a value of an axis: the fields in which its tuning runs differ, beside those of all tuning runs."""
EVERY = "*"
"""In an axis of algorithms: all that are registered and need no parameter."""


@dataclass(frozen=True)
class Study:
    """What to run and what to compare it with."""

    name: str
    title: str
    about: str = ""
    published: str | None = None
    published_setting: str = ""
    target: float | None = None
    """A value of the runs' score, as recorded (a fraction is no percentage): when was it reached?"""
    last: int = 1
    """Figures are means over so many rounds at the end, as some papers' are (``figure = "last 10"``)."""
    baselines: bool = False
    """Whether local, fedavg, fedavg-tuned and pooled are run in every setting, too."""
    seeds: tuple[int, ...] = (0,)
    base: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, tuple[Fields, ...]] = field(default_factory=dict)
    """By name, the values; each is one or several fields of a spec, and ``TUNING`` with its own fields."""
    tune: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict)
    """By algorithm and parameter, the values to try."""
    tuning: Mapping[str, Any] = field(default_factory=dict)
    """The fields in which a tuning run differs from a final one."""
    tuning_seeds: tuple[int, ...] = (0,)
    notes: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    source: str = ""
    """The file, for messages."""
    search: Search | None = None
    """Where parameters are drawn from a space, instead of a grid."""
    chosen: Mapping[str, Chosen] = field(default_factory=dict)
    """By algorithm, what an earlier search chose."""
    wants: Wants = field(default_factory=Wants)
    """What a run needs of a host; no part of what it is."""

    @property
    def tuned_fields(self) -> frozenset[str]:
        """The fields of a run, but for the algorithm, that tuning decides: they may differ within a setting."""
        kinds = {each.name.partition(".")[0] for each in (self.search.space if self.search else ())}
        found = kinds.union(*(each.fields for each in self.chosen.values()))
        return frozenset(found) - {"algorithm"}


def built_in_studies() -> dict[str, str]:
    """The studies that come with the package: name and title."""
    files = (each for each in _folder().iterdir() if each.name.endswith(".toml"))
    read = {each.name.removesuffix(".toml"): each.read_text(encoding="utf-8") for each in files}
    return {name: str(read_toml(text, name)["title"]) for name, text in sorted(read.items())}


def load_study(name_or_path: str | Path, *, baselines: bool = False) -> Study:
    """The study of that name in the package, or in a file; ``baselines``: with these, whatever the file says."""
    found = _load(name_or_path)
    return replace(found, baselines=True) if baselines else found


def _load(name_or_path: str | Path) -> Study:
    text, path = str(name_or_path), Path(name_or_path)
    inside = _folder() / f"{text}.toml"
    try:
        if "/" not in text and inside.is_file():
            return read_study(text, inside.read_text(encoding="utf-8"), f"study {text}")
        return read_study(path.stem, path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a TOML file: {error}.") from None
    except (FileNotFoundError, IsADirectoryError):
        near = get_close_matches(text, built_in_studies(), n=1)
        remedy = f"Did you mean {near[0]!r}?" if near else "See: unalike study list"
        raise UserError(f"There is no study {text!r}, in the package or as a file. {remedy}") from None
    except OSError as error:
        raise UserError(f"Cannot read the study {path}: {error.strerror}. Check the path.") from None


def _folder() -> Any:
    return resources.files("unalike.studies") / "built_in"


def read_study(name: str, text: str, source: str) -> Study:
    """A study from the text of its file; every mistake is one line that names the file and the key."""
    return _Reader(source).study(name, read_toml(text, source))


class _Reader:
    """Checks a file's values, one key after the other."""

    def __init__(self, source: str) -> None:
        from unalike.runs.spec import RunSpec  # loads torch, which a list of titles does not need

        self._source = source
        self._fields = {each.name for each in RunSpec.options()}

    def wrong(self, key: str, problem: str) -> UserError:
        return UserError(f"{self._source}: {key} {problem}")

    def study(self, name: str, values: Fields) -> Study:
        from unalike.studies.notes import read_notes
        from unalike.studies.tuning.reading import read_tuning
        from unalike.studies.tuning.search import seeds_apart

        self._known("", values, _TOP)
        for key, value in values.items():
            kind: Any = _TOP[key]
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                raise self.wrong(key, f"must be {_KINDS[kind]}, got {value!r}.")
        title = " ".join("".join(each if each.isprintable() else " " for each in values.get("title", "")).split())
        if not title:
            raise self.wrong("title", 'is missing. Add title = "...".')
        base = dict(values.get("base", {}))
        self._known("base.", base, self._fields)
        if "seed" in base:
            raise self.wrong("base.seed", "must not be there. Write seeds = [0, 1, 2] above [base].")
        seeds = self._seeds("seeds", values.get("seeds", [0]))
        axes = self._axes(values.get("axes", {}))
        tuning, tune = dict(values.get("tuning", {})), values.get("tune", {})
        given = tuning.pop("seeds", None)
        tuning_seeds = None if given is None else self._seeds("tuning.seeds", given)
        grids, search, chosen = self._told(
            read_tuning, tune, tuning, tuning_seeds, seeds, values.get("chosen", {})
        )
        self._check_tuning("tuning", tuning)
        study = Study(
            name,
            title,
            values.get("about", "").strip(),
            *self._published(values.get("published"), values.get("published_setting", "")),
            self._target(values.get("target"), base, axes),
            self._last(values.get("figure", "last 1")),
            values.get("baselines", False),
            seeds,
            base,
            axes,
            grids,
            {"validation": 0.1, **tuning},
            tuning_seeds or seeds_apart(seeds, 1),
            self._told(read_notes, values.get("notes", [])),
            self._source,
            search,
            chosen,
            self._told(read_wants, values.get("resources", {})),
        )
        self._check_axes(study)
        return study

    def _check_axes(self, study: Study) -> None:
        """No axis may set what is tuned."""
        for name, values in study.axes.items():
            for each in sorted(study.tuned_fields.intersection(*[set().union(*values)])):
                raise self.wrong(f"axes.{name}", f"sets {each}, which is tuned. Leave it out of one of them.")

    def _told(self, read: Callable[..., Any], *given: Any) -> Any:
        """What a function reads; its error names the file, too."""
        try:
            return read(*given)
        except UserError as error:
            raise UserError(f"{self._source}: {error}") from None

    def _target(self, target: float | None, base: Fields, axes: Mapping[str, tuple[Fields, ...]]) -> float | None:
        """A target of fractions is one, too; of any other score, which the file must name, a number."""
        from unalike.scores import SCORES, score_of

        named = {each["score"] for values in axes.values() for each in values if "score" in each}
        for name in named or {score_of(base)}:
            fraction = name in SCORES and SCORES[name].unit == "fraction"
            if target is not None and not (0 < target <= 1 if fraction else math.isfinite(target)):
                what = f"An accuracy of 90 % is 0.9; of another score, name it in [base]: score = {'rmse'!r}."
                rule = "above 0 and at most 1" if fraction else "a number"
                raise self.wrong("target", f"must be {rule}, got {target}. {what}")
        return target

    def _last(self, figure: str) -> int:
        """The N of ``figure = "last N"``: over how many rounds at the end figures are averaged."""
        word, _, number = figure.partition(" ")
        if word != "last" or not number.isdecimal() or not int(number):
            raise self.wrong("figure", f'must be "last" and a number of rounds, got {figure!r}. Try "last 10".')
        return int(number)

    def _known(self, where: str, values: Fields, known: Any) -> None:
        for key in values:
            if key not in known:
                near = get_close_matches(key, known, n=1, cutoff=0.5)
                remedy = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(sorted(known))}."
                raise self.wrong(f"{where}{key}", f"is not known. {remedy}")

    def _check_tuning(self, key: str, values: Fields) -> None:
        """Whether these are fields in which a tuning run may differ from a final one."""
        if "seeds" in values:
            raise self.wrong(f"{key}.seeds", "must not be there. Write seeds = [0] in [tuning], for all.")
        self._known(f"{key}.", values, self._fields - {"seed", "algorithm", "dataset", "partition"})
        if not values.get("validation", 0.1):
            raise self.wrong(f"{key}.validation", "must be above 0: parameters are tuned on validation rows.")

    def _seeds(self, key: str, value: Any) -> tuple[int, ...]:
        if not isinstance(value, list) or not value or any(type(each) is not int for each in value):
            raise self.wrong(key, f"must be a list of whole numbers that is not empty, got {value!r}.")
        if len(set(value)) < len(value):
            raise self.wrong(key, f"has a seed twice: {value}. Write each once.")
        return tuple(value)

    def _published(self, table: str | None, setting: str) -> tuple[str | None, str]:
        from unalike.ranking.published import TABLES, published

        if table is not None and table not in TABLES:
            raise self.wrong("published", f"must be one of {', '.join(TABLES)}, got {table!r}.")
        if table is None:
            if setting:
                raise self.wrong("published_setting", f"needs a table. Add published, one of {', '.join(TABLES)}.")
        elif setting not in (known := dict.fromkeys(cell.setting for cell in published(table))):
            remedy = (
                f"must be one of {', '.join(known)}" if any(known) else f"must be left out: {table} has no parts"
            )
            raise self.wrong("published_setting", f"{remedy}, got {setting!r}.")
        return table, setting

    def _axes(self, values: Fields) -> dict[str, tuple[Fields, ...]]:
        axes: dict[str, tuple[Fields, ...]] = {}
        owner: dict[str, str] = {}
        for name, found in values.items():
            key = f"axes.{name}"
            if not isinstance(found, list) or not found:
                raise self.wrong(key, f"must be a list that is not empty, got {found!r}.")
            axes[name] = tuple(fields for value in found for fields in self._value(key, name, value))
            for each in sorted(set().union(*axes[name])):
                if each == "seed":
                    raise self.wrong(key, "must not set seed. Write seeds = [0, 1, 2] above [base].")
                if owner.setdefault(each, name) != name:
                    raise self.wrong(key, f"sets {each}, which axes.{owner[each]} sets too. Set it in one.")
        return axes

    def _value(self, key: str, name: str, value: Any) -> list[Fields]:
        """The combinations that one value of an axis stands for: lists inside a table are multiplied out."""
        if not isinstance(value, dict) or (name in self._fields and "name" in value):
            if name not in self._fields:
                near = get_close_matches(name, self._fields, n=1, cutoff=0.5)
                remedy = f"Did you mean {near[0]!r}?" if near else "Use tables of fields, or a field's name."
                raise self.wrong(key, f"is no field of a run's spec. {remedy}")
            value = {name: value}
        if not value:
            raise self.wrong(key, "has an empty table. Remove it, or name fields in it.")
        self._known(f"{key}.", value, self._fields | {TUNING})
        choices: list[list[tuple[str, Any]]] = []
        for field_name, found in value.items():
            if field_name == TUNING:
                if not isinstance(found, dict):
                    raise self.wrong(f"{key}.{TUNING}", f"must be a table, as in [tuning], got {found!r}.")
                self._check_tuning(f"{key}.{TUNING}", found)
            several = found if isinstance(found, list) else [found]
            if not several:
                raise self.wrong(f"{key}.{field_name}", "is an empty list. Give it a value.")
            if field_name == "algorithm":
                several = [each for one in several for each in _every(one)]
            choices.append([(field_name, each) for each in several])
        return [dict(chosen) for chosen in product(*choices)]


def _every(text: Any) -> list[Any]:
    """All algorithms of nets that can be built without parameters, where the text asks for every one."""
    if text != EVERY:
        return [text]
    from unalike.algorithms import ALGORITHMS
    from unalike.algorithms.protocol import Protocol

    names = []
    for entry in ALGORITHMS:
        try:
            part: object = ALGORITHMS.build(entry.name)
        except UserError:  # it needs a parameter
            continue
        if not isinstance(part, Protocol):
            names.append(entry.name)
    return names
