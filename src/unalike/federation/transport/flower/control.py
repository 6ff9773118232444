"""Commands to a running link, over its control API on loopback: admit a key, submit, look at and stop a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from unalike.errors import UserError
from unalike.federation.transport.flower.bundle import build_bundle
from unalike.federation.transport.flower.certificates import normalised_public_key

if TYPE_CHECKING:
    from flwr.supercore.control import ControlHttpClient

CERTIFICATES = "certificates"
WORK = "flower"
"""The folder, within the federation's, of the link's own files."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class RunState:
    """Where a run is.

    ``status`` is pending, starting, running or finished, and ``outcome`` then completed, failed or stopped.
    """

    status: str
    outcome: str
    details: str


class Control:
    """Commands for the link that runs in ``folder``, from any process of its owner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def admit(self, public_key_pem: bytes) -> int:
        """Allow the node with this key; its node id. Admitting it again changes nothing."""
        from flwr.proto.control_pb2 import RegisterNodeRequest

        key = normalised_public_key(public_key_pem)
        with self._client() as client:
            known = self._known(client)
            if key in known:
                return known[key]
            request = RegisterNodeRequest(public_key=key)
            return int(_call(lambda: client.RegisterNode(request), "admit the node").node_id)

    def expel(self, public_key_pem: bytes) -> None:
        """Allow the node with this key no more; nothing where it was not allowed."""
        from flwr.proto.control_pb2 import UnregisterNodeRequest

        key = normalised_public_key(public_key_pem)
        with self._client() as client:
            known = self._known(client)
            if key in known:
                request = UnregisterNodeRequest(node_id=known[key])
                _call(lambda: client.UnregisterNode(request), "expel the node")

    def expel_others(self, public_keys_pem: Iterable[bytes]) -> None:
        """Allow no node but those with these keys."""
        kept = {normalised_public_key(key) for key in public_keys_pem}
        with self._client() as client:
            strangers = self._known(client).keys() - kept
        for key in strangers:
            self.expel(key)

    def submit(self) -> int:
        """Start a run: the server's logic begins within a second. The run's id."""
        from flwr.common.serde import fab_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        name, content = build_bundle()
        with self._client() as client:
            request = StartRunRequest(fab=fab_to_proto(Fab(name, content, {})))
            run_id = int(_call(lambda: client.StartRun(request), "start a run").run_id)
        if not run_id:
            raise UserError("The link did not start a run: its log in flower/link.log says why.")
        return run_id

    def state(self, run_id: int) -> RunState:
        """How far a run is: whether it waits, runs or has ended, and how it ended."""
        from flwr.proto.control_pb2 import ListRunsRequest

        with self._client() as client:
            request = ListRunsRequest(run_id=run_id)
            status = _call(lambda: client.ListRuns(request), f"look at run {run_id}").run_dict[run_id].status
        return RunState(status.status, status.sub_status, status.details)

    def stop(self, run_id: int) -> None:
        """Stop a run; nothing where it has ended already."""
        from flwr.proto.control_pb2 import StopRunRequest

        if self.state(run_id).status != "finished":
            with self._client() as client:
                _call(lambda: client.StopRun(StopRunRequest(run_id=run_id)), f"stop run {run_id}")

    def _known(self, client: ControlHttpClient) -> dict[bytes, int]:
        """The node ids of the keys that are allowed."""
        from flwr.proto.control_pb2 import ListNodesRequest

        listed = _call(lambda: client.ListNodes(ListNodesRequest()), "list the nodes")
        return {
            bytes(node.public_key): int(node.node_id)
            for node in listed.nodes_info
            if node.status != "unregistered"
        }

    @contextmanager
    def _client(self) -> Iterator[ControlHttpClient]:
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

        address = f"127.0.0.1:{self._port()}"
        certificate = (self.folder / CERTIFICATES / "ca.pem").read_bytes()
        guards = [RuntimeVersionHttpInterceptor(component_name="CLI")]
        client = ControlHttpClient.from_server_address(address, False, certificate, guards)
        try:
            yield client
        finally:
            client.close()

    def _port(self) -> int:
        try:
            return int(json.loads((self.folder / WORK / "link.json").read_text())["port"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"No link runs in {self.folder}: start it with `unalike federation serve`.") from error


def _call(call: Callable[[], Answer], what: str) -> Answer:
    """The answer, or one line that says what could not be done and why."""
    import httpx
    from flwr.supercore.error import FlowerError

    try:
        return call()
    except httpx.HTTPStatusError as error:
        known = FlowerError.from_json(error.response.text)
        reason = known.message if known else f"status {error.response.status_code}"
        raise UserError(f"Cannot {what}: {reason}") from error
    except httpx.HTTPError as error:
        raise UserError(
            f"Cannot {what}: the link does not answer ({error}). Is `unalike federation serve` running?"
        ) from error
