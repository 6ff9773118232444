"""What a value is, in a line, without the numbers in it: they may be a party's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

from unalike.algorithms.exchange import ByParty, Phase

_LONGEST = 200


def _numbers(which: object) -> str:
    """What the rows of a ByParty are said to be; these are the server's numbers, no party's."""
    return str(which.tolist()) if isinstance(which, Tensor) else outline_of(which)


def outline_of(value: object) -> str:
    """What a value is: the type, shapes and names that it has."""
    if isinstance(value, Tensor):
        lacks = " without a gradient" if not value.dim() and not value.requires_grad else ""
        odd = f" of {value.dtype}" if value.dtype != torch.float32 else ""
        text = f"a tensor of shape {tuple(value.shape)}{odd}{lacks}"
    elif isinstance(value, Mapping):
        text = "{" + ", ".join(f"{key!r}: {outline_of(each)}" for key, each in value.items()) + "}"
    elif isinstance(value, tuple | list):
        first, last = "()" if isinstance(value, tuple) else "[]"
        text = first + ", ".join(map(outline_of, value)) + last
    elif isinstance(value, Phase):
        given = [f for f in dataclasses.fields(value) if getattr(value, f.name) != f.default]
        text = f"Phase({', '.join(f'{f.name}={getattr(value, f.name)!r}' for f in given)})"
    elif isinstance(value, ByParty):
        text = f"ByParty(values={outline_of(value.values)}, which={_numbers(value.which)})"
    else:
        text = "None" if value is None else f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
