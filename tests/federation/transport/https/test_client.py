"""A site's side: it calls, comes back by itself, and goes on where a connection was cut."""

import os
import socket
import ssl
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from itertools import repeat

import pytest

from tests.federation.transport.https.port import QUICK, free_port, served, until
from unalike.errors import UserError
from unalike.federation.transport.https import client as module
from unalike.federation.transport.https import server
from unalike.federation.transport.https.certificates import create_authority
from unalike.federation.transport.https.client import CONNECTED, NOT_ADMITTED, Caller
from unalike.federation.transport.https.desk import PIECE
from unalike.federation.transport.https.door import Limits

MEGABYTE = 1 << 20


class Line:
    """A line between a site and the server that breaks after so many bytes in one direction, a few times."""

    def __init__(self, port, cuts):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self._to, self._cuts = self.listener.getsockname()[1], port, list(cuts)
        self.carried = {"up": 0, "down": 0}
        self._open = []
        self._lock = threading.Lock()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with suppress(OSError):
            while True:
                here, _ = self.listener.accept()
                there = socket.create_connection(("127.0.0.1", self._to))
                self._open += [here, there]
                for way, one, other in (("up", here, there), ("down", there, here)):
                    threading.Thread(target=self._carry, args=(way, one, other), daemon=True).start()

    def _carry(self, way, one, other):
        carried = 0
        with suppress(OSError):
            while data := one.recv(1 << 16):
                with self._lock:
                    carried += len(data)
                    self.carried[way] += len(data)
                    cut = self._cuts and self._cuts[0][0] == way and carried > self._cuts[0][1]
                    if cut:
                        self._cuts.pop(0)
                if cut:
                    break
                other.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        for each in (self.listener, *self._open):
            each.close()


@contextmanager
def line(port, *cuts):
    made = Line(port.port, cuts)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("way", ["down", "up"])
def test_what_is_cut_goes_on_where_it_was(port, way):
    data = os.urandom(12 * MEGABYTE)
    question, answer = (data, b"short") if way == "down" else (b"short", data)
    got = []

    def give(question):
        got.append(question)
        return answer

    with line(port, (way, 3 * MEGABYTE), (way, 5 * MEGABYTE)) as broken:
        with port.site("a", give, port=broken.port):
            assert dict(port.server.send({0: question}, 60)) == {0: answer}
        assert broken._cuts == []
        assert len(data) < broken.carried[way] < len(data) + 3 * PIECE
    assert got == [question]


def test_many_cuts_in_both_directions(port):
    cuts = [(way, size) for size in (100_000, 700_000, 1_500_000) for way in ("down", "up")]
    data = os.urandom(4 * MEGABYTE)
    with line(port, *cuts) as broken, port.site("a", port=broken.port):
        for _ in range(3):
            assert dict(port.server.send({0: data}, 60)) == {0: data}
        assert broken._cuts == []


def test_tries_get_rarer_and_are_never_all_at_once(place, monkeypatch):
    waits = []

    class Clock(threading.Event):
        def wait(self, timeout=None):
            waits.append(timeout)
            return super().wait(0)

    with Caller("127.0.0.1:1", place.authority, *place.own("a"), 100) as caller:
        monkeypatch.setattr(caller, "_closing", Clock())
        until(lambda: len(waits) > 60)
        caller._closing.set()
        until(lambda: not caller._fetcher.is_alive())
    most = module._LAST
    assert all(0 < wait <= 1.5 * most for wait in waits)
    assert max(waits[-30:]) > 0.9 * most
    assert waits[0] < 1.0
    assert len({round(wait, 6) for wait in waits[-30:]}) > 20


def test_a_site_that_is_not_admitted_yet_gets_in_as_soon_as_it_is(place, port):
    card = place.card("a").read_text()
    place.card("a").unlink()
    states = []
    with port.caller("a", states.append):
        until(lambda: states == [NOT_ADMITTED])
        place.card("a").write_text(card)
        until(lambda: states == [NOT_ADMITTED, CONNECTED])
        place.card("a").unlink()
        assert dict(port.server.send({0: b"x"}, 0.5)) == {}
        until(lambda: len(states) > 2)
        assert states[2].startswith("refused")


def test_a_server_with_a_foreign_certificate_gets_nothing(place, port):
    (place.folder / "other").mkdir()
    create_authority(place.folder / "other")
    states = []
    with Caller(port.address, place.folder / "other" / "ca.pem", *place.own("a"), 100, states.append):
        until(lambda: states)
    assert "certificate is not accepted" in states[0]
    assert port.server.nodes() == []


def test_a_server_for_another_host_gets_nothing(place, port):
    states = []
    own = place.own("a")
    with Caller(f"127.0.0.3:{port.port}", place.authority, *own, 100, states.append):
        until(lambda: states)
    assert "unreachable" in states[0]


def test_a_server_that_is_not_there_is_told_from_one_that_refuses(place):
    states = []
    with Caller(f"127.0.0.1:{free_port()}", place.authority, *place.own("a"), 100, states.append):
        until(lambda: states)
    assert states == ["unreachable: Connection refused"]


@pytest.mark.parametrize("said", [b"220 hello\r\n" * 9, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_what_is_no_server_of_a_federation(place, said):
    states = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with suppress(OSError):
                while True:
                    with listener.accept()[0] as visitor:
                        visitor.recv(1000)
                        visitor.sendall(said)

        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with Caller(address, place.authority, *place.own("a"), 100, states.append):
            until(lambda: states)
        listener.shutdown(socket.SHUT_RDWR)
    assert states[0].startswith("unreachable")
    assert "\n" not in states[0]


GOOD = b"question: 0123456789abcdef\r\nlength: 4"
HOSTILE = {
    "a name that fits no address": (b"question: " + b"x" * 70_000 + b"\r\nlength: 4", [b"data"], b"GET"),
    "a name that is a path": (b"question: ../../v1/question\r\nlength: 4", [b"data"], b"GET"),
    "more than it says": (GOOD, repeat(b"much more"), b"GET"),
    "endless thanks": (GOOD, repeat(b"thanks"), b"PUT"),
}


@contextmanager
def hostile(place, head, parts, method):
    """A server with the federation's own certificate that says what no server says; its port and its visitors."""
    certificates, asked = place.folder / "certificates", []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")

    def attend(visitor):
        with suppress(OSError), context.wrap_socket(visitor, server_side=True) as secure:
            asked.append(secure.recv(10_000))
            bad = asked[-1].startswith(method)
            secure.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"\r\ntransfer-encoding: chunked\r\n\r\n")
            for part in parts if bad else [b"data"]:
                secure.sendall(b"%x\r\n%b\r\n" % (len(part), part))
            secure.sendall(b"0\r\n\r\n")

    def serve():
        with suppress(OSError):
            while True:
                threading.Thread(target=attend, args=listener.accept()[:1], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1], asked
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_server_neither_ends_a_site_nor_fills_its_memory(place, kind):
    states, (head, parts, method) = [], HOSTILE[kind]
    with hostile(place, head, parts, method) as (port, asked):
        with Caller(f"127.0.0.1:{port}", place.authority, *place.own("a"), 100, states.append) as caller:
            answering = threading.Thread(target=caller.answer, args=(bytes,), daemon=True)
            answering.start()
            until(lambda: sum(line.startswith(method) for line in asked) > 3)
            assert answering.is_alive()
        assert method == b"PUT" or all(line.startswith(b"GET /v1/question?") for line in asked)
    assert any("a question" in state or "says more" in state for state in states)


def test_a_site_waits_longer_for_its_turn_than_the_longest_queue_at_the_port_lasts():
    assert 2 * server._WAITING / Limits().visitors_per_second < module.PATIENCE


def test_a_site_gets_in_behind_a_crowd_that_was_there_before(place):
    """The crowd says nothing, and the door takes its time: a site that gave up would have to queue again."""
    limits = Limits(visitors_at_once=1, visitors_per_second=2, handshake_seconds=60)
    with served(place, limits) as port, ExitStack() as crowd:
        for _ in range(23):
            crowd.enter_context(port.plain())
        with port.caller("a") as caller:
            until(lambda: caller.state != "connecting")
            assert caller.state == CONNECTED


def test_questions_that_come_while_a_site_is_busy_do_not_pile_up(port):
    busy = threading.Event()
    with port.site("a", lambda question: busy.wait(20) and question) as caller:
        for number in range(4):
            assert dict(port.server.send({0: b"question %d" % number}, 0.5)) == {}
        assert caller._questions.qsize() == 1
        busy.set()
        assert dict(port.server.send({0: b"the last"}, 20)) == {0: b"the last"}


def test_a_question_that_is_too_long_is_not_taken(port):
    states = []
    with port.site("a", most=1000, tell=states.append):
        assert dict(port.server.send({0: bytes(1001)}, 1.0)) == {}
        assert any("1,001" in state for state in states)
        assert dict(port.server.send({0: bytes(1000)}, 20)) == {0: bytes(1000)}


def test_an_answer_that_is_too_long_does_not_stop_the_site(place):
    with served(place, most=1000) as port, port.site("a", lambda question: question * 2):
        ((node, failure),) = port.server.send({0: bytes(501)}, 20)  # at once, and not when time is over
        assert (node, failure.reason) == (0, "has an answer of more than 1,000 bytes, the plan's most_bytes")
        assert dict(port.server.send({0: bytes(500)}, 20)) == {0: bytes(1000)}
        assert port.refusals("a: an answer of more than 1,000")


def test_an_exception_ends_the_site(port):
    class Broken(Exception):
        pass

    def broken(question):
        raise Broken(question)

    with port.caller("a") as caller:
        asking = threading.Thread(target=lambda: list(port.server.send({0: b"x"}, 1.0)), daemon=True)
        until(lambda: port.server.nodes() == [0])
        asking.start()
        with pytest.raises(Broken):
            caller.answer(broken)
        asking.join()


def test_it_ends_at_once_while_it_waits_and_tells_nothing_more(port):
    states = []
    with port.site("a", tell=states.append):
        until(lambda: states)
        began = time.monotonic()
    assert time.monotonic() - began < 4
    assert "questions" not in {thread.name for thread in threading.enumerate()}
    assert states == [CONNECTED]


def test_it_ends_at_once_while_it_brings_an_answer(port):
    data = bytes(30 * MEGABYTE)
    with port.caller("a") as caller:
        threading.Thread(target=caller.answer, args=(lambda question: data,), daemon=True).start()
        until(lambda: port.server.nodes() == [0])
        answers = []
        asking = threading.Thread(target=lambda: answers.extend(port.server.send({0: b"x"}, 3)))
        asking.start()
        until(lambda: port.server.desk.questions and port.server.desk.questions["a"].answer)
    asking.join()
    assert answers in ([], [(0, data)])


def test_a_server_that_has_moved_is_called_at_its_new_address(place):
    with served(place, QUICK) as port, port.site("a"):
        assert port.exchange() == {0: b"question"}
    with served(place, QUICK) as port, port.site("a"):
        assert port.exchange() == {0: b"question"}


def test_two_callers_with_one_certificate_fail_with_a_word_and_no_harm(port):
    with port.site("b"), port.site("a", lambda question: time.sleep(0.2) or b"1"), port.caller("a") as other:
        threading.Thread(
            target=other.answer, args=(lambda question: time.sleep(0.2) or b"2",), daemon=True
        ).start()
        until(lambda: other.state == CONNECTED)
        for _ in range(3):
            got = dict(port.server.send({0: b"x", 1: b"y"}, 20))
            assert got[1] == b"y"
            assert got[0] in (b"1", b"2") or "is here twice" in got[0].reason


def test_a_proxy_for_going_out_does_not_see_what_stays_on_this_machine(port, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with port.site("a"):
        assert port.exchange() == {0: b"question"}


def test_files_that_cannot_be_used_are_told_in_one_line(place):
    certificate, key = place.own("a")
    wrong = place.folder / "wrong.pem"
    wrong.write_text("nonsense")
    absent = place.folder / "absent.pem"
    other = place.own("b")[1]
    for given in [
        (absent, certificate, key),
        (wrong, certificate, key),
        (place.authority, absent, key),
        (place.authority, wrong, key),
        (place.authority, certificate, absent),
        (place.authority, certificate, other),
    ]:
        with pytest.raises(UserError, match="join again") as error:
            Caller("127.0.0.1:1", *given, 100)
        assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="no address"):
        Caller("127.0.0.1", place.authority, certificate, key, 100)
