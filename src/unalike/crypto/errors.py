"""What goes wrong in cryptography, and the libraries that may be missing."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from unalike.errors import UserError


class CryptoError(UserError):
    """Input that a cryptographic function refuses: malformed, out of bounds, forged or of another key."""


@cache
def library(module: str) -> Any:
    """A module of an optional library, imported when it is first needed."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.split(".")[0]
        raise UserError(f"{name} is not installed. Run: pip install 'unalike[private]'") from error
