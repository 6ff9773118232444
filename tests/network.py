"""Hosts on one machine: network namespaces behind a bridge, each with a Ray node. Needs root and ``ip netns``."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

PORT = 6379


def _works():
    """Whether a namespace can be made here."""
    if not hasattr(os, "geteuid") or os.geteuid() or shutil.which("ip") is None:
        return False
    name = f"un-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return made


needs_namespaces = pytest.mark.skipif(not _works(), reason="needs root and ip netns")


class Hosts:
    """Hosts of these names, the first of which is the head; ends all that it started."""

    def __init__(self, *names):
        self._tag = f"un{os.getpid() % 10_000}"
        self.names = names
        self._begun = {name: [] for name in names}
        self.folder = Path(tempfile.mkdtemp(prefix="un-", dir="/tmp"))  # sockets have short names
        token = self.folder / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "RAY_enable_metrics_collection": "0",
            "RAY_memory_monitor_refresh_ms": "0",
            "RAY_health_check_initial_delay_ms": "0",
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_timeout_ms": "10000",
            "RAY_health_check_failure_threshold": "3",
        }

    def _space(self, name):
        return f"{self._tag}{name}"

    def _ip(self, *words, within=None):
        where = ["ip", "netns", "exec", self._space(within)] if within else []
        subprocess.run([*where, "ip", *words], check=True, capture_output=True)

    def __enter__(self):
        try:
            self._ip("netns", "add", self._space("sw"))
            self._ip("link", "add", "br0", "type", "bridge", within="sw")
            self._ip("link", "set", "br0", "up", within="sw")
            for number, name in enumerate(self.names, 1):
                space, switch = self._space(name), self._space("sw")
                self._ip("netns", "add", space)
                self._ip("link", "set", "lo", "up", within=name)
                ends = [f"v{name}", "netns", space, "type", "veth", "peer", "name", f"p{name}", "netns", switch]
                self._ip("link", "add", *ends)
                self._ip("link", "set", f"p{name}", "master", "br0", within="sw")
                self._ip("link", "set", f"p{name}", "up", within="sw")
                self._ip("addr", "add", f"10.77.0.{number}/24", "dev", f"v{name}", within=name)
                self._ip("link", "set", f"v{name}", "up", within=name)
        except BaseException:
            self.__exit__()
            raise
        return self

    @property
    def address(self):
        return f"10.77.0.1:{PORT}"

    def start(self, name, *command, **options):
        """A program on a host."""
        words = ["ip", "netns", "exec", self._space(name), *command]
        process = subprocess.Popen(words, env=self.environment, **options)
        self._begun[name].append(process)
        return process

    def start_ray(self, cpus=1):
        """The head, then the others, as soon as it answers."""
        for number, name in enumerate(self.names, 1):
            where = ["--head", f"--port={PORT}", "--include-dashboard=false"]
            self._ray(name, number, *(where if number == 1 else [f"--address={self.address}"]), cpus=cpus)
            if number == 1:
                self._wait_for("Ray runtime started", name)
        for name in self.names[1:]:
            self._wait_for("Ray runtime started", name)

    def _ray(self, name, number, *where, cpus):
        with (self.folder / f"{name}.log").open("w") as log:
            self.start(
                name,
                str(Path(sys.executable).with_name("ray")),
                "start",
                *where,
                f"--node-ip-address=10.77.0.{number}",
                f"--temp-dir={self.folder / name}",
                f"--num-cpus={cpus}",
                "--num-gpus=0",
                "--object-store-memory=100000000",
                "--disable-usage-stats",
                "--block",
                stdout=log,
                stderr=log,
            )

    def _wait_for(self, words, name):
        log, end = self.folder / f"{name}.log", time.monotonic() + 120
        while words not in log.read_text():
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)

    def kill(self, name):
        """The host dies: all of its processes, and no other."""
        found = subprocess.run(
            ["ip", "netns", "pids", self._space(name)], capture_output=True, text=True, check=False
        )
        for pid in map(int, found.stdout.split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def cut(self, name):
        """Its cable is cut."""
        self._ip("link", "set", f"p{name}", "down", within="sw")

    def __exit__(self, *error):
        for name in self.names:
            self.kill(name)
            for process in self._begun[name]:
                process.wait()
        for name in (*self.names, "sw"):
            subprocess.run(["ip", "netns", "del", self._space(name)], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
