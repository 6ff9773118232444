"""The ServerApp that ``flwr run`` starts: Flower's grid carries the bytes, the rest is as with any transport."""

from __future__ import annotations

import os
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from unalike.cli.federation.needs import need_server
from unalike.cli.plugin import load_plugins
from unalike.errors import UserError
from unalike.federation import attempts
from unalike.federation.folders import MEASURE, TRAIN
from unalike.federation.transport.flower.transport import FlowerTransport

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train or measure in the server's folder; an end that is not a good one is an error, so that Flower shows it.

    The run's configuration names the folder. A training that was stopped goes on where it was.
    """
    given = {key: str(value) for key, value in context.run_config.items()}
    folder, job = need_server(Path(given["folder"])), given["job"]
    if job not in (TRAIN, MEASURE):
        raise UserError(f"job must be {TRAIN} or {MEASURE}, got {job!r}.")
    load_plugins(map(Path, filter(None, given["plugins"].split(os.pathsep))))
    tries = attempts.Attempts(folder)
    if tries.working or attempts.is_served(folder):
        raise UserError(f"Another process is at work in {folder}. Wait for it, or stop it.")
    tries.submit(job)
    attempts.serve(FlowerTransport(grid), folder)
    outcome = tries.outcome()
    if outcome is None or outcome.how != "finished":
        raise UserError(f"{outcome.how}: {outcome.reason}" if outcome else "The server did not say how it ended.")
