"""The process at a site that talks to the server: Flower's node, and beside it the courier that answers messages.

It holds the node's key and knows where the door is; data and the party's own secrets are behind the door.
"""

from __future__ import annotations

import os
import sys
import threading
from argparse import ArgumentParser
from pathlib import Path

from flwr.supercore.constant import TaskType

from unalike.federation.transport.flower.client_app import app
from unalike.federation.transport.flower.inside import (
    Pace,
    TaskDesk,
    answer_task,
    end_with_a_void_run,
    quicken_node,
    say_goodbye,
)


def main() -> None:
    """Run a node until it is stopped, refused or killed."""
    parser = ArgumentParser()
    for name in ("--address", "--root-certificate", "--key", "--door", "--folder", "--port"):
        parser.add_argument(name, required=True)
    given = parser.parse_args()
    folder = Path(given.folder)
    _end_lease(given.address, given.root_certificate, given.key, folder / "node-id")
    pace = quicken_node()
    end_with_a_void_run()
    desk = TaskDesk(TaskType.CLIENT_APP, f"127.0.0.1:{given.port}", (folder / "secret").read_bytes())
    threading.Thread(target=_carry, args=(desk, pace), name="courier", daemon=True).start()
    sys.argv = ["flower-supernode", "--superlink", given.address, "--root-certificates", given.root_certificate]
    sys.argv += ["--auth-supernode-private-key", given.key, "--node-config", f'door="{given.door}"']
    sys.argv += ["--isolation", "process", "--superexec-auth-secret-file", str(folder / "secret")]
    sys.argv += ["--host", "127.0.0.1", "--port", given.port]
    from flwr.supernode.cli.flower_supernode import flower_supernode

    flower_supernode()


def _carry(desk: TaskDesk, pace: Pace) -> None:
    """Answer message after message. Any other error ends the process; the site starts it again."""
    try:
        while True:
            pace.work.wait()
            token = desk.acquire()
            if token is None:
                pace.work.clear()  # the loop sets it again within a tenth of a second, if it waits for an answer
            else:
                answer_task(desk, token, app)
    except BaseException as error:
        print(f"courier ended: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


def _end_lease(address: str, root_certificate: str, key: str, memory: Path) -> None:
    """If an earlier process with this key was killed, tell the server that it is gone."""
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        node_id = int(memory.read_text())
    except (OSError, ValueError):
        return
    try:
        status = say_goodbye(
            address, root_certificate, load_ssh_private_key(Path(key).read_bytes(), None), node_id
        )
        print(f"earlier lease: status {status}", flush=True)
    except Exception as error:  # the node itself finds out, and says, what is wrong
        print(f"earlier lease: {error}", flush=True)
