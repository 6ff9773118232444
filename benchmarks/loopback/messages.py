"""Large messages to many sites at once: through the transport, and as plain bytes over the same TLS stack.

python -m benchmarks.loopback.messages FOLDER NAME PORT PLAIN_PORT      # one client process, for the benchmark
"""

from __future__ import annotations

import ssl
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.loopback.federation import environment, free_port, until
from benchmarks.loopback.plain import PlainServer, fetch_and_bring
from unalike.federation.folders import PUBLIC, Card
from unalike.federation.transport.https.certificates import create_authority, create_site, issue_server
from unalike.federation.transport.https.client import Caller
from unalike.federation.transport.https.server import HttpsServer

MOST = 1 << 28
SMALL, _HEAD = 16, 8


@dataclass(frozen=True)
class Sent:
    """Seconds of each turn, for the same bytes."""

    way: str
    sites: int
    down: int
    up: int
    ours: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)

    def rate(self, seconds: list[float]) -> float:
        """Bytes a second, in the median turn."""
        return self.sites * (self.down + self.up) / statistics.median(seconds)

    @property
    def ratio(self) -> float:
        """Our rate over that of plain bytes, in the median pair of turns."""
        return statistics.median(b / a for a, b in zip(self.ours, self.plain, strict=True))


def exchange_bytes(folder: Path, sites: int, size: int, repeats: int) -> list[Sent]:
    """Messages of ``size`` bytes to all sites, from all sites, and both; turns are taken one after the other."""
    names = [f"site{number:02d}" for number in range(sites)]
    _certificates(folder, names)
    port, plain_port = free_port(), free_port()
    sent = [Sent("to the sites", sites, size, SMALL), Sent("from the sites", sites, SMALL, size)]
    sent.append(Sent("both ways", sites, size, size))
    with ExitStack() as stack:
        server = stack.enter_context(HttpsServer(folder, names, "127.0.0.1", port, MOST))
        other = stack.enter_context(PlainServer(folder / "certificates", plain_port, sites))
        for name in names:
            stack.callback(_end, _client(folder, name, port, plain_port))
        until(lambda: len(server.nodes()) == other.waiting == sites, "a client did not connect")
        for repeat in range(repeats + 1):
            for each in sent:
                question = each.up.to_bytes(_HEAD, "big").ljust(each.down, b"\0")
                plain, ours = other.exchange(question), _exchange(server, question, sites, each.up)
                if repeat:
                    each.plain.append(plain)
                    each.ours.append(ours)
    return sent


def _exchange(server: HttpsServer, question: bytes, sites: int, up: int) -> float:
    began = time.perf_counter()
    answers = dict(server.send(dict.fromkeys(range(sites), question), 60.0))
    seconds = time.perf_counter() - began
    if [len(answer) if isinstance(answer, bytes) else answer for answer in answers.values()] != [up] * sites:
        raise SystemExit(f"not all answers came: {answers.keys()}")
    return seconds


def _certificates(folder: Path, names: list[str]) -> None:
    files = folder / "certificates"
    for each in (files, folder / "parties", *(folder / name for name in names)):
        each.mkdir()
    create_authority(files)
    issue_server(files, ["127.0.0.1"])
    sites = []
    for number, name in enumerate(names):
        sites.append(create_site(folder / name / "node.key", folder / name / "node.pem", name))
        Card(name, f"{number:064x}", sites[-1]).write(folder / "parties" / f"{name}{PUBLIC}")
    (files / "sites.pem").write_text("".join(sites), encoding="ascii")


def _client(folder: Path, name: str, *numbers: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.loopback.messages", str(folder), name, *map(str, numbers)]
    return subprocess.Popen(command, env=environment())


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def main() -> None:
    """Be one client of both servers, until killed; a message says how long its answer shall be."""
    folder, name, port, plain_port = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])
    authority, own = folder / "certificates" / "ca.pem", (folder / name / "node.pem", folder / name / "node.key")
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(*own)
    answers: dict[int, bytes] = {}

    def answer(question: bytes) -> bytes:
        size = int.from_bytes(question[:_HEAD], "big")
        return answers.setdefault(size, bytes(size))

    threading.Thread(target=fetch_and_bring, args=(plain_port, context, answer), daemon=True).start()
    with Caller(f"127.0.0.1:{port}", authority, *own, MOST) as caller:
        caller.answer(answer)


if __name__ == "__main__":
    main()
