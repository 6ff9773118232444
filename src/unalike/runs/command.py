"""What to type to run a run again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from unalike.errors import UserError
from unalike.partition import default_parties


def command(spec: Mapping[str, Any]) -> str:
    """What to type to run it again: the fields that are not as by default."""
    defaults = _defaults(str(spec.get("dataset"))) | {"parties": _parties(str(spec.get("partition")))}
    parts = ["unalike", "run"]
    for name, value in spec.items():
        if name == "code" or (name != "dataset" and defaults.get(name) == value):
            continue
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            parts.append(flag if value else f"--no-{flag[2:]}")
        else:
            parts += [flag, str(value)]
    return shlex.join(parts) + with_own_code(spec.get("code"))


def with_own_code(code: object) -> str:
    """What a command needs beside its words where a run has parts that are not the package's."""
    return "  # with the same --plugin or file of your own" if code else ""


def _parties(partition: str) -> int | None:
    """How many parties there are where none are asked for: that depends on the partition."""
    try:
        return default_parties(partition)
    except UserError:  # a plug-in's
        return None


@lru_cache
def _defaults(dataset: str) -> dict[str, Any]:
    from unalike.runs.spec import RunSpec

    try:
        return RunSpec.defaults(dataset)  # the data set itself is not looked at: a record may be somebody else's
    except UserError:  # a plug-in's data set, or files that are not here
        return RunSpec.defaults("digits") | {"model": None}
