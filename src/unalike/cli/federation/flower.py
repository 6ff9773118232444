"""``unalike federation flower`` and ``join --transport flower``: a federation that Flower carries the bytes of."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import tomli_w

from unalike.cli.federation import plugins
from unalike.cli.federation.arguments import TRANSPORTS
from unalike.cli.federation.needs import need_server
from unalike.cli.program import program
from unalike.cli.show import draw, say
from unalike.errors import UserError
from unalike.federation.folders import TRAIN
from unalike.federation.plan import Plan
from unalike.federation.transport.flower.door import SiteDoor
from unalike.runs.files import atomic_write, make_folder

_APP = "flower-app"


def flower(folder: Path) -> None:
    """Write the app that ``flwr run`` wants, and say what to start where."""
    plan = Plan.read(need_server(folder))
    target = folder / _APP
    make_folder(target, private=True)
    config = {"folder": str(folder.resolve()), "job": TRAIN, "plugins": os.pathsep.join(plugins.loaded())}
    atomic_write(target / "pyproject.toml", tomli_w.dumps(_app(plan, config)).encode())
    draw(
        f"{target} names code that is installed, and carries none.",
        "  At each site:   "
        f"{program()} federation join {plan.parties[0]} --data csv:patients.csv --transport flower",
        "                  and its SuperNode with the --node-config that this prints",
        "  At the server:  flower-superlink ... --disable-runtime-dependency-installation",
        f"  To train:       flwr run {target} SUPERLINK",
        f"  To look:        {program()} federation status {folder}",
    )


def _app(plan: Plan, config: dict[str, str]) -> dict[str, object]:
    components = {
        "serverapp": "unalike.cli.federation.server_app:app",
        "clientapp": "unalike.federation.transport.flower.client_app:app",
    }
    about = f"The federation {plan.name}: names the apps of the installed package unalike, and carries no code"
    return {
        "project": {"name": "unalike-federation", "version": "1.0.0", "description": about, "dependencies": []},
        "tool": {"flwr": {"app": {"publisher": "unalike", "components": components, "config": config}}},
    }


def door_of(folder: Path, transport: str, door: Path | None, address: str | None) -> Path | None:
    """Where a site that has joined by Flower listens; None for one that calls the server itself."""
    if transport not in TRANSPORTS:
        raise UserError(f"--transport must be {' or '.join(TRANSPORTS)}, got {transport!r}.")
    if transport == "flower":
        if address is not None:
            raise UserError(
                f"--address {address} is for the SuperNode, with --transport flower. Leave it out here."
            )
        return (door or folder / "flower" / "door").absolute()
    if door is not None:
        raise UserError(f"--door {door} is for --transport flower. Leave it out, or give both.")
    return None


def wait_behind(door: Path, answer: Callable[[bytes], bytes], most: int) -> NoReturn:
    """Answer what this site's SuperNode passes through the door, until the command is stopped."""
    with SiteDoor(door, answer, most):
        say(f"Waiting behind the door. Start the SuperNode with:  --node-config 'door=\"{door}\"'")
        while True:
            time.sleep(3600)
