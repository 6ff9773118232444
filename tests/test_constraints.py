"""What ``make`` installs is fixed, and among the versions that pyproject.toml allows."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def test_every_pin_is_one_version_that_is_allowed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [text for texts in project["optional-dependencies"].values() for text in texts]
    allowed = [Requirement(text) for text in project["dependencies"] + extras]
    for pin in pinned():
        (one,) = pin.specifier
        assert one.operator == "=="
        ranges = [each.specifier for each in allowed if each.name == pin.name]
        assert ranges, f"{pin.name} is no dependency"
        assert all(one.version in each for each in ranges)


def test_make_installs_nothing_without_the_pins():
    lines = (ROOT / "Makefile").read_text().splitlines()
    installs = [line for line in lines if "$(BIN)/python -m pip install" in line]
    assert installs
    assert all("-c constraints.txt" in line for line in installs)
    assert "torch" in [pin.name for pin in pinned()]
