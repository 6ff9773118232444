"""The ServerApp: gives the transport to the federation's server logic.

Which folder and which logic is decided by the owner of the server's process, in its environment, and by nobody who
submits a run: a run carries no setting at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from unalike.federation.transport.flower.transport import FlowerTransport

FOLDER = "UNALIKE_FEDERATION_FOLDER"
SERVE = "UNALIKE_FEDERATION_SERVE"
DEFAULT_SERVE = "unalike.federation.server:serve"

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the server's side of the federation in its folder."""
    logic()(FlowerTransport(grid), Path(os.environ[FOLDER]))


def logic() -> Callable[[FlowerTransport, Path], Any]:
    """The function ``serve(transport, folder)`` that the folder's owner chose."""
    module, _, function = os.environ.get(SERVE, DEFAULT_SERVE).partition(":")
    found: Callable[[FlowerTransport, Path], Any] = getattr(import_module(module), function)
    return found
