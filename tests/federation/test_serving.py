"""The server of a folder: its port, its jobs, and what is left when it ends; over real TLS, in one process."""

import logging
import os
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from tests.federation.inside import HOSPITALS, World
from tests.federation.real import free_port, until
from unalike.errors import TryLater, UserError
from unalike.federation import attempts, serving
from unalike.federation.attempts import Attempts, is_served
from unalike.federation.audit import read_audit
from unalike.federation.folders import PUBLIC, TRAIN, Card
from unalike.federation.serving import Serving
from unalike.federation.transport.https.certificates import create_authority, create_site, issue_server
from unalike.federation.transport.https.client import CONNECTED, Caller
from unalike.rounds.state import State
from unalike.runs.checkpoint import load_latest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="real sites need Linux or macOS")


class Networked(World):
    """The world of three hospitals, with certificates and a port."""

    @classmethod
    def at(cls, path, **plan):
        world = cls.make(path, **plan)
        world.address = f"127.0.0.1:{free_port()}"
        certificates = path / "server" / "certificates"
        certificates.mkdir()
        create_authority(certificates)
        issue_server(certificates, ["127.0.0.1"])
        for name in world.plan.parties:
            keys = path / "sites" / name / "keys"
            pem = create_site(keys / "node.key", keys / "node.pem", name)
            card = path / "server" / "parties" / f"{name}{PUBLIC}"
            Card(name, Card.read(card).sign, pem).write(card)
        return world

    def serving(self):
        return Serving(self.path / "server", self.plan, self.said.append, self.address)

    @contextmanager
    def sites(self, delay=0.0):
        """All sites call and answer, each in a thread."""
        leave = threading.Event()
        threads = [
            threading.Thread(target=self._call, args=(site, leave, delay))
            for site in self.transport.sites.values()
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            leave.set()
            for thread in threads:
                thread.join(30)
                assert not thread.is_alive()

    def _call(self, site, leave, delay):
        def answer(raw):
            time.sleep(delay)
            return site.answer(raw)

        keys = site.folder / "keys"
        authority = self.path / "server" / "certificates" / "ca.pem"
        caller = Caller(self.address, authority, keys / "node.pem", keys / "node.key", 1 << 28)
        with caller:
            answering = threading.Thread(target=caller.answer, args=(answer,), daemon=True)
            answering.start()
            leave.wait()

    def log(self):
        path = self.path / "server" / "log.txt"
        return path.read_text() if path.exists() else ""


@pytest.mark.parametrize(
    ("plan", "steps"),
    [
        ({}, set()),
        ({"train": {"algorithm": "scaffold"}}, set()),
        ({"train": {"algorithm": "rfedavg+"}}, set()),
        ({"train": {"channel": "masked"}}, {"add"}),
        ({"train": {"channel": "masked"}, "quorum": 3, "parties": (*HOSPITALS, "zurich")}, {"sum"}),
        ({"train": {"channel": "encrypted"}}, {"sum"}),
    ],
    ids=["fedavg", "scaffold", "rfedavg+", "one trip", "five steps", "encrypted"],
)
def test_a_job_over_tls_has_the_bits_of_simulation(plan, steps, tmp_path):
    world = Networked.at(tmp_path, **plan)
    tries = Attempts(tmp_path / "server")
    with world.sites(), world.serving():
        assert is_served(tmp_path / "server")
        tries.submit(TRAIN)
        until(lambda: tries.outcome() is not None, world.log, 60)
    assert not is_served(tmp_path / "server")
    assert (tries.outcome().how, tries.wanted, tries.working) == ("finished", None, False)
    saved = load_latest(world.folder.run, print)
    simulation, _ = world.simulation()
    assert State.of(saved.round, saved.tensors).server_digest() == simulation.state.server_digest()
    asked = {row["kind"] for row in read_audit(tmp_path / "sites" / "va")}
    assert asked & {"add", "sum"} == steps


def test_a_job_whose_server_ends_is_taken_up_by_the_next(tmp_path):
    world = Networked.at(tmp_path, train={"rounds": 30})
    tries = Attempts(tmp_path / "server")
    tries.submit(TRAIN)
    with world.sites(delay=0.02):
        with world.serving():
            until(lambda: "Round 2 " in world.log(), world.log, 60)
        assert (tries.wanted, tries.outcome()) == (TRAIN, None)
        assert "Round 30 " not in world.log()
        with world.serving():
            until(lambda: tries.outcome() is not None, world.log, 60)
    assert "Going on after round" in world.log()
    saved = load_latest(world.folder.run, print)
    simulation, _ = world.simulation()
    assert State.of(saved.round, saved.tensors).server_digest() == simulation.state.server_digest()


def test_what_is_wrong_is_told_before_anything_is_open(tmp_path):
    world = Networked.at(tmp_path)
    with world.serving(), pytest.raises(UserError, match="Another process serves"):
        world.serving().__enter__()
    host, port = world.address.split(":")
    with socket.create_server((host, int(port))), pytest.raises(UserError, match="Cannot listen"):
        world.serving().__enter__()
    assert not is_served(tmp_path / "server")
    (tmp_path / "server" / "certificates" / "ca.key").unlink()
    world.address = f"localhost.example:{port}"
    with pytest.raises(UserError, match=r"not for 'localhost\.example'"):
        world.serving().__enter__()
    assert not is_served(tmp_path / "server")


def test_a_certificate_for_an_address_that_has_moved_is_issued(tmp_path):
    world = Networked.at(tmp_path)
    world.address = f"127.0.0.2:{free_port()}"
    with world.sites(), world.serving() as serving:
        assert any("renewed" in line for line in world.said)
        until(lambda: len(serving.transport.nodes()) == 3, world.log, 30)


def test_who_is_turned_away_is_in_the_log_with_the_address(tmp_path):
    world = Networked.at(tmp_path)
    host, port = world.address.split(":")
    with world.serving():
        with socket.create_connection((host, int(port))) as stranger:
            mine = stranger.getsockname()[1]
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            stranger.recv(100)
        until(lambda: f"127.0.0.1:{mine} refused" in world.log(), world.log, 30)
    assert not [h for h in logging.getLogger("unalike.federation").handlers if "ToLog" in type(h).__name__]


def test_a_job_that_cannot_be_done_is_told_and_the_server_stays(tmp_path):
    world = Networked.at(tmp_path)
    tries = Attempts(tmp_path / "server")
    with world.serving():
        (tmp_path / "server" / "parties" / f"va{PUBLIC}").unlink()
        tries.submit(TRAIN)
        until(lambda: tries.outcome() is not None, world.log, 30)
        assert (tries.outcome().how, "va is not admitted" in tries.outcome().reason) == ("refused", True)
        assert is_served(tmp_path / "server")


def test_a_disk_that_was_full_and_a_terminal_that_is_closed_do_not_end_the_jobs(tmp_path, monkeypatch):
    world, done = Networked.at(tmp_path), []

    def full(transport, folder, closing):
        done.append(folder)
        if len(done) == 1:
            raise TryLater("No space left")
        Attempts(folder).ask_to_stop()
        (folder / "outcome.json").write_text('{"how": "stopped"}')

    def closed(line):
        raise BrokenPipeError

    monkeypatch.setattr(attempts, "serve", full)
    monkeypatch.setattr(serving, "PAUSE", 0.1)
    Attempts(tmp_path / "server").submit(TRAIN)
    with Serving(tmp_path / "server", world.plan, closed, world.address):
        until(lambda: len(done) == 2, world.log, 30)


def test_a_site_sees_that_it_is_connected(tmp_path):
    world, states = Networked.at(tmp_path), []
    keys = tmp_path / "sites" / "va" / "keys"
    authority = tmp_path / "server" / "certificates" / "ca.pem"
    with (
        world.serving(),
        Caller(world.address, authority, keys / "node.pem", keys / "node.key", 1 << 28, states.append),
    ):
        until(lambda: states == [CONNECTED], lambda: str(states), 30)
