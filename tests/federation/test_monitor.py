"""What programs are told of a server and of a site: the truth, in the format that they read, on loopback alone."""

import http.client
import json
import math
import os
import re
import shutil
import socket
import time
from collections import namedtuple

import pytest

from tests.federation.inside import World
from unalike.errors import UserError
from unalike.federation import monitor as module
from unalike.federation.attempts import serve
from unalike.federation.audit import HEAD
from unalike.federation.folders import CONNECTION
from unalike.federation.monitor import HOST, health, metrics, monitoring
from unalike.federation.transport.https.client import CONNECTED
from unalike.runs.files import file_lock

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'

UNESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def parsed(text):
    """By name and labels, the samples of Prometheus' text format 0.0.4; strict, as its page says it."""
    assert text.endswith("\n")
    kinds, helps, samples, order = {}, {}, {}, []
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, told = re.fullmatch(rf"# HELP ({NAME}) (.+)", line).groups()
            assert name not in helps
            assert not re.search(r"\\[^\\n]", told)
            helps[name] = told
        elif line.startswith("# TYPE "):
            name, kind = re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram|summary|untyped)", line).groups()
            assert name not in kinds, "a type is told once"
            assert not any(known == name for known, _ in samples), "and before the samples"
            kinds[name] = kind
        else:
            name, _, labels, value = re.fullmatch(rf"({NAME})(\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)", line).group(
                1, 2, 3, 8
            )
            found = re.findall(LABEL, labels or "")
            assert len(dict(found)) == len(found), "no label twice"
            key = tuple(sorted((k, re.sub(r'\\[\\"n]', lambda e: UNESCAPED[e[0]], v)) for k, v in found))
            assert (name, key) not in samples, "no sample twice"
            assert math.isfinite(float(value))
            samples[name, key] = float(value)
            order.append(name)
    grouped = [name for before, name in zip([None, *order], order, strict=False) if name != before]
    assert len(set(grouped)) == len(grouped), "all samples of a metric stand together"
    assert set(kinds) == set(helps) == set(order)
    for name, kind in kinds.items():
        assert (kind == "counter") == name.endswith("_total"), "counters are called so"
        assert name.startswith("unalike_")
    return samples


def test_the_parser_itself_can_fail():
    good = '# HELP unalike_a_total b\n# TYPE unalike_a_total counter\nunalike_a_total{site="v\\"a\\n\\\\"} 1.0\n'
    assert parsed(good) == {("unalike_a_total", (("site", 'v"a\n\\'),)): 1.0}
    for old, new in [
        ("} 1.0", "} x"),
        ('"v', 'v"'),
        ("counter", "count"),
        ("_total", ""),
        ("# TYPE unalike_a_total counter\n", ""),
        ("\\\\", "\\"),
        ("} 1.0\n", "} 1.0"),
    ]:
        with pytest.raises((AssertionError, AttributeError, ValueError)):
            parsed(good.replace(old, new))


@pytest.fixture
def world(tmp_path):
    made = World.make(tmp_path, train={"rounds": 2})
    (made.folder.path / "invitations").mkdir()
    return made


@pytest.fixture
def trained(world):
    """A server that is up and has trained."""
    with file_lock(world.folder.path / ".serve.lock"):
        serve(world.transport, world.folder.path)
        yield world


def test_a_server_that_has_trained_is_well(trained):
    assert health(trained.folder.path) == {"status": "ok", "problems": []}


def test_the_figures_of_a_server_are_those_of_its_record(trained):
    found = parsed(metrics(trained.folder.path))
    speaker_up, speaker_down = {}, {}
    for node, asked, answer in trained.transport.log:
        name = trained.transport.sites[node].name
        speaker_down[name] = speaker_down.get(name, 0) + len(asked)
        speaker_up[name] = speaker_up.get(name, 0) + len(answer)
    assert found["unalike_rounds_total", ()] == found["unalike_rounds_planned", ()] == 2
    assert found["unalike_healthy", ()] == 1
    for name in trained.plan.parties:
        site = (("site", name),)
        assert found["unalike_site_answers_total", site] == 2
        assert 0 < found["unalike_site_answer_seconds", site] < 60
        # All that was carried, but for what was said before round 1 and after the last.
        assert 0.3 * speaker_up[name] < found["unalike_site_received_bytes_total", site] < speaker_up[name]
        assert 0.3 * speaker_down[name] < found["unalike_site_sent_bytes_total", site] < speaker_down[name]
        assert found["unalike_site_update_norm", site] > 0
    assert ("unalike_epsilon", ()) not in found


def test_epsilon_so_far(tmp_path):
    world = World.make(tmp_path, train={"rounds": 2, "channel": "clip(1.0)+gauss(0.8)"})
    (world.folder.path / "invitations").mkdir()
    figures = world.serve()
    found = parsed(metrics(world.folder.path))
    assert found["unalike_epsilon", ()] == pytest.approx(figures["privacy"]["epsilon"])
    assert not any(name == "unalike_site_update_norm" for name, _ in found)  # epsilon would not cover them


def test_a_server_that_is_not_there_is_not_ok(world):
    assert health(world.folder.path)["problems"] == ["the server is not running"]
    assert parsed(metrics(world.folder.path))["unalike_healthy", ()] == 0


def test_a_training_that_failed_is_not_ok(world, monkeypatch, capsys):
    def fail(*args, **settings):
        raise ValueError("boom")

    monkeypatch.setattr("unalike.federation.server.serve", fail)
    with file_lock(world.folder.path / ".serve.lock"):
        serve(world.transport, world.folder.path)
        assert health(world.folder.path)["problems"] == ["the training failed: ValueError: boom"]


def test_a_training_that_waits_is_not_ok_until_it_goes_on(world, monkeypatch):
    monkeypatch.setattr("unalike.federation.asking.PAUSE", 0.01)
    found, away = [], world.transport.sites.pop(13)

    def look(parties):
        place_waits(parties)
        found.append(health(world.folder.path)["problems"])
        world.transport.sites[13] = away

    place_waits = world.folder.waits
    monkeypatch.setattr("unalike.federation.folders.ServerFolder.waits", lambda self, parties: look(parties))
    with file_lock(world.folder.path / ".serve.lock"):
        serve(world.transport, world.folder.path)
    assert found[0] == ["the training waits for va"]
    assert found[-1] == []


Usage = namedtuple("Usage", "total used free")


def test_a_full_disk_is_not_ok(trained, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(10**9, 10**9, 5000))
    assert health(trained.folder.path)["problems"] == ["the disk is full: 5,000 bytes are left"]
    assert parsed(metrics(trained.folder.path))["unalike_disk_free_bytes", ()] == 5000


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_not_ok(trained):
    trained.folder.path.chmod(0o500)
    try:
        assert "the folder cannot be written to" in health(trained.folder.path)["problems"]
    finally:
        trained.folder.path.chmod(0o700)


def test_a_damaged_record_is_not_ok(trained):
    path = trained.folder.run / "rounds.jsonl"
    path.write_text(path.read_text().replace('"round": 1', '"round": 7'))
    (problem,) = health(trained.folder.path)["problems"]
    assert problem.startswith("damaged: rounds.jsonl: line 1")


@pytest.fixture
def site(world):
    """A site's folder as join has it."""
    world.serve()
    folder = world.path / "sites" / "va"
    world.plan.write(folder)
    (folder / "party.txt").write_text("va\n")
    return folder


def connected(folder, state):
    (folder / CONNECTION).write_text(json.dumps({"state": state, "time": "2026-01-01T00:00:00+00:00"}))


def test_a_site_is_well_where_it_is_connected(site):
    assert health(site)["problems"] == ["the site has not joined: no process answers for it"]
    with file_lock(site / ".join.lock"):
        assert health(site)["problems"] == ["not connected: never was"]
        connected(site, "the server does not answer")
        assert health(site)["problems"] == ["not connected: the server does not answer"]
        assert parsed(metrics(site))["unalike_connected", ()] == 0
        connected(site, CONNECTED)
        assert health(site) == {"status": "ok", "problems": []}
        found = parsed(metrics(site))
    rows = [json.loads(line) for line in (site / "audit.jsonl").read_text().splitlines()]
    for way in ("in", "out"):
        own = [row["bytes"] for row in rows if row["way"] == way]
        assert found["unalike_messages_total", (("way", way),)] == len(own) > 5
        assert found["unalike_message_bytes_total", (("way", way),)] == sum(own)
    assert found["unalike_refused_messages_total", ()] == 0
    assert abs(found["unalike_last_message_timestamp_seconds", ()] - time.time()) < 300


def test_a_site_whose_log_was_tampered_with_is_not_ok(site):
    (site / HEAD).write_text((site / HEAD).read_text().replace('"refused": 0', '"refused": 1'))
    assert "was changed" in health(site)["problems"][0]


def test_a_folder_that_is_none_is_told(tmp_path):
    (problem,) = health(tmp_path)["problems"]
    assert "is no invitation" in problem


def ask(port, path="/healthz", method="GET", **headers):
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.headers.get("Content-Type", ""), answer.read().decode()


def test_both_are_answered_on_loopback_and_nothing_else_is(trained):
    with monitoring(trained.folder.path, 0) as port:
        code, kind, text = ask(port)
        assert (code, kind, json.loads(text)["status"]) == (200, "application/json", "ok")
        code, kind, text = ask(port, "/metrics")
        assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert parsed(text)["unalike_rounds_total", ()] == 2
        (trained.folder.path / "outcome.json").write_text('{"how": "refused", "reason": "column chol"}')
        code, _, text = ask(port)
        assert (code, json.loads(text)["problems"]) == (503, ["the training refused: column chol"])
        trained.folder.set_job("measure")
        assert json.loads(ask(port)[2])["problems"] == ["the measuring refused: column chol"]
        assert ask(port, "/keys/server.key")[0] == ask(port, "/../federation.toml")[0] == ask(port, "/")[0] == 404
        assert ask(port, method="POST")[0] == ask(port, method="PUT")[0] == 501
        assert ask(port, Host="evil.example.org")[0] == 403  # a page that made its name ours
        assert ask(port, Host=f"localhost:{port}")[0] == 503
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port))


def test_only_loopback_is_listened_on(trained, monkeypatch):
    bound = []
    usual = module.ThreadingHTTPServer.server_bind
    monkeypatch.setattr(
        module.ThreadingHTTPServer, "server_bind", lambda self: (bound.append(self.server_address), usual(self))
    )
    with monitoring(trained.folder.path, 0):
        assert [address[0] for address in bound] == ["127.0.0.1"]


def test_one_who_says_nothing_holds_nobody_up_and_is_let_go(trained, monkeypatch):
    monkeypatch.setattr(module._Answers, "timeout", 0.5)
    with monitoring(trained.folder.path, 0) as port, socket.create_connection((HOST, port)) as silent:
        silent.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        assert ask(port)[0] == 200
        silent.settimeout(10)
        assert silent.recv(100) == b""


def test_no_port_no_server_and_a_taken_one_is_one_line(tmp_path):
    with monitoring(tmp_path, None) as port:
        assert port is None
    with (
        socket.create_server((HOST, 0)) as taken,
        pytest.raises(UserError, match="Choose another port"),
        monitoring(tmp_path, taken.getsockname()[1]),
    ):
        pass


def test_what_is_written_by_others_cannot_forge_a_line():
    evil = 'x"} 1\nunalike_healthy 1\\'
    text = module._family("a", "gauge", "help", {module._label("site", evil): 1})
    assert parsed(text) == {("unalike_a", (("site", evil),)): 1.0}
