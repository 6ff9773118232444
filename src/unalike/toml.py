"""TOML files: read with one line for every mistake, written by a library, tables inside tables included."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import tomli_w

from unalike.errors import UserError


def read_toml(text: str, source: object) -> dict[str, Any]:
    """The values in a TOML text; ``source``, the file it is from, is named in the line that says what is wrong."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UserError(f"{source} is not a TOML file: it is nested too deep to be read.") from None
    except ValueError as error:  # not TOML, or a whole number of thousands of digits, which Python does not read
        said = str(error).split(";")[0].rstrip(".")
        raise UserError(f"{source} is not a TOML file: {said}.") from None


def write_toml(values: Mapping[str, Any]) -> str:
    """The text of a TOML file with these values; the same values in the same order give the same text."""
    return tomli_w.dumps(values)
