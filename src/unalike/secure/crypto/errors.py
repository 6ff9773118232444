"""What goes wrong in cryptography, and how its libraries are loaded."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from unalike.errors import UserError


class CryptoError(UserError):
    """Input that a cryptographic function refuses: malformed, out of bounds, forged or of another key."""


@cache
def library(module: str) -> Any:
    """A module that is imported when it is first needed, as most commands need no cryptography."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.split(".")[0]
        raise UserError(f"{name} is not installed, but unalike needs it here. Run: pip install {name}") from error
