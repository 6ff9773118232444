"""Files from a host of the test's own: whole, cut short, wrong, missing, slow, gone on with."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import tarfile
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from unalike.data import DATASETS, download, sources
from unalike.data.download import get
from unalike.data.folder import VARIABLE
from unalike.data.sources import BY_HAND, SOURCES, PublicFiles, RemoteFile
from unalike.errors import TryLater, UserError

CONTENT = bytes(np.random.default_rng(0).integers(0, 256, 300_000).astype(np.uint8))
SHA = hashlib.sha256(CONTENT).hexdigest()


class Host:
    """A host on loopback; ``answer`` says what becomes of each request."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.done = threading.Event()
        self.answer: Callable[[Any], None] = whole
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.asked.append((self.path, self.headers.get("Range")))
                host.answer(self)

            def log_message(self, *_: Any) -> None:
                """Say nothing while tests run."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/files/"
        self.thread = threading.Thread(target=self.server.serve_forever)


def whole(request: Any, content: bytes = CONTENT) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)


def rest(request: Any) -> None:
    """What is missing, as most hosts can."""
    start = int((request.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
    if start >= len(CONTENT):
        request.send_response(416)
        request.end_headers()
        return
    request.send_response(206 if start else 200)
    if start:
        request.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
    request.send_header("Content-Length", str(len(CONTENT) - start))
    request.end_headers()
    request.wfile.write(CONTENT[start:])


def cut(request: Any) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(len(CONTENT)))
    request.end_headers()
    request.wfile.write(CONTENT[:100_000])


def not_there(request: Any) -> None:
    request.send_error(404)


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    made.thread.start()
    yield made
    made.done.set()
    made.server.shutdown()
    made.thread.join()
    made.server.server_close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host) -> Path:
    """An empty data folder, and a data set of one file at the host."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "data"))
    file = RemoteFile("rows.bin", SHA, "toy/rows.bin")
    monkeypatch.setitem(SOURCES, "toy", PublicFiles((host.address,), (file,)))
    return tmp_path / "data"


def fetch(address: str | None = None, name: str = "toy") -> list[tuple[str, int, int | None]]:
    told: list[tuple[str, int, int | None]] = []
    get(name, address, lambda *all: told.append(all))
    return told


def kept(folder: Path) -> bytes:
    return (folder / "toy" / ".rows.bin.part").read_bytes()


def test_a_file_comes_whole(host: Host, folder: Path) -> None:
    told = fetch()
    assert (folder / "toy" / "rows.bin").read_bytes() == CONTENT
    assert told[-1] == ("rows.bin", len(CONTENT), len(CONTENT))
    assert [have for _, have, _ in told] == sorted({have for _, have, _ in told})
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == [".get.lock", "rows.bin"]
    fetch()
    assert len(host.asked) == 1  # what is there is not fetched again


@pytest.mark.parametrize("again", [rest, whole], ids=["host goes on", "host begins anew"])
def test_what_was_cut_short_is_gone_on_with(host: Host, folder: Path, again: Any) -> None:
    host.answer = cut
    with pytest.raises(UserError, match=r"broke off.* The 100,000 bytes that are here are gone on with next time"):
        fetch()
    assert not (folder / "toy" / "rows.bin").exists()
    assert kept(folder) == CONTENT[:100_000]
    host.answer = again
    fetch()
    assert host.asked[-1] == ("/files/rows.bin", "bytes=100000-")
    assert (folder / "toy" / "rows.bin").read_bytes() == CONTENT


def test_a_wrong_beginning_is_thrown_away(host: Host, folder: Path) -> None:
    (folder / "toy").mkdir(parents=True)
    (folder / "toy" / ".rows.bin.part").write_bytes(b"not the beginning")
    host.answer = rest
    fetch()
    assert [asked for _, asked in host.asked] == ["bytes=17-", None]
    assert (folder / "toy" / "rows.bin").read_bytes() == CONTENT


def test_all_bytes_may_be_here_already(host: Host, folder: Path) -> None:
    """The machine stopped between the last byte and the name."""
    (folder / "toy").mkdir(parents=True)
    (folder / "toy" / ".rows.bin.part").write_bytes(CONTENT)
    host.answer = rest
    fetch()
    assert (folder / "toy" / "rows.bin").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda request: whole(request, CONTENT[:-1] + b"x"), f"has the checksum [0-9a-f]{{64}}, not {SHA}"),
        (lambda request: whole(request, b""), "has the checksum e3b0c44298fc"),
        (not_there, r"127\.0\.0\.1:\d+ answers 404 \(Not Found\)"),
        (
            lambda request: request.wfile.write(b"nonsense\r\n\r\n"),
            r"127\.0\.0\.1:\d+ cannot be reached|broke off",
        ),
    ],
)
def test_what_is_not_the_file_gets_no_name(host: Host, folder: Path, answer: Any, message: str) -> None:
    host.answer = answer
    with pytest.raises(UserError, match=message) as caught:
        fetch()
    assert "\n" not in str(caught.value)
    assert not [path for path in (folder / "toy").iterdir() if path.stat().st_size]


def test_a_host_that_says_nothing_is_given_up(host: Host, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(request: Any) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(CONTENT)))
        request.end_headers()
        request.wfile.write(CONTENT[:70_000])
        request.wfile.flush()
        host.done.wait(30)

    monkeypatch.setattr(download, "SILENCE", 0.3)
    host.answer = slow
    started = time.monotonic()
    with pytest.raises(UserError, match=r"127\.0\.0\.1:\d+ sent nothing for 0\.3 seconds\. The [\d,]+ bytes"):
        fetch()
    assert time.monotonic() - started < 10
    assert CONTENT.startswith(kept(folder))


def test_no_network_is_one_line_and_soon(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = time.monotonic()
    with pytest.raises(
        UserError, match=r"no network, or no host nowhere\.invalid .*put it there as .*toy.rows\.bin"
    ):
        fetch("http://nowhere.invalid/files")
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9 cannot be reached"):
        fetch("http://127.0.0.1:9/")
    assert time.monotonic() - started < 10


def test_the_next_address_is_asked(host: Host, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SOURCES["toy"].files[0]
    monkeypatch.setitem(SOURCES, "toy", PublicFiles((f"{host.address}other/", host.address), (file,)))
    host.answer = lambda request: not_there(request) if "other" in request.path else whole(request)
    fetch()
    assert [path for path, _ in host.asked] == ["/files/other/rows.bin", "/files/rows.bin"]


def test_another_address_can_be_named(
    host: Host, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "rows.bin").write_bytes(CONTENT)
    monkeypatch.setenv(download.MIRROR, f"file://{tmp_path}/mirror")
    fetch()
    assert not host.asked
    shutil.rmtree(folder)
    fetch(host.address.rstrip("/"))  # what the command says counts more
    assert len(host.asked) == 1
    with pytest.raises(UserError, match=r"--from must be an address such as .*got '/a/folder'"):
        fetch("/a/folder")


def test_an_archive_is_unpacked(host: Host, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        info = tarfile.TarInfo("batches/data")
        info.size = 5
        archive.addfile(info, io.BytesIO(b"12345"))
    content = packed.getvalue()
    file = RemoteFile("a.tar.gz", hashlib.md5(content).hexdigest(), "a.tar.gz", "batches")
    monkeypatch.setitem(SOURCES, "toy", PublicFiles((host.address,), (file,)))
    host.answer = lambda request: whole(request, content)
    fetch()
    assert (folder / "batches" / "data").read_bytes() == b"12345"
    assert sorted(path.name for path in folder.iterdir()) == [".get.lock", "batches"]
    fetch()
    assert len(host.asked) == 1


def test_a_file_of_ones_own_is_left_alone(host: Host, folder: Path) -> None:
    (folder / "toy").mkdir(parents=True)
    (folder / "toy" / "rows.bin").write_bytes(b"mine")
    with pytest.raises(UserError, match=r"rows\.bin is another file than the public one. Remove it"):
        fetch()
    assert (folder / "toy" / "rows.bin").read_bytes() == b"mine"
    assert not host.asked


def test_two_programs_do_not_write_the_same_file(folder: Path) -> None:
    folder.mkdir()
    with FileLock(folder / ".get.lock"), pytest.raises(TryLater, match="Another program is getting files"):
        fetch()


def test_a_full_disk_is_seen_before(host: Host, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: namedtuple("Usage", "free")(1000))
    with pytest.raises(UserError, match=r"has room for 0 MB\. Make room"):
        fetch()


def test_endless_answers_end(host: Host, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MOST", 1000)
    with pytest.raises(UserError, match="sends more than 1,000 bytes"):
        fetch()


def test_what_cannot_be_got_says_what_to_do() -> None:
    with pytest.raises(UserError, match=r"checksums of rcv1's files are not known here.*LIBSVM data page"):
        fetch(name="rcv1")
    with pytest.raises(UserError, match="heart has no files to get: use it as it is"):
        fetch(name="heart")


def test_every_source_is_a_data_set_and_has_checksums() -> None:
    names = {entry.name for entry in DATASETS}
    assert set(SOURCES) | set(BY_HAND) <= names
    for source in sources.SOURCES.values():
        assert all(mirror.startswith("http") and mirror.endswith("/") for mirror in source.mirrors)
        digests = [file.digest for file in source.files]
        assert all(len(one) in (32, 64) and set(one) <= set("0123456789abcdef") for one in digests)
        assert len(set(digests)) == len(digests)


def test_what_was_got_is_what_the_loader_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host
) -> None:
    """The places of MNIST's files are those that its loader looks in."""
    from unalike.data.mnist import MNIST, _folder

    monkeypatch.setenv(VARIABLE, str(tmp_path))
    content = gzip.compress(b"not images")
    files = [file._replace(digest=hashlib.sha256(content).hexdigest()) for file in SOURCES["mnist"].files]
    monkeypatch.setitem(SOURCES, "mnist", PublicFiles((host.address,), tuple(files)))
    host.answer = lambda request: whole(request, content)
    fetch(name="mnist")
    assert _folder(MNIST) == tmp_path / "MNIST" / "raw"


def test_an_archive_writes_nothing_outside_of_its_folder(tmp_path: Path) -> None:
    archive, inside = tmp_path / "files.tar", tmp_path / "data"
    inside.mkdir()
    with tarfile.open(archive, "w") as packed:
        packed.addfile(tarfile.TarInfo("../../outside"), io.BytesIO())
    with pytest.raises(tarfile.FilterError):
        download._unpack(archive, inside / "folder")
    assert not list(tmp_path.rglob("outside"))
    assert not list(inside.iterdir())
