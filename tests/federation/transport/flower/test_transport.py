"""The transport over a grid that keeps messages in memory and loses, delays and mixes them up on order."""

import subprocess
import sys

import pytest
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict

from tests.federation.transport.flower.grid import Grid, made, question
from unalike.federation.transport import Failure
from unalike.federation.transport.flower.client_app import app
from unalike.federation.transport.flower.door import SiteDoor
from unalike.federation.transport.flower.packing import pack, unpack
from unalike.federation.transport.flower.transport import FlowerTransport


class Clock:
    """Time passes only by sleeping."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("unalike.federation.transport.flower.transport.time", clock)
    monkeypatch.setattr("unalike.federation.transport.flower.transport.Message", question)
    return clock


def test_every_node_gets_its_own_bytes_and_answers_come_as_they_arrive():
    grid = Grid(delay={1: 2, 2: 0, 3: 1})
    transport = FlowerTransport(grid)
    assert transport.nodes() == [1, 2, 3]
    messages = {node: bytes([node, 0, 9]) for node in (1, 2, 3)}
    assert list(transport.send(messages, 10)) == [(node, bytes([9, 0, node])) for node in (2, 3, 1)]


def test_a_late_answer_is_never_taken_for_another():
    grid = Grid(delay={1: 10**6})
    transport = FlowerTransport(grid)
    assert dict(transport.send({1: b"first", 2: b"ab"}, 2)) == {2: b"ba"}
    late = set(grid.waiting)
    grid.delay[1] = 0
    grid.waiting = {name: (message, 0) for name, (message, _) in grid.waiting.items()}  # it is there now
    assert dict(transport.send({1: b"second", 2: b"cd"}, 2)) == {1: b"dnoces", 2: b"dc"}
    assert not late & set().union(*grid.asked_for[-1:])


def test_an_answer_that_nobody_asked_for_is_left_alone():
    class Pushy(Grid):
        def pull_messages(self, names):
            replies = super().pull_messages(names)
            return [made(pack(b"stranger"), 1, "m00", source=2, answers="m0"), *replies]

    assert list(FlowerTransport(Pushy()).send({1: b"ab"}, 5)) == [(1, b"ba")]


def test_time_is_over_when_it_is_over(clock):
    begin = clock.now
    assert dict(FlowerTransport(Grid(delay={1: 10**6})).send({1: b""}, 5)) == {}
    assert 5 <= clock.now - begin < 5.5


def test_it_stops_when_told():
    grid = Grid(delay={1: 10**6})
    assert dict(FlowerTransport(grid).send({1: b""}, 1e6, lambda: grid.polls >= 3)) == {}
    assert grid.polls == 3


def test_failures_have_a_reason():
    class Failing(Grid):
        def reply(self, message):
            node = message.metadata.dst_node_id
            if node == 1:
                return Message(Error(code=3, reason="broken\n  pipe"), reply_to=message)
            if node == 2:
                return made(pack(b"b"), 1, "m00", source=3, answers=message.metadata.message_id)
            return super().reply(message)

    got = dict(FlowerTransport(Failing()).send({1: b"a", 2: b"b", 3: b"c"}, 5))
    assert got[1] == Failure("broken pipe")
    assert "node 3 answered a message that went to node 2" in got[2].reason
    assert got[3] == b"c"


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"payload": ConfigRecord({"x": 1})}),
        RecordDict({**pack(b"x"), "more": ConfigRecord({"x": 1})}),
    ],
)
def test_a_malformed_answer_is_a_failure(content):
    got = dict(FlowerTransport(Grid(answer=lambda node, data: content)).send({1: b"a"}, 5))
    assert "packed" in got[1].reason


def test_equal_bytes_are_different_messages():
    """Else a node could fetch another's message by the hash of what it guesses to be in it."""
    first, second = pack(b"the same"), pack(b"the same")
    assert unpack(first) == unpack(second) == b"the same"
    assert first["payload"]["payload"].data != second["payload"]["payload"].data
    first["payload"]["payload"].data = b"short"
    first["payload"]["payload"].shape = (5,)
    with pytest.raises(ValueError, match="too short"):
        unpack(first)


@pytest.mark.parametrize("shape", [(2,), (1, 1), ()])
def test_an_array_that_lies_about_its_shape_is_refused(shape):
    content = pack(b"x")
    content["payload"]["payload"].shape = shape
    with pytest.raises(ValueError, match="shape"):
        unpack(content)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_deadline_is_needed(seconds):
    with pytest.raises(ValueError, match="deadline"):
        list(FlowerTransport(Grid()).send({1: b""}, seconds))


def test_a_message_that_is_not_taken_is_a_failure():
    class Full(Grid):
        def push_messages(self, messages):
            return [""]

    assert "did not take" in dict(FlowerTransport(Full()).send({1: b"a"}, 5))[1].reason


def test_the_client_app_passes_bytes_through_the_door_and_tells_why_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a short name: those of sockets are
    asked = made(pack(b"question"), 5, "m")
    context = Context(run_id=7, node_id=5, node_config={}, state=RecordDict(), run_config={})
    with SiteDoor("door", lambda message: message.upper()):
        context.node_config["door"] = "door"
        assert unpack(app(asked, context).content) == b"QUESTION"
    reply = app(asked, context)
    assert "not there" in reply.content["refusal"]["reason"]
    context.node_config.clear()
    assert app(asked, context).content["refusal"]["reason"]


def test_the_client_app_does_not_load_torch():
    code = "import sys, unalike.federation.transport.flower.client_app; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
