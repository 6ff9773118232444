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
        values = tomllib.loads(text)
        beyond = next((key for key, value in values.items() if _is_beyond(value)), None)
    except RecursionError:
        raise UserError(f"{source} is not a TOML file: it is nested too deep to be read.") from None
    except ValueError as error:  # not TOML, or a whole number of thousands of digits, which Python does not read
        said = str(error).split(";")[0].rstrip(".")
        raise UserError(f"{source} is not a TOML file: {said}.") from None
    if beyond is not None:
        raise UserError(f"{source} is not a TOML file: {beyond} has a whole number of more than 64 bits.")
    return values


def _is_beyond(value: object) -> bool:
    """Whether there is a whole number in a value that TOML does not promise to carry."""
    if isinstance(value, int):
        return not -(2**63) <= value < 2**63
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(_is_beyond, inner))


def write_toml(values: Mapping[str, Any]) -> str:
    """The text of a TOML file with these values; the same values in the same order give the same text."""
    return tomli_w.dumps(values)
