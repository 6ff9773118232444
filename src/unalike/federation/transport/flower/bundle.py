"""The app bundle that Flower wants with every run: it names code that is installed, and carries none."""

from __future__ import annotations

import hashlib
from pathlib import Path

from unalike.runs.files import atomic_write, make_folder

PYPROJECT = """\
# Made by unalike. Flower passes it to every site, where it is not unpacked: sites run what they have installed.
[project]
name = "unalike-federation"
version = "1.0.0"
description = "Names the apps of the installed package unalike; carries no code"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "unalike"

[tool.flwr.app.components]
serverapp = "unalike.federation.transport.flower.server_app:app"
clientapp = "unalike.federation.transport.flower.client_app:app"

[tool.flwr.app.config]
"""


def write_bundle(folder: Path) -> Path:
    """Write the bundle's source into ``folder / app``, for whoever wants to see it or use ``flwr run``."""
    target = folder / "app"
    make_folder(target, private=True)
    atomic_write(target / "pyproject.toml", PYPROJECT.encode())
    return target


def build_bundle() -> tuple[str, bytes]:
    """The bundle's SHA-256 and its bytes."""
    from flwr.cli.build import build_fab_from_files

    content, _ = build_fab_from_files({"pyproject.toml": PYPROJECT.encode()})
    return hashlib.sha256(content).hexdigest(), content
