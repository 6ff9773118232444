"""Whether a server or a site is well, and its figures, for programs that watch it: HTTP on this machine alone.

``/healthz`` answers 200 where all is well, else 503 with the reasons; ``/metrics`` is Prometheus' text format.
Both are read from the folder's files at every request, and never tell more than ``status`` does.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import unalike
from unalike.errors import UserError
from unalike.federation.folders import AT_DOOR, JOBS, ServerFolder
from unalike.federation.making import is_server
from unalike.federation.overview import server_overview, site_overview
from unalike.federation.transport.https.client import CONNECTED

HOST = "127.0.0.1"
LEAST_SPACE = 100 * 10**6
"""With fewer bytes free on the folder's disk, it is as good as full."""
_SECONDS = 5.0
"""How long a request may take to arrive."""
Samples = Mapping[str, float | None]


def health(folder: Path) -> dict[str, Any]:
    """Whether the server or site in the folder is well: ``status`` is ok, or there are ``problems``."""
    try:
        problems = _server_problems(folder) if is_server(folder) else _site_problems(folder)
        problems += _disk_problems(folder)
    except (UserError, OSError) as error:
        problems = [str(error)]
    return {"status": "not ok" if problems else "ok", "problems": problems}


def _server_problems(folder: Path) -> list[str]:
    found = server_overview(folder)
    problems = [] if found["serving"] else ["the server is not running"]
    if found["outcome"] in ("failed", "refused", "put off"):
        job = JOBS[ServerFolder(folder).job()][0]
        problems.append(f"the {job} {found['outcome']}: {found['reason']}")
    if found["waiting"] and found["training"]:
        problems.append(f"the training waits for {', '.join(found['waiting'])}")
    return problems + ([f"damaged: {found['damaged']}"] if found["damaged"] else [])


def _site_problems(folder: Path) -> list[str]:
    found = site_overview(folder, check=False)
    if not found["joined"]:
        return ["the site has not joined: no process answers for it"]
    return (
        []
        if found["connection"] in (CONNECTED, AT_DOOR)
        else [f"not connected: {found['connection'] or 'never was'}"]
    )


def _disk_problems(folder: Path) -> list[str]:
    free = shutil.disk_usage(folder).free
    problems = [f"the disk is full: {free:,} bytes are left"] if free < LEAST_SPACE else []
    return problems if os.access(folder, os.W_OK) else [*problems, "the folder cannot be written to"]


def metrics(folder: Path) -> str:
    """The folder's figures in Prometheus' text format."""
    well, free = health(folder)["status"] == "ok", shutil.disk_usage(folder).free
    text = _family("healthy", "gauge", "Whether /healthz answers ok.", {"": well})
    text += _family("disk_free_bytes", "gauge", "Bytes that are free on the folder's disk.", {"": free})
    return text + (_server_metrics(folder) if is_server(folder) else _site_metrics(folder))


def _server_metrics(folder: Path) -> str:
    found = server_overview(folder)
    sites = {_label("site", party["name"]): party for party in found["parties"]}

    def by_site(key: str) -> Samples:
        return {label: party[key] for label, party in sites.items()}

    about = _label("federation", found["federation"]) + "," + _label("version", unalike.__version__)
    privacy = found["privacy"] or {}
    return "".join(
        [
            _family("server_info", "gauge", "What this server is; always 1.", {about: 1}),
            _family("rounds_total", "counter", "Rounds that are done.", {"": found["round"]}),
            _family("rounds_planned", "gauge", "Rounds that the plan has.", {"": found["rounds"]}),
            _family("training", "gauge", "Whether a training or measuring is under way.", {"": found["training"]}),
            _family(
                "waiting_sites", "gauge", "Sites that a paused training waits for.", {"": len(found["waiting"])}
            ),
            _family(
                "remaining_seconds", "gauge", "Time for the rounds that are left.", {"": found["seconds_left"]}
            ),
            _family(
                "epsilon", "gauge", "Privacy loss so far, at the delta of the plan.", {"": privacy.get("epsilon")}
            ),
            _family("site_admitted", "gauge", "Whether the site is admitted.", by_site("admitted")),
            _family("site_answers_total", "counter", "Exchanges that the site answered.", by_site("answers")),
            _family(
                "site_answer_seconds", "gauge", "The site's slowest answer of the last round.", by_site("seconds")
            ),
            _family("site_received_bytes_total", "counter", "Bytes that came from the site.", by_site("bytes_up")),
            _family("site_sent_bytes_total", "counter", "Bytes that went to the site.", by_site("bytes_down")),
            _family("site_update_norm", "gauge", "The l2 norm of the site's last update.", by_site("norm")),
        ]
    )


def _site_metrics(folder: Path) -> str:
    found = site_overview(folder, check=False)
    count, came, went = found["messages"], _label("way", "in"), _label("way", "out")
    about = ",".join(
        [
            _label("federation", found["federation"]),
            _label("site", found["party"]),
            _label("version", unalike.__version__),
        ]
    )
    last = datetime.fromisoformat(found["last_time"]).timestamp() if found["last_time"] else None
    return "".join(
        [
            _family("site_info", "gauge", "What this site is; always 1.", {about: 1}),
            _family(
                "connected",
                "gauge",
                "Whether the server is reached.",
                {"": found["connection"] in (CONNECTED, AT_DOOR)},
            ),
            _family("messages_total", "counter", "Messages by way.", {came: count["in"], went: count["out"]}),
            _family(
                "message_bytes_total",
                "counter",
                "Bytes of messages by way.",
                {came: count["bytes_in"], went: count["bytes_out"]},
            ),
            _family("refused_messages_total", "counter", "Messages that were refused.", {"": count["refused"]}),
            _family("last_message_timestamp_seconds", "gauge", "When the last message came or went.", {"": last}),
        ]
    )


def _family(name: str, kind: str, help: str, samples: Samples) -> str:
    """The lines of a metric, by the text of its labels; nothing where no value is known."""
    known = {labels: float(value) for labels, value in samples.items() if value is not None}
    lines = [
        f"unalike_{name}{{{labels}}} {value!r}" if labels else f"unalike_{name} {value!r}"
        for labels, value in known.items()
    ]
    return (
        "\n".join([f"# HELP unalike_{name} {help}", f"# TYPE unalike_{name} {kind}", *lines, ""]) if lines else ""
    )


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{escaped}"'


@contextmanager
def monitoring(folder: Path, port: int | None) -> Iterator[int | None]:
    """Answer on this port of the loopback address while entered; port 0 is any that is free. None: not at all."""
    if port is None:
        yield None
        return
    try:
        server = ThreadingHTTPServer((HOST, port), type("Answers", (_Answers,), {"folder": folder}))
    except OSError as error:
        raise UserError(
            f"--monitor {port}: cannot listen there ({error.strerror}). Choose another port."
        ) from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="monitor", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Answers(BaseHTTPRequestHandler):
    """Answers GET, to those who mean this machine: a page in a browser that was led here by a name does not."""

    folder: Path
    timeout = _SECONDS
    server_version, sys_version = "unalike", ""

    def do_GET(self) -> None:
        """Answer one request for health or figures."""
        host = self.headers.get("Host", HOST).rpartition(":")[0] or self.headers.get("Host", HOST)
        if host not in (HOST, "localhost"):
            return self._answer(403, "text/plain", "Ask 127.0.0.1 or localhost.\n")
        if self.path == "/healthz":
            found = health(self.folder)
            return self._answer(
                200 if found["status"] == "ok" else 503, "application/json", json.dumps(found) + "\n"
            )
        if self.path == "/metrics":
            try:
                return self._answer(200, "text/plain; version=0.0.4; charset=utf-8", metrics(self.folder))
            except (UserError, OSError) as error:
                return self._answer(500, "text/plain", f"{error}\n")
        return self._answer(404, "text/plain", "There are /healthz and /metrics.\n")

    def _answer(self, code: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: whoever asks every few seconds would fill the log."""
