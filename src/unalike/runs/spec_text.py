"""A spec in other words: parts with every parameter, tables as texts, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unalike.part_text import text_of
from unalike.runs.parts import registry

DEFAULT_MODEL = "mlp(64)"
"""The net of a data set that names none of its own."""


def canonical(field: str, text: str) -> str:
    """The text of a part with every parameter written out."""
    parts = registry(field)
    return parts.describe(parts.build(text))


def as_text_field(field: str, value: Any) -> Any:
    """A table, or a list of models, as the text that means the same; any other value as it is."""
    if isinstance(value, Mapping):
        return text_of(value, field)
    if field == "model" and isinstance(value, list | tuple) and value:
        return registry(field).sign.join(str(as_text_field(field, each)) for each in value)
    if field == "model" and value is not None and not isinstance(value, str):
        from unalike.models.own import model_text

        return model_text(value)
    if field == "freeze" and value is not None:  # names in one order, each once
        names = value.split(",") if isinstance(value, str) else value
        return ",".join(sorted({str(name).strip() for name in names} - {""})) or None
    return value


def is_channel(text: str) -> bool:
    """Whether the channel does anything: ``none`` does not."""
    from unalike.channels import parse_channel

    return bool(parse_channel(text).parts)


def parties_of(partition: str) -> int | None:
    """How many parties a partition makes where nobody says; None where the data decide."""
    from unalike.partition import default_parties

    return default_parties(partition)


def model_for(dataset: str) -> str:
    """The net of a data set where none is named: its own text must be the canonical one."""
    return str(getattr(registry("dataset").build(dataset), "model", None) or DEFAULT_MODEL)
