"""Ray, started on this machine or reached where it runs: the only file that knows how.

Ray runs whatever code it is sent, so it always has a token here. The one for workers of this machine is made for
them, in a private folder, and is gone with them; that of a cluster is the user's, by Ray's own variables. Neither
is read, printed or kept.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from unalike.engines.many.machines import Machines
from unalike.errors import UserError

REACH_SECONDS = 5.0
"""How long a cluster's address may take to answer."""
STORE_BYTES = 256 * 2**20
"""Shared memory of local workers, beside that for the data."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",  # else workers wait for whatever else the machine does
}
"""Ray's own settings, unless the user has others: nothing is reported to anybody."""


@contextlib.contextmanager
def connected(machines: Machines, cpus: float, data_bytes: int) -> Iterator[tuple[Any, int]]:
    """Ray, and how many workers there will be; what was started here is stopped in the end.

    A program that is connected to Ray already keeps its connection.
    """
    machines.check_here()
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if machines.cluster is None:
        with local_token():
            yield from _session(machines, cpus, data_bytes)
    else:
        yield from _session(machines, cpus, data_bytes)


@contextlib.contextmanager
def own_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM are answered afterwards as they were before: Ray would end the process at once."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            # Also where Python's handler looks the same: Ray sets some behind its back. Only a main thread may.
            with contextlib.suppress(ValueError):
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _session(machines: Machines, cpus: float, data_bytes: int) -> Iterator[tuple[Any, int]]:
    import ray

    ours = not ray.is_initialized()
    folder = None
    try:
        if ours and machines.cluster is None:
            folder = tempfile.mkdtemp(prefix="un-ray-", dir=_short_folder())
            with own_signals():
                _start(ray, (machines.workers or 1) * cpus, data_bytes, folder)
        elif ours:
            with own_signals():
                _reach(ray, str(machines.cluster))
        there = float(ray.cluster_resources().get("CPU", 0))
        room = int(there // cpus)
        if room < 1:
            raise UserError(
                f"The cluster has {there:g} CPUs, of which each worker needs {cpus:g}. Lower --worker-cpus, or "
                "start more hosts."
            )
        yield ray, min(room, machines.workers or room)
    finally:
        if ours:
            ray.shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _short_folder() -> str | None:
    """Where Ray's sockets are: their names have about a hundred characters at most."""
    usual = tempfile.gettempdir()
    return usual if len(usual) < 30 else "/tmp"  # a folder of our own is made in it


_NAMES = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


@cache
def _token_file() -> Path:
    """A file with a token that nobody else can read, for the life of this process: Ray remembers it so long."""
    folder = Path(tempfile.mkdtemp(prefix="un-ray-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    return token


@contextlib.contextmanager
def local_token() -> Iterator[None]:
    """The token for workers of this machine alone, unless the user has settled that."""
    if any(os.environ.get(name) for name in _NAMES):
        yield
        return
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(_token_file())}
    with contextlib.suppress(ImportError, AttributeError):  # as Ray does where the program had imported it before
        importlib.import_module("ray._raylet").Config.initialize("")
    try:
        yield
    finally:
        for name in _NAMES:
            os.environ.pop(name, None)


def _start(ray: Any, cpus: float, data_bytes: int, folder: str) -> None:
    ray.init(
        address="local",
        num_cpus=max(1, int(-(-cpus // 1))),
        num_gpus=0,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=STORE_BYTES + 2 * data_bytes,
        _temp_dir=folder,
        _node_ip_address="127.0.0.1",
    )


def _reach(ray: Any, address: str) -> None:
    _check_answers(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        first = str(error).strip().split("\n")[0]
        raise UserError(
            f"No Ray cluster at {address}: {first} Start one with ray start --head; RAY_AUTH_MODE and "
            "RAY_AUTH_TOKEN_PATH must be here what they are there."
        ) from None


def _check_answers(address: str) -> None:
    """Refuse an address where nothing listens: Ray itself would try for a minute."""
    host, colon, port = address.rpartition(":")
    if not colon or address.startswith("ray://"):
        if address not in ("auto",):
            raise UserError(f"--cluster must be HOST:PORT or auto, got {address!r}. Ray's usual port is 6379.")
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_SECONDS):
            pass
    except (OSError, ValueError, OverflowError) as error:
        raise UserError(
            f"Nothing answers at --cluster {address}: {error}. Start it there with ray start --head --port={port}."
        ) from None
