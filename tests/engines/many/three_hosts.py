"""Three hosts on this machine: network namespaces on a bridge of their own, each with its own Ray. Root, Linux."""

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path

HOSTS = ("head", "a", "b")
PORT = 6379
SLOW = 120
"""Seconds that a start may take on a busy machine."""


def works_here():
    """Whether namespaces can be made."""
    if os.geteuid() or shutil.which("ip") is None:
        return False
    name = f"un{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True)
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return made.returncode == 0


class ThreeHosts:
    """A bridge and three hosts; the addresses are 10.77.0.1 to 3, in namespaces where nothing else is."""

    def __init__(self, folder):
        self.folder, self.tag, self.processes = Path(folder), f"un{os.getpid() % 10000}", []
        token = self.folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        self.env = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "RAY_enable_metrics_collection": "0",
            "RAY_memory_monitor_refresh_ms": "0",
            "RAY_health_check_initial_delay_ms": "0",
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_timeout_ms": "2000",
            "RAY_health_check_failure_threshold": "3",
            "OMP_NUM_THREADS": "1",
        }

    def __enter__(self):
        try:
            self._wire()
            for host in HOSTS:
                self._start(host)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error):
        self.close()

    def inside(self, host, *command):
        """The command, in a host."""
        return ["ip", "netns", "exec", f"{self.tag}{host}", *command]

    def pids(self, host):
        """The processes of a host."""
        shown = subprocess.run(["ip", "netns", "pids", f"{self.tag}{host}"], capture_output=True, text=True)
        return [int(pid) for pid in shown.stdout.split()]

    def answers(self, host):
        """Whether a worker on the host answers a block just now: Ray names processes by their call."""
        for pid in self.pids(host):
            with contextlib.suppress(OSError):
                if b"BlockWorker.answer" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return True
        return False

    def kill(self, host):
        """kill -9 of everything on a host, and of nothing else."""
        for pid in self.pids(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)

    def cut(self, host):
        """Take a host's cable out."""
        self._ip("netns", "exec", f"{self.tag}sw", "ip", "link", "set", f"p{host}", "down")

    def close(self):
        for host in HOSTS:
            self.kill(host)
        for process in self.processes:
            process.wait()
        for name in (*HOSTS, "sw"):
            subprocess.run(["ip", "netns", "del", f"{self.tag}{name}"], capture_output=True)

    def run(self, runs, *options):
        """``unalike run`` on the head, as a process."""
        command = [sys.executable, "-m", "unalike", "run", "--runs", str(runs), "--quiet", "--json", *options]
        cluster = ["--cluster", f"10.77.0.1:{PORT}"]
        out = subprocess.PIPE
        return subprocess.Popen(
            self.inside("head", *command, *cluster), env=self.env, stdout=out, stderr=out, text=True
        )

    def _ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def _wire(self):
        sw = f"{self.tag}sw"
        self._ip("netns", "add", sw)
        self._ip("netns", "exec", sw, "ip", "link", "add", "br0", "type", "bridge")
        self._ip("netns", "exec", sw, "ip", "link", "set", "br0", "up")
        for number, host in enumerate(HOSTS, start=1):
            name = f"{self.tag}{host}"
            self._ip("netns", "add", name)
            self._ip("netns", "exec", name, "ip", "link", "set", "lo", "up")
            self._ip(
                "link", "add", f"v{host}", "netns", name, "type", "veth", "peer", "name", f"p{host}", "netns", sw
            )
            self._ip("netns", "exec", sw, "ip", "link", "set", f"p{host}", "master", "br0")
            self._ip("netns", "exec", sw, "ip", "link", "set", f"p{host}", "up")
            self._ip("netns", "exec", name, "ip", "addr", "add", f"10.77.0.{number}/24", "dev", f"v{host}")
            self._ip("netns", "exec", name, "ip", "link", "set", f"v{host}", "up")

    def _start(self, host):
        number = HOSTS.index(host) + 1
        where = ["--head", f"--port={PORT}", "--include-dashboard=false"] if host == "head" else []
        where = where or [f"--address=10.77.0.1:{PORT}"]
        log = self.folder / f"{host}.log"
        command = [
            sys.executable,
            "-c",
            "from ray.scripts.scripts import main; main()",
            "start",
            *where,
            f"--node-ip-address=10.77.0.{number}",
        ]
        command += [f"--temp-dir={self.folder / host}", "--num-cpus=1", "--num-gpus=0", "--disable-usage-stats"]
        command += ["--object-store-memory=200000000", "--block"]
        with log.open("w") as out:
            self.processes.append(
                subprocess.Popen(self.inside(host, *command), env=self.env, stdout=out, stderr=out)
            )
        until = time.monotonic() + SLOW
        while "Ray runtime started" not in log.read_text():
            if time.monotonic() > until or self.processes[-1].poll() is not None:
                raise RuntimeError(f"Ray did not start on {host}: {log.read_text()[-800:]}")
            time.sleep(0.1)
