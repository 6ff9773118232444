"""A whole federation on loopback: link, proxy and three sites, with TLS and node authentication."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import httpx
import pytest

from unalike.errors import UserError
from unalike.federation.transport.flower.certificates import create_authority, create_node_key, issue_server
from unalike.federation.transport.flower.door import SiteDoor
from unalike.federation.transport.flower.link import Control, Link
from unalike.federation.transport.flower.node import Node
from unalike.federation.transport.flower.processes import free_port

pytestmark = [
    pytest.mark.federation,
    pytest.mark.skipif(os.name != "posix", reason="sites run on Linux and macOS"),
]
ROOT = Path(__file__).parents[3]
SERVE = "tests.federation.transport.flower.logic:serve"
PATIENCE = 60


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until(condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def server_folder(folder):
    (folder / "certificates").mkdir(parents=True)
    create_authority(folder / "certificates")
    issue_server(folder / "certificates", ["127.0.0.1"])
    return folder


class Site:
    """A site whose answer the test can replace."""

    def __init__(self, folder, address, root):
        folder.mkdir()
        self.public = create_node_key(folder / "node.key")
        self.answer = self.usual
        self.told = []
        self.door = SiteDoor(lambda message: self.answer(message))
        self.folder, self.address, self.root = folder, address, root

    def usual(self, message):
        return message[::-1]

    def node(self, root=None, key=None):
        return Node(
            self.folder / "flower",
            self.address,
            self.door.path,
            key or self.folder / "node.key",
            root or self.root,
            tell=self.told.append,
        )


class Federation:
    def __init__(self, folder):
        self.folder = server_folder(folder / "server")
        self.address = f"127.0.0.1:{free_port()}"
        self.root = self.folder / "certificates" / "ca.pem"
        self.base, self.numbers = folder, count()
        self.link = Link(self.folder, self.address, serve=SERVE)
        self.sites, self.nodes = [], []

    def site(self):
        return Site(self.base / f"site{next(self.numbers)}", self.address, self.root)

    def exchange(self, size=1000, seconds=30.0, nodes=3):
        name = f"{next(self.numbers):04d}"
        order = {"name": name, "size": size, "seconds": seconds, "nodes": nodes, "patience": PATIENCE}
        orders = self.folder / "orders"
        assert until(orders.is_dir)
        (orders / f"{name}.part").write_text(json.dumps(order))
        (orders / f"{name}.part").rename(orders / f"{name}.order")
        result = orders / f"{name}.result"
        assert until(result.exists, seconds + 2 * PATIENCE), self.logs()
        return json.loads(result.read_text())

    def logs(self):
        return "\n".join(path.read_text()[-3000:] for path in self.base.glob("*/flower/*.log"))

    def proxy_log(self):
        return (self.folder / "flower" / "proxy.log").read_text()


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv(
            "PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        )
        whole = Federation(tmp_path_factory.mktemp("federation"))
        whole.sites = [whole.site() for _ in range(3)]
        whole.link.admit(whole.sites[0].public)  # before it runs
        stack.enter_context(whole.link)
        for site in whole.sites[1:]:
            whole.link.admit(site.public)
        for site in whole.sites:
            stack.enter_context(site.door)
            whole.nodes.append(stack.enter_context(site.node()))
        for node in whole.nodes:
            assert node.wait_until_connected(PATIENCE), (node.state, whole.logs())
        whole.run = whole.link.submit()
        yield whole
        pids = [*whole.link.processes().values(), *(node.pid for node in whole.nodes)]
    assert len(pids) == 6
    assert all(map(gone, pids)), "a process is left over"


@pytest.mark.parametrize("size", [0, 1, 5_000_000])
def test_bytes_come_back(federation, size):
    result = federation.exchange(size)
    assert list(result["answers"].values()) == ["right"] * 3, federation.logs()
    assert {key.encode() for key in result["keys"].values()} == {site.public for site in federation.sites}


def test_everything_but_the_proxy_is_on_loopback_and_so_is_it_here(federation):
    pids = [*federation.link.processes().values(), *(node.pid for node in federation.nodes)]
    listening = set()
    for pid in pids:
        inodes = {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                    listening.add(fields[1].split(":")[0])
    assert listening == {"0100007F"}  # 127.0.0.1


def test_keys_are_admitted_once(federation):
    first = federation.link.admit(federation.sites[0].public)
    assert Control(federation.folder).admit(federation.sites[0].public) == first
    with pytest.raises(UserError, match="public key"):
        federation.link.admit(b"nonsense")


def test_a_folder_has_one_server(federation):
    with pytest.raises(UserError, match="Another process serves"), Link(federation.folder, federation.address):
        pass


def test_a_site_that_fails_says_so_and_the_others_answer(federation):
    def fail(message):
        raise UserError("the column 'age' is missing")

    federation.sites[0].answer = fail
    try:
        answers = federation.exchange()["answers"].values()
    finally:
        federation.sites[0].answer = federation.sites[0].usual
    assert sorted(answers) == ["right", "right", "the column 'age' is missing"]


def test_a_straggler_answers_too_late_and_never_for_another(federation):
    free, held = threading.Event(), threading.Event()

    def slow(message):
        held.set()
        assert free.wait(PATIENCE)
        return b"late" + message

    site = federation.sites[1]
    site.answer = slow
    try:
        result = federation.exchange(seconds=6.0)
        assert held.is_set()
        assert list(result["answers"].values()) == ["right"] * 2
        assert 6.0 <= result["seconds"] < 12.0
    finally:
        site.answer = site.usual
        free.set()
    assert list(federation.exchange(seconds=40.0)["answers"].values()) == ["right"] * 3


def test_a_killed_node_comes_back(federation):
    node, site = federation.nodes[2], federation.sites[2]
    pid = node.pid
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: node.state != "connected", 10)
    assert node.wait_until_connected(PATIENCE), site.told
    assert node.pid not in (pid, None)
    assert list(federation.exchange()["answers"].values()) == ["right"] * 3


@pytest.mark.parametrize("which", ["link", "proxy"])
def test_a_killed_server_process_comes_back(federation, which):
    pid = federation.link.processes()[which]
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: federation.link.processes()[which] not in (pid, None))
    if which == "link":
        assert until(lambda: any("connection lost: trying again" in site.told for site in federation.sites))
    result = federation.exchange(seconds=60.0)
    assert list(result["answers"].values()) == ["right"] * 3, federation.logs()


def test_after_the_runner_was_killed_another_run_can_begin(federation):
    pid = federation.link.processes()["runner"]
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: federation.link.processes()["runner"] not in (pid, None))
    federation.run = federation.link.submit()
    assert list(federation.exchange()["answers"].values()) == ["right"] * 3


def test_a_stranger_with_a_key_of_its_own_is_refused_until_admitted(federation):
    site = federation.site()
    with site.door, site.node() as node:
        assert until(lambda: node.state == "refused: key not admitted yet"), (site.told, federation.logs())
        assert "answered 412 to /v1/fleet/activate-node" in federation.proxy_log()
        federation.link.admit(site.public)
        assert node.wait_until_connected(PATIENCE), site.told
        federation.link.expel(site.public)
        assert until(lambda: node.state.startswith("refused")), site.told
    assert site.told[-1] == "left"


def test_a_site_with_another_authority_does_not_talk_to_us(federation, tmp_path):
    create_authority(tmp_path)
    site = federation.site()
    with site.door, site.node(root=tmp_path / "ca.pem") as node:
        assert until(lambda: node.state.startswith("unreachable")), site.told
    assert "certificate is not accepted" in node_state(site)
    assert "UNKNOWN_CA" in federation.proxy_log()


def node_state(site):
    return next(line for line in site.told if line.startswith("unreachable"))


@pytest.fixture
def stranger(federation):
    """Somebody who has the certificate of the authority, which is no secret, and nothing else."""
    trusted = ssl.create_default_context(cafile=str(federation.root))
    with httpx.Client(
        base_url=f"https://{federation.address}", verify=trusted, trust_env=False, timeout=30
    ) as client:
        yield client


def test_control_does_not_pass_the_proxy(federation, stranger):
    for path in ("/v1/control/start-run", "/v1/runtime/acquire-task", "/health", "/docs", "/openapi.json"):
        assert stranger.post(path, content=b"").status_code == 403
        assert stranger.get(path).status_code == 403
        assert f"{path}'" in federation.proxy_log()


def test_unsigned_forged_and_malformed_requests_are_refused_by_the_link(federation, stranger):
    headers = {"content-type": "application/x-protobuf"}
    forged = {
        **headers,
        "flwr-public-key": "QQ==",
        "flwr-signature": "QQ==",
        "flwr-timestamp": "2020-01-01T00:00:00+00:00",
    }
    for body in (b"", b"\xff" * 100, os.urandom(100_000)):
        for given in (headers, forged, {}):
            for name in ("pull-messages", "push-object", "activate-node"):
                answer = stranger.post(f"/v1/fleet/{name}", content=body, headers=given)
                assert 400 <= answer.status_code < 500, (answer.status_code, name, body[:3], given)
    assert "the link answered 401 to /v1/fleet/pull-messages" in federation.proxy_log()


def test_strangers_did_no_harm(federation):
    processes = dict(federation.link.processes())
    with socket.create_connection(("127.0.0.1", int(federation.address.split(":")[1]))) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert list(federation.exchange()["answers"].values()) == ["right"] * 3
    assert federation.link.processes() == processes


def test_a_run_can_be_stopped_and_another_begins(federation):
    link = federation.link
    assert link.state(federation.run).status == "running"
    Control(federation.folder).stop(federation.run)
    link.stop(federation.run)
    assert link.state(federation.run).outcome == "stopped"
    federation.run = link.submit()
    assert list(federation.exchange()["answers"].values()) == ["right"] * 3
    (federation.folder / "orders" / "9999.order").write_text(json.dumps({"name": "end"}))
    assert until(lambda: link.state(federation.run).status == "finished")
    assert link.state(federation.run).outcome == "completed"


WHOLE = """
import sys, time
from pathlib import Path
from unalike.federation.transport.flower.certificates import create_node_key
from unalike.federation.transport.flower.link import Link
from unalike.federation.transport.flower.node import Node
folder, address = Path(sys.argv[1]), sys.argv[2]
key = folder / "node.key"
with Link(folder, address) as link:
    link.admit(create_node_key(key))
    with Node(folder / "site", address, "/nowhere", key, folder / "certificates" / "ca.pem") as node:
        node.wait_until_connected(60)
        print(*link.processes().values(), node.pid, flush=True)
        time.sleep(600)
"""


def test_no_process_outlives_a_killed_parent(tmp_path):
    folder = server_folder(tmp_path / "server")
    command = [sys.executable, "-c", WHOLE, str(folder), f"127.0.0.1:{free_port()}"]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 4
    assert not any(map(gone, pids))
    parent.kill()
    parent.wait()
    assert until(lambda: all(map(gone, pids)), 15)
    parent.stdout.close()


def test_a_link_that_cannot_start_says_why(tmp_path):
    folder = server_folder(tmp_path / "server")
    with pytest.raises(UserError, match="not for 'elsewhere'"), Link(folder, "elsewhere:1"):
        pass
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError, match=r"proxy at .* did not start"), Link(folder, address):
            pass
    with pytest.raises(UserError, match="No link runs"):
        Control(folder).submit()
