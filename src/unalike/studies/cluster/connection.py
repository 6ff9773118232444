"""Ray as a study uses it: a cluster that is there, or one on this machine for as long as the study takes.

Whoever can speak to a cluster can run anything on it, since Ray pickles code between its processes: a cluster is
one person's trust zone, and never the way between the sites of a real federation. Its processes know each other by
a token. For a cluster on this machine one is made, for its owner alone, and lasts as long as the process; that of
another cluster is named by Ray's own variables (``RAY_AUTH_TOKEN_PATH``) and is never read here.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

from unalike.engines.many.cluster import QUIET, local_token, own_signals
from unalike.errors import UserError

ADDRESS_SECONDS = 5.0
"""How long an address may take to answer before it counts as unreachable."""


def load_ray() -> Any:
    """The module, or the line that says how to get it."""
    if sys.platform == "win32":
        raise UserError("Ray on Windows is not supported. Use processes here, or hosts with Linux or macOS.")
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        return import_module("ray")
    except ImportError as error:
        if getattr(error, "name", None) != "ray":
            raise UserError(f"Ray cannot be loaded: {error}. Try: pip install 'unalike[ray]'") from None
        raise UserError("Ray is not installed. Try: pip install 'unalike[ray]'") from None


@contextmanager
def cluster(address: str | None, *, cpus: int, store_bytes: int = 2**28) -> Iterator[Any]:
    """Ray's module, connected until the end. Without an address, ``cpus`` cores of this machine are the cluster.

    Ctrl-C and SIGTERM are answered as before: Ray would end the process at once.
    """
    ray = load_ray()
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options |= {"address": "local", "_node_ip_address": "127.0.0.1", "include_dashboard": False}
        options |= {"num_cpus": cpus, "object_store_memory": store_bytes}
    else:
        _check_address(address)
        options["address"] = address
    with local_token() if address is None else nullcontext():
        try:
            with own_signals():
                ray.init(**options)
        except Exception as error:
            raise UserError(_why_not(address, error)) from None
        try:
            yield ray
        finally:
            with own_signals():
                ray.shutdown()


def _check_address(address: str) -> None:
    """Whether somebody answers there: Ray itself would try for a minute, and print all of it."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if "//" in address or not host or not port.isdecimal():
        raise UserError(
            f"A cluster's address is HOST:PORT of its head, or auto, got {address!r}. Start the command on one of "
            "its hosts."
        )
    try:
        socket.create_connection((host, int(port)), ADDRESS_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"Nobody answers at {address} ({getattr(error, 'strerror', None) or error}). Start the head there: "
            f"ray start --head --port={port}"
        ) from None


def _why_not(address: str | None, error: Exception) -> str:
    said = next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
    if "oken" in str(error):
        return (
            f"The cluster does not take this program's token ({said}). Set RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN_PATH as on its head."
        )
    if address == "auto":
        return f"No cluster was found on this host ({said}). Start one with ray start --head, or give its address."
    where = "on this machine" if address is None else f"at {address}"
    return f"Ray cannot be used {where}: {said}. Look into its logs under /tmp/ray."
