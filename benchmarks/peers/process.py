"""A worker process and, for a peer, its environment."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import torch

ROOT = Path(__file__).parents[2]
SECONDS = 3600
"""The longest that a worker may take to answer."""


class Failed(Exception):
    """Why a peer cannot take part, in one line."""


@dataclass(frozen=True)
class Peer:
    """A package that plays the same rounds."""

    name: str
    module: str
    packages: tuple[str, ...]

    def python(self) -> str:
        """The interpreter of the peer's environment, which is made if it is not there."""
        torch_ = f"torch=={torch.__version__.split('+')[0]}"  # the same as ours
        folder = platformdirs.user_cache_path("unalike-bench") / self.name
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        done = folder / "installed"
        wanted = " ".join((torch_, *self.packages))
        if done.exists() and done.read_text(encoding="utf-8") == wanted:
            return str(python)
        print(f"Installing {self.name} into an environment of its own, once.", file=sys.stderr, flush=True)
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        for packages in ((torch_, "numpy"), self.packages):  # torch first, so that nothing brings another one
            _run([str(python), "-m", "pip", "install", "--quiet", *packages])
        done.write_text(wanted, encoding="utf-8")
        return str(python)

    def start(self, job: Mapping[str, Any]) -> Worker:
        """The peer at work on a job."""
        return Worker([self.python(), "-m", self.module], job)


PEERS = (
    Peer("pfl", "benchmarks.peers.pfl_worker", ("pfl",)),
    Peer("flower", "benchmarks.peers.flower_worker", ("flwr[simulation]", "psutil")),
)


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise Failed(_last(error.stderr or error.stdout) or "cannot be installed") from None
    except OSError as error:
        raise Failed(str(error)) from None


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [""])[-1][:200]


class Worker:
    """A process that answers lines (:mod:`benchmarks.peers.worker`)."""

    def __init__(self, command: list[str], job: Mapping[str, Any]) -> None:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
            env={**os.environ, **quiet, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
            start_new_session=True,
        )
        try:
            self.version = str(self.ask(job)["version"])
        except Failed:
            self.close()
            raise

    def ask(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Send a line, and wait for the answer."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = ""
        finally:
            timer.cancel()
        if not answer:
            self._log.seek(0)
            raise Failed(_last(self._log.read()) or "ended without an answer")
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> None:
        """Let it end, or end it and what it has started."""
        process = self._process
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            if os.name == "posix":
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
        self._log.close()
