"""Imports go one way, files stay short, and tests mirror the packages."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import unalike

ROOT = Path(unalike.__file__).parent
# An import goes from a line to a later one.
LEVELS = [
    {"__main__"},
    {"cli"},
    {"sklearn"},
    {"notebook"},
    {"demo", "watch"},
    {"report"},
    {"studies"},
    {"ranking", "federation"},
    {"runs"},
    {"engines"},
    {"rounds"},
    {"channels", "algorithms"},
    {"vertical"},
    {"trees"},
    {"models"},
    {"measure"},
    {"secure"},
    {"partition"},
    {"data"},
    {"registry", "randomness", "toml", "native"},
    {"part_text", "own_code", "own_files"},
    {"scores"},
    {"tallies", "quantities"},
    {"errors"},
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def imported(path):
    """The packages of ``unalike`` that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: import by the whole name"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "unalike" and len(parts) > 1:
                yield parts[1]


def violations(package, names):
    return [n for n in names if n in LEVEL and n != package and LEVEL[n] <= LEVEL[package]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    package = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert package in LEVEL, f"{package} has no level: add it"
    assert not violations(package, imported(path))


def test_the_check_itself_can_fail():
    assert violations("algorithms", ["engines"]) == ["engines"]
    assert violations("algorithms", ["channels"]) == ["channels"]
    assert violations("engines", ["algorithms", "data", "errors"]) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_stay_short(path):
    assert len(path.read_text().splitlines()) <= 320


SHORTEST = 5
"""Words that a docstring has at least: fewer say nothing that the name does not."""


def says_nothing(tree):
    """Where and what the docstrings of a file are that are too short to say anything."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None and len(text.split()) < SHORTEST:
                yield f"{getattr(node, 'name', 'the file')}: {text}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_say_something(path):
    assert not list(says_nothing(ast.parse(path.read_text())))


def test_the_check_of_docstrings_can_fail():
    assert list(says_nothing(ast.parse('"""A file."""\ndef f():\n    """What f does, and why."""'))) == [
        "the file: A file."
    ]


def test_tests_mirror_the_packages():
    tests = Path(__file__).parent
    for package in (p for p in ROOT.iterdir() if (p / "__init__.py").exists()):
        assert list((tests / package.name).glob("test_*.py")), f"tests/{package.name} has no tests"


# Names of two classes, and why they may stay. A name that is one idea again has to leave this list.
TWICE = {
    "Choice": "of an engine, and of parameters by tuning",
    "Column": "of a table that is read, and of a table on a page",
    "Place": "in a conversation between sites, and where the runs of a study are made",
    "Job": "what an engine is chosen for, and a run that a study is to make",
    "Line": "of a rehearsed round, and of a table of results",
    "Study": "what a page needs to know of one is a protocol",
    "StudyResults": "what a page needs to know of them is a protocol",
    "Table": "on a terminal, and of a leaderboard",
    "Worker": "of a party, and of a study",
}


def defined_twice(sources):
    """The public classes that more than one of these texts define."""
    found = [
        {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)} for text in sources
    ]
    counts = Counter(name for names in found for name in names if not name.startswith("_"))
    return {name for name, count in counts.items() if count > 1}


def test_a_class_name_is_one_idea():
    twice = defined_twice(path.read_text() for path in FILES)
    assert not twice - TWICE.keys(), "defined in two files: give the less central one another name"
    assert not TWICE.keys() - twice, "no longer defined twice: take it off the list"


def test_the_check_of_class_names_can_fail():
    assert defined_twice(["class A: pass\nclass _B: pass", "class A: pass\nclass _B: pass\nclass C: pass"]) == {
        "A"
    }
