"""How much slower rounds get while a crowd holds or opens connections at the federation's port.

Three sites and the server are processes of their own on loopback, as is the crowd: 500 connections from one
address that hold still, dribble their handshake, shake hands with a certificate of their own, or connect anew as
soon as they are thrown out. Blocks of rounds with and without the crowd alternate, so that what else the machine
does falls on both. ``python -m benchmarks.crowd --help`` lists the knobs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import selectors
import socket
import ssl
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path

from unalike.federation.folders import Card
from unalike.federation.transport.https.certificates import create_authority, create_site, issue_server
from unalike.federation.transport.https.client import Caller
from unalike.federation.transport.https.server import HttpsServer

KINDS = ("hold", "dribble", "stranger", "reconnect")
_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""How a handshake begins, for those who never go on."""


def make(folder: Path, names: list[str]) -> None:
    """A server's folder with admitted sites, and each site's own certificate in a folder of its name."""
    for name in ("certificates", "parties", "stranger", *names):
        (folder / name).mkdir()
    create_authority(folder / "certificates")
    issue_server(folder / "certificates", ["127.0.0.1"])
    create_site(folder / "stranger" / "node.key", folder / "stranger" / "node.pem", "stranger")
    for number, name in enumerate(names):
        pem = create_site(folder / name / "node.key", folder / name / "node.pem", name)
        Card(name, f"{number:064x}", pem).write(folder / "parties" / f"{name}.public.json")


def caller(folder: Path, name: str, port: int) -> Caller:
    own = folder / name
    return Caller(
        f"127.0.0.1:{port}", folder / "certificates" / "ca.pem", own / "node.pem", own / "node.key", 1 << 28
    )


def site(folder: Path, name: str, port: int, work: float) -> None:
    """Answer every question with its own bytes, after as much time as training would take."""

    def answer(question: bytes) -> bytes:
        time.sleep(work)
        return question

    with caller(folder, name, port) as own:
        own.answer(answer)


def crowd(kind: str, address: str, port: int, many: int, folder: Path, on: Event) -> None:
    """Be a crowd whenever ``on`` is set."""
    while True:
        on.wait()
        if kind == "stranger":
            with suppress(OSError):
                _strangers(address, port, many, folder, on)
        else:
            _connections(kind, address, port, many, on)


def _connections(kind: str, address: str, port: int, many: int, on: Event) -> None:
    """Open so many connections, and in place of each that ends another one if the kind is to reconnect."""
    selector = selectors.DefaultSelector()

    def call() -> None:
        one = socket.socket()
        one.setblocking(False)
        one.bind((address, 0))
        one.connect_ex(("127.0.0.1", port))
        selector.register(one, selectors.EVENT_READ)

    for _ in range(many):
        call()
    at = 0
    while on.is_set():
        for key, _ in selector.select(0.2):
            one = key.fileobj
            assert isinstance(one, socket.socket)
            selector.unregister(one)
            one.close()
            if kind == "reconnect":
                with suppress(OSError):
                    call()
        if kind == "dribble" and at < len(_HELLO):
            for key in selector.get_map().values():
                assert isinstance(key.fileobj, socket.socket)
                with suppress(OSError):
                    key.fileobj.send(_HELLO[at : at + 1])
            at += 1
    for key in list(selector.get_map().values()):
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()


def _strangers(address: str, port: int, many: int, folder: Path, on: Event) -> None:
    """Shake hands again and again with a certificate that is not admitted."""
    context = ssl.create_default_context(cafile=str(folder / "certificates" / "ca.pem"))
    context.load_cert_chain(folder / "stranger" / "node.pem", folder / "stranger" / "node.key")

    def call() -> None:
        while on.is_set():
            with (
                suppress(OSError),
                socket.create_connection(("127.0.0.1", port), 20, (address, 0)) as one,
                context.wrap_socket(one, server_hostname="127.0.0.1") as secure,
            ):
                secure.recv(1)

    threads = [threading.Thread(target=call, daemon=True) for _ in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def processes(*works: tuple[Callable[..., None], tuple[object, ...]]) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=work, args=given, daemon=True) for work, given in works]
    for one in started:
        one.start()
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.join()


def rounds(server: HttpsServer, data: bytes, seconds: float) -> list[float]:
    """How long each round took, for so many seconds."""
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        answers = dict(server.send(dict.fromkeys(range(3), data), 60))
        assert all(answer == data for answer in answers.values()), "an answer is missing"
        times.append(time.perf_counter() - began)
    return times


def newcomer(server: HttpsServer, folder: Path, port: int, node: int, name: str) -> float:
    """Seconds until a site that comes only now is there."""
    began = time.perf_counter()
    with caller(folder, name, port):
        while node not in server.nodes():
            time.sleep(0.01)
        return time.perf_counter() - began


def measure(kind: str, address: str, many: int, blocks: int, seconds: float, size: int, work: float) -> str:
    names = ["a", "b", "c"]
    late = [f"late{block}" for block in range(blocks)]
    with tempfile.TemporaryDirectory() as place, socket.create_server(("127.0.0.1", 0)) as free:
        folder, port = Path(place), free.getsockname()[1]
        free.close()
        make(folder, [*names, *late])
        on = multiprocessing.get_context("spawn").Event()
        works = [(site, (folder, name, port, work)) for name in names]
        with (
            HttpsServer(folder, [*names, *late], "127.0.0.1", port, 1 << 28) as server,
            processes(*works, (crowd, (kind, address, port, many, folder, on))),
        ):
            while len(server.nodes()) < len(names):
                time.sleep(0.05)
            data, quiet, loud, joined = bytes(size), [], [], []
            rounds(server, data, 1.0)
            for block in range(blocks):
                quiet += rounds(server, data, seconds)
                on.set()
                time.sleep(0.5)
                loud += rounds(server, data, seconds)
                joined.append(newcomer(server, folder, port, len(names) + block, late[block]))
                on.clear()
                time.sleep(1.0)
    before, during = statistics.median(quiet), statistics.median(loud)
    return (
        f"{kind:9s} from {address}: round {1000 * before:6.1f} ms alone, {1000 * during:6.1f} ms with {many} "
        f"connections ({100 * (during / before - 1):+.1f} %; slowest {1000 * max(quiet):.0f} and "
        f"{1000 * max(loud):.0f} ms); a new site is there after {statistics.median(joined):.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--address", action="append", help="where the crowd calls from")
    parser.add_argument("--many", type=int, default=500)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each block")
    parser.add_argument("--size", type=int, default=200_000, help="bytes of a question and of an answer")
    parser.add_argument("--work", type=float, default=0.1, help="seconds that a site takes to answer")
    given = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for address in given.address or ["127.0.0.1", "127.0.0.2"]:
        for kind in given.kind or KINDS:
            print(
                measure(kind, address, given.many, given.blocks, given.seconds, given.size, given.work), flush=True
            )


if __name__ == "__main__":
    main()
