"""Carries out command lines as if nothing but the base dependencies of pyproject.toml were installed.

python tests/base_install.py FILE.json: a list of [command line as a list of words, whether to run it]. A line that
is not run is parsed, which imports its command. Ends with the first line that fails.
"""

import json
import sys
import tomllib
from importlib import metadata
from importlib.abc import MetaPathFinder
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def closure(wanted: list[str]) -> set[str]:
    """The distributions that these requirements bring, with all that those need in turn."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in wanted]
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if name in found or (one.marker and not one.marker.evaluate({"extra": ""})):
            continue
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # of another platform, or not called for
            continue
        found.add(name)
        waiting += map(Requirement, needs)
    return found


class Fence(MetaPathFinder):
    """Makes all other installed distributions impossible to import."""

    def __init__(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        base = closure(project["dependencies"]) | {"unalike"}
        made_by = metadata.packages_distributions()
        self._out = {top for top, made in made_by.items() if base.isdisjoint(map(canonicalize_name, made))}

    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top in self._out:
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)


def parse(words: list[str]) -> dict[str, object]:
    """The parameters of a command line. Subcommands, flags or values that do not exist raise an error."""
    from typer.main import get_command

    from unalike.cli.main import app

    command = get_command(app)
    context = command.make_context("unalike", list(words))
    while hasattr(command, "resolve_command"):
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
    return context.params


def main(orders: list[tuple[list[str], bool]]) -> None:
    sys.meta_path.insert(0, Fence())
    from unalike.cli.main import call

    for words, wanted in orders:
        if wanted:
            assert call(words) == 0, words
        else:
            parse(words)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
