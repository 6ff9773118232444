"""The server's processes: Flower's link on loopback, the runner that carries out runs, and the proxy in front."""

from __future__ import annotations

import json
import logging
import secrets
import ssl
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import Timeout

from unalike.errors import UserError
from unalike.federation.transport.flower.bundle import write_bundle
from unalike.federation.transport.flower.certificates import check_server, split_address, why_unreachable
from unalike.federation.transport.flower.control import CERTIFICATES, WORK, Control, RunState
from unalike.federation.transport.flower.nginx import nginx_configuration
from unalike.federation.transport.flower.processes import BackOff, Child, Keeper, free_port, refuse_windows
from unalike.federation.transport.flower.server_app import DEFAULT_SERVE, FOLDER, SERVE
from unalike.runs.files import atomic_write, file_lock, private_folder

log = logging.getLogger("unalike.federation")

__all__ = ["Control", "Link", "RunState"]

_START_SECONDS = 90.0


class Link(Control):
    """The federation's server in ``folder``, reachable for sites at ``address`` (host:port).

    ``folder / certificates`` holds ca.pem, server.pem, server.key; ``folder / flower`` gets the link's own files
    and logs. ``listen`` is where the proxy listens, where that is not the address's own host (0.0.0.0 behind a
    firewall). ``serve`` names the server's logic.
    """

    def __init__(self, folder: Path, address: str, listen: str | None = None, serve: str = DEFAULT_SERVE) -> None:
        refuse_windows()
        super().__init__(folder.resolve())
        self.address = address
        self._host, self._public_port = split_address(address)
        self._listen = listen or self._host
        self._serve = serve
        self._waiting: list[bytes] = []
        self._children: dict[str, tuple[Child, BackOff]] = {}
        self._keeper: Keeper | None = None
        self._lock = file_lock(self.folder / ".link.lock")

    def __enter__(self) -> Self:
        left = check_server(self.folder / CERTIFICATES, self._host)
        if left.days < 30:
            log.warning(
                "the server's certificate expires in %d days; with ca.key there, serve renews it", left.days
            )
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise UserError(f"Another process serves {self.folder}: stop it first.") from error
        try:
            self._start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def admit(self, public_key_pem: bytes) -> int:
        """Allow the node with this key; its node id, or 0 before the link runs: then it is done at start."""
        if self._keeper is None:
            self._waiting.append(public_key_pem)
            return 0
        return super().admit(public_key_pem)

    def processes(self) -> dict[str, int | None]:
        """The process ids of link, runner and proxy; None for one that is being started again."""
        return {name: child.pid for name, (child, _) in self._children.items()}

    def _start(self) -> None:
        work = self.folder / WORK
        private_folder(work)
        write_bundle(work)
        atomic_write(work / "secret", secrets.token_bytes(32), private=True)
        port = free_port()
        about = {"port": port, "address": self.address}
        atomic_write(work / "link.json", json.dumps(about).encode(), private=True)
        upstream = f"https://127.0.0.1:{port}"
        nginx = nginx_configuration(self._host, self._public_port, upstream, self.folder / CERTIFICATES)
        atomic_write(work / "nginx.conf", nginx.encode())
        self._make_children(work, port, upstream)
        self._begin("link")
        self._wait_for_health(upstream)
        self._begin("runner")
        self._begin("proxy")
        self._wait_for_proxy()
        self._keeper = Keeper(self._look)
        self._keeper.start()
        while self._waiting:
            self.admit(self._waiting.pop())

    def _make_children(self, work: Path, port: int, upstream: str) -> None:
        certificates = self.folder / CERTIFICATES
        secret = ["--superexec-auth-secret-file", str(work / "secret")]
        link = ["--host", "127.0.0.1", "--port", str(port), "--database", str(work / "state.db"), *secret]
        link += [
            "--ssl-ca-certfile",
            str(certificates / "ca.pem"),
            "--ssl-certfile",
            str(certificates / "server.pem"),
        ]
        link += [
            "--ssl-keyfile",
            str(certificates / "server.key"),
            "--enable-supernode-auth",
            "--isolation",
            "process",
        ]
        runner = ["--port", str(port), "--secret", str(work / "secret")]
        runner += ["--root-certificate", str(certificates / "ca.pem")]
        proxy = ["--listen", self._listen, "--port", str(self._public_port), "--upstream", upstream]
        proxy += ["--certificates", str(certificates)]
        ours = "unalike.federation.transport.flower"
        own = {FOLDER: str(self.folder), SERVE: self._serve}
        entries: dict[str, tuple[str, list[str], dict[str, str]]] = {
            "link": ("flwr.superlink.cli.flower_superlink:flower_superlink", link, {}),
            "runner": (f"{ours}.runner:main", runner, own),
            "proxy": (f"{ours}.proxy:main", proxy, {}),
        }
        for name, (entry, arguments, extra) in entries.items():
            child = Child(entry, arguments, work / "home", work / f"{name}.log", **extra)
            self._children[name] = (child, BackOff(first=0.5))

    def _begin(self, name: str) -> None:
        child, back_off = self._children[name]
        child.start()
        back_off.started()

    def _look(self) -> None:
        """Start again what has died."""
        for name, (child, back_off) in self._children.items():
            if child.alive:
                child.limit_log()
            elif back_off.due():
                log.warning("the federation's %s ended and is started again", name)
                self._begin(name)

    def _wait_for_health(self, upstream: str) -> None:
        child, _ = self._children["link"]
        trusted = ssl.create_default_context(cafile=str(self.folder / CERTIFICATES / "ca.pem"))
        direct = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)
        )
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and child.alive:
            try:
                with direct.open(f"{upstream}/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.1)
        raise UserError(f"Flower's link did not start: {_last_line(child)} ({child.log})")

    def _wait_for_proxy(self) -> None:
        child, _ = self._children["proxy"]
        reach = self.address if self._listen == self._host else f"127.0.0.1:{self._public_port}"
        end = time.monotonic() + _START_SECONDS
        reason: str | None = "it ended"
        while time.monotonic() < end and child.alive:
            reason = why_unreachable(reach, self.folder / CERTIFICATES / "ca.pem")
            if reason is None:
                return
            time.sleep(0.1)
        raise UserError(f"The proxy at {self.address} did not start ({reason}): {_last_line(child)} ({child.log})")

    def _close(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None
        for name in ("proxy", "runner", "link"):
            if name in self._children:
                self._children[name][0].let_go()
        for child, _ in self._children.values():
            child.stop()
        self._children = {}
        (self.folder / WORK / "link.json").unlink(missing_ok=True)
        self._lock.release()


def _last_line(child: Child) -> str:
    lines = child.output().strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"
