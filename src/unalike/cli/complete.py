"""What the shell offers when a user presses Tab: names of parts, of runs and of studies.

The names of parts are read from the source files, where decorators such as ``@register_model("mlp")`` hold them:
nothing is imported, because nobody waits a second for a Tab.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from importlib import resources
from importlib.abc import Traversable
from pathlib import Path

import typer

from unalike.runs.parts import PARTS

Offer = tuple[str, str]
"""A word, and what it is."""
Completer = Callable[[typer.Context, str], list[Offer]]

SIGNS = {"partition": "+", "channel": "+", "model": "|"}
"""What joins parts of a kind, where they can be joined."""
_REGISTERED = re.compile(
    r'^@(?:\w+\.)?(?P<by>[A-Z]+\.register|\w+)\(\s*"(?P<name>[^"]+)".*?^class [^\n]*\n\s+"""(?P<summary>[^\n"]*)',
    re.MULTILINE | re.DOTALL,
)
_HOLDS_ALGORITHM = re.compile(r"^    (\w+): Algorithm\b", re.MULTILINE)
"""A field of an algorithm that is an algorithm."""
_FIELD_BEGUN = re.compile(r"(.*[(,]\s*(\w+)=)([\w+-]*)", re.DOTALL)


def choices(*words: str) -> Completer:
    """Complete an option whose value is one of these words."""

    def complete(ctx: typer.Context, incomplete: str) -> list[Offer]:
        return [(word, "") for word in words if word.startswith(incomplete)]

    return complete


def parts(field: str) -> Completer:
    """The parts that a field of RunSpec may name, those of ``--plugin`` files included."""

    def complete(ctx: typer.Context, incomplete: str) -> list[Offer]:
        texts = [*_of_package(field), *_of_plugins(ctx.params.get("plugin") or ())]
        before, begun = _begun(field, incomplete, texts)
        found = sorted(offer for text in texts for offer in _registered_in(field, text))
        return [(f"{before}{name}", what) for name, what in found if name.startswith(begun)]

    return complete


def _begun(field: str, incomplete: str, texts: Iterable[str]) -> tuple[str, str]:
    """What stands already, and the part's name that is being written after it."""
    within = _FIELD_BEGUN.fullmatch(incomplete) if field == "algorithm" else None
    if within and any(within[2] in _HOLDS_ALGORITHM.findall(text) for text in texts):
        return within[1], within[3]
    before, sign, begun = incomplete.rpartition(SIGNS[field]) if field in SIGNS else ("", "", incomplete)
    return f"{before}{sign}", begun


def registered(field: str) -> list[Offer]:
    """The parts that come with the package, by name, with their summaries."""
    return sorted(offer for text in _of_package(field) for offer in _registered_in(field, text))


def _of_package(field: str) -> list[str]:
    """The source files that parts of a kind are in."""
    module, _ = PARTS[field]
    *above, last = module.split(".")[1:]
    room = resources.files("unalike").joinpath(*above)
    files = _sources(room / last) if (room / last).is_dir() else [room / f"{last}.py"]
    return [file.read_text(encoding="utf-8") for file in files]


def _sources(folder: Traversable) -> Iterator[Traversable]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _sources(each)
        elif each.name.endswith(".py"):
            yield each


def _registered_in(field: str, text: str) -> Iterator[Offer]:
    decorators = (field if field == "algorithm" else f"register_{field}", f"{PARTS[field][1]}.register")
    for match in _REGISTERED.finditer(text):
        if match["by"] in decorators:
            yield match["name"], match["summary"]


def _of_plugins(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        try:
            yield Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):  # the command itself will say what is wrong with it
            continue


def runs(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """The runs in the folder of runs, by folder name; by key, where that is what was begun."""
    try:
        folders = sorted(path for path in Path(ctx.params.get("runs") or "runs").iterdir() if path.is_dir())
    except OSError:
        return []
    names = [path.name for path in folders if (path / "spec.toml").exists()]
    found = [name for name in names if name.startswith(incomplete)]
    return [(name, "") for name in found or (name.rpartition("-")[2] for name in names)]


def studies(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """The studies that come with the package, and the TOML files here."""
    from unalike.studies.study_file import built_in_studies

    return [*built_in_studies().items(), *((path.name, "") for path in sorted(Path().glob("*.toml")))]


def runs_and_studies(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """What a report can be about."""
    return [*runs(ctx, incomplete), *studies(ctx, incomplete)]
