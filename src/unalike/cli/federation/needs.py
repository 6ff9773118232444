"""What the commands of a federation share."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from unalike.algorithms import ALGORITHMS
from unalike.errors import UserError
from unalike.federation.making import PARTY, is_server
from unalike.federation.plan import Plan

POSIX = os.name == "posix"


def algorithm_of(plan: Plan) -> str:
    """Its name, with the parameters that are not the usual ones."""
    return ALGORITHMS.brief(ALGORITHMS.build(plan.spec.algorithm))


def need_extra() -> None:
    """One line where real sites cannot run."""
    if not POSIX:
        raise UserError("Real sites and servers run on Linux or macOS (or WSL on Windows), not on Windows itself.")
    if any(find_spec(name) is None for name in ("httpx", "uvicorn")):
        raise UserError("Federations of real sites need an extra: pip install 'unalike[federation]'")


def need_server(folder: Path) -> Path:
    """The folder, if it is a server's."""
    if not is_server(folder):
        if (folder / PARTY).exists():
            raise UserError(f"{folder} is a site's folder. Name the server's, which init has made.")
        raise UserError(
            f"{folder} is not a federation's server folder. Make one: "
            f"unalike federation init {folder} --party NAME ..."
        )
    return folder
