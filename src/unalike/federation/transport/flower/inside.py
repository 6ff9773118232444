"""Every use of Flower that is not in its public API, in one place.

Flower's own executors install and run the app bundle that the server sends. Ours take a task's message and never
look at the bundle: a site runs code that it installed itself, whoever has got hold of the server. They also stay
where they are between messages, where Flower starts a new process for each.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import httpx
from flwr.app import Context, Message
from flwr.common.serde import context_from_proto, run_from_proto
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest, PushTaskOutputRequest
from flwr.supercore import heartbeat
from flwr.supercore.constant import TaskType
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity

_ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
_COMPLETED, _FAILED = "completed", "failed"
HEARTBEAT = 10
"""Seconds; Flower's least. A node that vanishes counts as connected for twice as long."""


class TaskDesk:
    """Where tasks of one kind are fetched from, with the secret that says we may."""

    def __init__(
        self, kind: TaskType, address: str, secret: bytes, root_certificates: bytes | None = None
    ) -> None:
        self._kind, self.address, self.root_certificates = kind, address, root_certificates
        guard = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={_ACQUIRE})
        self._client = self._connect([RuntimeVersionHttpInterceptor(component_name="SuperExec"), guard])

    def acquire(self) -> str | None:
        """The token of the next task, if there is one."""
        request = AcquireTaskRequest(supported_task_types=[self._kind])
        return self._client.AcquireTask(request).token or None

    def client(self, token: str, component: str) -> RuntimeHttpClient:
        """A client that may do what the task with this token needs."""
        return self._connect(
            [RuntimeVersionHttpInterceptor(component_name=component), RuntimeTokenHttpInterceptor(token)]
        )

    def _connect(self, interceptors: list[Any]) -> RuntimeHttpClient:
        return RuntimeHttpClient.from_server_address(
            self.address,
            self.root_certificates is None,
            self.root_certificates,
            interceptors,
            retry_invoker=make_simple_http_retry_invoker(),
        )


def answer_task(desk: TaskDesk, token: str, app: Callable[[Message, Context], Message]) -> None:
    """Carry out one client task: fetch the message, give it to ``app``, push the reply."""
    from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

    client = desk.client(token, "flwr-clientapp")
    try:
        with _beating(client):
            message, context, _, _ = pull_task_input(client)  # the last is the bundle: not unpacked
            push_message(client, app(message, context), context)
            push_task_output(client, context, _COMPLETED, "")
    finally:
        client.close()


def serve_task(desk: TaskDesk, token: str, app: Callable[[Any, Context], None]) -> None:
    """Carry out one server task: run ``app`` with a grid, and report how it ended."""
    from flwr.superlink.grid.http_grid import HttpGrid

    grid = HttpGrid(desk.address, desk.root_certificates is None, desk.root_certificates, token=token)
    client = grid._runtime_client
    outcome, details = _FAILED, "The server's process was stopped."
    try:
        with _beating(client):
            given = client.PullTaskInput(PullTaskInputRequest())
            TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
            TaskIdentity.node_id = given.context.node_id
            grid.set_run(run_from_proto(given.run))
            app(grid, context_from_proto(given.context))
        outcome, details = _COMPLETED, ""
    except Exception as error:
        details = f"{type(error).__name__}: {error}"[:1000]
        raise
    finally:
        grid._retry_invoker.max_tries = 1
        try:
            client.PushTaskOutput(PushTaskOutputRequest(context=None, sub_status=outcome, details=details))
        except Exception as error:  # a stopped run takes no output
            print(f"outcome not reported: {error}", flush=True)
        grid.close()


@contextmanager
def _beating(client: RuntimeHttpClient) -> Iterator[None]:
    """Tell the desk that the task is worked on. When the desk says that it is void, SIGINT is raised here."""
    sender = heartbeat.HeartbeatSender(heartbeat.make_task_heartbeat_fn_http(client))
    sender.start()
    try:
        yield
    finally:
        if sender.is_running:
            sender.stop()


class Pace:
    """Takes the place of the module ``time`` in Flower's node loop, which sleeps 3 s whenever it finds no message.

    After a message it looks more often, and then less and less: a wait adds a tenth to what it waits for.
    ``work`` is set while the loop waits for the answer to a message.
    """

    def __init__(self) -> None:
        self.work = threading.Event()
        self._last = time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait, for less time than Flower asks for while messages come; called in place of ``time.sleep``."""
        if seconds < 1.0:
            self.work.set()
            self._last = time.monotonic()
            time.sleep(0.1)
        else:
            self.work.clear()
            idle = time.monotonic() - self._last
            time.sleep(min(seconds, max(0.3, idle / 10)))


def quicken_heartbeat() -> None:
    """Notice sooner that a run was stopped."""
    _replace(heartbeat, "HEARTBEAT_DEFAULT_INTERVAL", HEARTBEAT)


def quicken_node() -> Pace:
    """Make the node in this process look for messages more often and be missed sooner. Neither has an option."""
    from flwr.supernode import fleet_http_connection, start_client_internal

    pace = Pace()
    quicken_heartbeat()
    _replace(fleet_http_connection, "HEARTBEAT_DEFAULT_INTERVAL", HEARTBEAT)
    _replace(start_client_internal, "time", pace)
    return pace


def end_with_a_void_run() -> None:
    """End this process when a run ends while its message is being fetched; the site starts it again.

    Flower's node then forgets the message but not the task that waits for it: the courier would wait two hours.
    """
    from flwr.supernode import start_client_internal

    fetch = vars(start_client_internal)["pull_objects"]

    def pull_objects(*arguments: Any, **options: Any) -> Any:
        try:
            return fetch(*arguments, **options)
        except Exception:  # the node tidies up after these
            raise
        except BaseException as error:
            print(f"the run ended while its message came: {type(error).__name__}", file=sys.stderr, flush=True)
            os._exit(1)

    _replace(start_client_internal, "pull_objects", pull_objects)


def _replace(module: ModuleType, name: str, value: object) -> None:
    if not hasattr(module, name):
        raise RuntimeError(
            f"this version of Flower has no {module.__name__}.{name}: use one that the extra allows"
        )
    setattr(module, name, value)


def say_goodbye(address: str, root_certificate: str, key: Any, node_id: int) -> int:
    """End the lease of this key's earlier process, which was killed; else its successor is refused for 20 s.

    The answer is the HTTP status: 401 says that the server does not know the key.
    """
    from flwr.proto.fleet_pb2 import DeactivateNodeRequest
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    guards: list[Any] = [
        RuntimeVersionHttpInterceptor(component_name="SuperNode"),
        NodeAuthHttpInterceptor(key, key.public_key()),
    ]
    with FleetHttpClient.from_server_address(address, False, root_certificate, interceptors=guards) as client:
        try:
            client.DeactivateNode(DeactivateNodeRequest(node_id=node_id))
        except httpx.HTTPStatusError as error:
            return error.response.status_code
    return 200
