"""What both casts of a protocol's simulation need: states as arrays, and what reads a trained model."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from unalike.algorithms.protocol import SERVER, Arrays, PublicTerms
from unalike.rounds.margins import Grown
from unalike.rounds.state import State


def reader_class(reader: object) -> Any:
    """The class that reads a trained model: itself, or the one that ``module:class`` names."""
    if not isinstance(reader, str):
        return reader
    module, _, name = reader.partition(":")
    return getattr(import_module(module), name)


def read_by(reader: object, arrays: Arrays, terms: PublicTerms) -> Grown:
    """The model in such arrays; ``reader`` is the class that reads them, or ``module:class``."""
    made: Grown = reader_class(reader).of(arrays, terms.model, terms.classes, terms.target)
    return made


def arrays_of(state: State) -> dict[int, Arrays]:
    """What all roles keep, as arrays."""
    kept = {SERVER: state.server, **state.parties}
    return {role: {name: value.numpy() for name, value in own.items()} for role, own in kept.items()}
