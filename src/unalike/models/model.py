"""Models by name: what makes a net for the data, and several of them where parties have different nets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, dataclass_transform, runtime_checkable

from unalike.registry import CompositionRegistry

if TYPE_CHECKING:
    from unalike.models.net import Net

C = TypeVar("C", bound=type)


class Model(Protocol):
    """A registered model: its fields are its widths and options, ``build`` makes the net for the data."""

    def build(self, shape: tuple[int, ...], classes: int) -> Net:
        """A freshly initialised net for rows of that shape; randomness is torch's global stream."""
        ...


@runtime_checkable
class ReadsWords(Model, Protocol):
    """A model that must know what the tokens mean before it builds, such as to look up word vectors."""

    def with_vocabulary(self, words: tuple[str, ...]) -> Model:
        """The model for data where ``words[id]`` is the word of a token (``Dataset.features``)."""
        ...


@dataclass(frozen=True)
class SeveralModels:
    """Parties whose nets differ: party k has the net of ``parts[k % len(parts)]``."""

    parts: tuple[Model, ...]


def _together(models: tuple[Model, ...]) -> Any:
    return models[0] if len(models) == 1 else SeveralModels(models)


MODELS = CompositionRegistry("model", _together, sign="|")
"""Models by name. ``mlp(32)|logistic`` gives SeveralModels; ``MODELS.terms`` lists them, and one alone, too."""


@dataclass_transform(frozen_default=True)
def register_model(name: str, *, paper: str = "") -> Callable[[C], C]:
    """Class decorator: make the class a frozen dataclass and register it as a model."""
    return MODELS.register(name, paper=paper)
