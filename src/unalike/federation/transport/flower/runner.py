"""The process at the server that carries out runs: fetches the task of each, and calls the ServerApp."""

from __future__ import annotations

import sys
import time
import traceback
from argparse import ArgumentParser
from pathlib import Path

from flwr.supercore.constant import TaskType

from unalike.federation.transport.flower.inside import TaskDesk, quicken_heartbeat, serve_task
from unalike.federation.transport.flower.server_app import app

_LOOK = 0.5


def main() -> None:
    """Carry out run after run. A run that is stopped ends this process; the link starts it again."""
    parser = ArgumentParser()
    for name in ("--port", "--secret", "--root-certificate"):
        parser.add_argument(name, required=True)
    given = parser.parse_args()
    quicken_heartbeat()
    certificate = Path(given.root_certificate).read_bytes()
    desk = TaskDesk(TaskType.SERVER_APP, f"127.0.0.1:{given.port}", Path(given.secret).read_bytes(), certificate)
    while True:
        token = desk.acquire()
        if token is None:
            time.sleep(_LOOK)
            continue
        try:
            serve_task(desk, token, app)
        except Exception:
            traceback.print_exc()
            sys.stderr.flush()
