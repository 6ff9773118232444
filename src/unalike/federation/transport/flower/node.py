"""A site's node: Flower's process, kept running against the server's public address."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import Timeout

from unalike.errors import UserError
from unalike.federation.transport.flower.certificates import public_key, split_address, why_unreachable
from unalike.federation.transport.flower.processes import BackOff, Child, Keeper, free_port, refuse_windows
from unalike.runs.files import atomic_write, file_lock, private_folder

CONNECTED = "connected"
_LOST = "connection lost: trying again"
_NODE_ID = re.compile(r"SuperNode ID: (\d+)")
_TRYING, _AGAIN = "Connection attempt failed", "Connection successful after"
"""What Flower's node writes when the server does not answer any more, and when it does."""


class Node:
    """Keeps the site in ``folder`` connected to the federation at ``address``; messages go through ``door_path``.

    ``tell`` gets one line whenever the state changes, from another thread.
    """

    def __init__(
        self,
        folder: Path,
        address: str,
        door_path: str,
        key: Path,
        root_certificate: Path,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        refuse_windows()
        split_address(address)
        public_key(key)
        self._folder, self._address, self._door = folder.resolve(), address, door_path
        self._key, self._root = key.resolve(), root_certificate.resolve()
        self._tell = tell
        self.state = "not started"
        self._child: Child | None = None
        self._judged, self._node_id, self._read = False, "", -1
        self._back_off = BackOff(first=1.0, last=15.0, good=60.0)
        self._keeper = Keeper(self._look)

    def __enter__(self) -> Self:
        private_folder(self._folder)
        self._lock = file_lock(self._folder / ".node.lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise UserError(f"This site has joined already, in another process ({self._folder}).") from error
        atomic_write(self._folder / "secret", secrets.token_bytes(32), private=True)
        self._start()
        self._keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keeper.close()
        if self._child is not None:
            self._child.stop()
        self._set("left")
        self._lock.release()

    @property
    def pid(self) -> int | None:
        """The process id of Flower's node; None while it is being started again."""
        return self._child.pid if self._child else None

    def wait_until_connected(self, seconds: float) -> bool:
        """Whether the node is connected, after at most this long."""
        end = time.monotonic() + seconds
        while self.state != CONNECTED and time.monotonic() < end:
            time.sleep(0.05)
        return self.state == CONNECTED

    def _start(self) -> None:
        arguments = ["--address", self._address, "--root-certificate", str(self._root), "--key", str(self._key)]
        arguments += ["--door", self._door, "--folder", str(self._folder), "--port", str(free_port())]
        log = self._folder / "node.log"
        self._child = Child(
            "unalike.federation.transport.flower.courier:main", arguments, self._folder / "home", log
        )
        self._child.start()
        self._back_off.started()
        self._judged, self._node_id, self._read = False, "", -1
        if self.state == "not started":
            self._set("connecting")

    def _look(self) -> None:
        child = self._child
        assert child is not None
        if child.alive:
            child.limit_log()
            self._see_connection(child)
            return
        if not self._judged:
            self._judged = True
            self._set(self._why(child))
        if self._back_off.due():
            self._start()

    def _see_connection(self, child: Child) -> None:
        size = child.log.stat().st_size
        if size == self._read:
            return  # it has said nothing new
        self._read = size
        output = child.output()
        found = _NODE_ID.search(output)
        if found and found[1] != self._node_id:
            self._node_id = found[1]
            atomic_write(self._folder / "node-id", found[1].encode(), private=True)
        if output.rfind(_TRYING) > output.rfind(_AGAIN):
            self._set(_LOST if self._node_id else "unreachable: trying again")
        elif found or self.state == _LOST:
            self._set(CONNECTED)

    def _why(self, child: Child) -> str:
        """One line for an end: what the server said, or why it could not be reached."""
        output = child.output()
        reason = why_unreachable(self._address, self._root)
        if reason is not None:
            return f"unreachable: {reason}"
        if "earlier lease: status 401" in output:
            return "refused: the server does not know this site's key any more"
        if "code: 2004" in output:
            if (self._folder / "node-id").exists():
                return "refused: an earlier connection of this site has not ended yet"
            return "refused: key not admitted yet"
        if "Unauthorized" in output or "401" in output:
            return "refused: the server did not accept this site's key, or the clocks differ"
        return "ended: Flower's node stopped and is started again"

    def _set(self, state: str) -> None:
        if state != self.state:
            self.state = state
            self._tell(state)
