"""The transport as the server's logic sees it: sites in threads, a real port on loopback."""

import gc
import math
import os
import socket
import ssl
import threading
import time
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.federation.transport.https.port import MOST, QUICK, Place, free_port, is_ended, served, until
from tests.federation.transport.https.test_outsiders import GET, fetch, put
from unalike.errors import UserError
from unalike.federation.transport import Failure
from unalike.federation.transport.https import server as module
from unalike.federation.transport.https.certificates import issue_server
from unalike.federation.transport.https.door import Limits


def test_every_node_gets_its_own_bytes_and_answers_come_as_they_arrive(port):
    turns = {name: threading.Event() for name in "abc"}

    def answering(name):
        def answer(question):
            assert turns[name].wait(20)
            return question[::-1]

        return answer

    with port.site("c", answering("c")), port.site("a", answering("a")), port.site("b", answering("b")):
        assert port.server.nodes() == [0, 1, 2]
        answers = port.server.send({0: b"for a", 1: b"for b", 2: b"for c"}, 20)
        for name, node in (("b", 1), ("c", 2), ("a", 0)):
            turns[name].set()
            assert next(answers) == (node, f"{name} rof".encode())
        assert list(answers) == []


def test_nobody_is_there_at_first_and_a_node_is_a_partys_place(port):
    assert port.server.nodes() == []
    with port.site("c"):
        assert port.server.nodes() == [2]


@pytest.mark.parametrize("size", [0, 1, (1 << 18) - 1, 1 << 18, 1 << 20, (1 << 20) + 1, 5_000_000])
def test_bytes_of_any_length_go_both_ways(port, size):
    data = os.urandom(size)
    with port.site("a", lambda question: question + b"!"):
        assert dict(port.server.send({0: data}, 20)) == {0: data + b"!"}
    with port.site("b", lambda question: question[1:]):
        assert dict(port.server.send({1: data}, 20)) == {1: data[1:]}


def test_a_late_answer_is_never_taken_for_another(port):
    hold = threading.Event()

    def slow(question):
        if question == b"first":
            assert hold.wait(20)
        return question

    with port.site("a", slow), port.site("b"):
        assert dict(port.server.send({0: b"first", 1: b"x"}, 0.3)) == {1: b"x"}
        answers = port.server.send({0: b"second", 1: b"y"}, 20)
        assert next(answers) == (1, b"y")
        hold.set()
        assert list(answers) == [(0, b"second")]


def test_a_straggler_answers_the_newest_question_only(port):
    """Else one that is slower than the deadline would work on old questions for ever."""
    seen, hold = [], threading.Event()

    def slow(question):
        seen.append(question)
        assert hold.wait(20)
        return question

    with port.site("a", slow):
        for number in range(5):
            assert dict(port.server.send({0: b"%d" % number}, 0.2)) == {}
        answers = port.server.send({0: b"last"}, 20)
        threading.Timer(0.3, hold.set).start()
        assert list(answers) == [(0, b"last")]
    assert seen == [b"0", b"last"]


def test_time_is_over_when_it_is_over(port):
    with port.site("a", lambda question: time.sleep(1.0) or question):
        began = time.monotonic()
        assert dict(port.server.send({0: b""}, 0.4)) == {}
        assert 0.4 <= time.monotonic() - began < 0.9
    assert dict(port.server.send({}, 9)) == {}


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan])
def test_a_deadline_is_needed(port, seconds):
    with pytest.raises(ValueError, match="deadline"):
        next(port.server.send({0: b""}, seconds))


def test_it_stops_when_told(port):
    asked = []
    with port.site("a", lambda question: time.sleep(0.5) or question):
        assert dict(port.server.send({0: b""}, 1e6, lambda: len(asked) > 2 or asked.append(1))) == {}
    assert not port.server.desk.questions


def test_a_site_that_is_killed_and_started_again_is_a_failure_and_can_be_asked_anew(port):
    with port.secure("a") as first:
        first.sendall(GET.replace(b"&wait=0", b"") + b"\r\n")
        until(lambda: port.server.nodes() == [0])
        answers = port.server.send({0: b"x"}, 20)
        threading.Timer(0.3, first.close).start()
        with port.site("a"):
            assert "was started again" in next(answers)[1].reason
            assert list(answers) == []
            assert dict(port.server.send({0: b"x"}, 20)) == {0: b"x"}


def test_a_site_that_is_silent_is_gone_and_the_others_are_not_kept(port, monkeypatch):
    monkeypatch.setattr(module, "GONE", 0.4)
    with port.site("b", lambda question: time.sleep(1.0) or question), port.secure("a") as silent:
        assert fetch(silent)[0] == 204
        got = port.server.send({0: b"x", 1: b"y"}, 30)
        assert next(got) == (0, Failure("lost its connection"))
        assert next(got) == (1, b"y")  # which works for longer than that, and is there all the while


def test_the_server_is_started_again_and_sites_come_back_by_themselves(place):
    number, hold = free_port(), threading.Event()

    def answer(question):
        if question == b"before":
            assert hold.wait(20)
        return question

    states = []
    with served(place, QUICK, number) as port:
        site = port.site("a", answer, tell=states.append)
        caller = site.__enter__()
        assert dict(port.server.send({0: b"before"}, 0.3)) == {}
    try:
        with served(place, QUICK, number) as port:
            hold.set()  # the answer to a question that nobody knows any more is refused, and that is all
            until(lambda: port.server.nodes() == [0])
            assert dict(port.server.send({0: b"after"}, 20)) == {0: b"after"}
            caller.__exit__(None, None, None)
        assert states[0] == states[-1] == "connected"
        assert any(state.startswith("unreachable") for state in states)
    finally:
        hold.set()


def test_a_renewed_certificate_is_used_at_once(place, port):
    def serial():
        with port.secure("a") as secure:
            return secure.getpeercert()["serialNumber"]

    first = serial()
    assert serial() == first
    issue_server(place.folder / "certificates", ["127.0.0.1"])
    assert serial() != first


def test_twenty_sites_at_once(tmp_path):
    names = [f"s{number:02}" for number in range(20)]
    with served(Place(tmp_path, names), Limits()) as port:
        callers = [port.caller(name) for name in names]
        for caller in callers:
            caller.__enter__()
            threading.Thread(target=lambda caller=caller: caller.answer(bytes.upper), daemon=True).start()
        until(lambda: len(port.server.nodes()) == 20)
        for word in (b"a", b"b"):
            assert port.exchange(data=word) == dict.fromkeys(range(20), word.upper())
        for caller in callers:
            caller.__exit__(None, None, None)


def test_exchanges_from_several_threads_do_not_mix(port):
    wrong = []

    def ask(node):
        for number in range(40):
            data = b"%d %d" % (node, number)
            if dict(port.server.send({node: data}, 20)) != {node: data}:
                wrong.append(data)

    with port.site("a"), port.site("b"), port.site("c"):
        threads = [threading.Thread(target=ask, args=(node,)) for node in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


FILES = Path("/proc/self/fd")


def sockets():
    """How many sockets this process has open."""
    found = 0
    for path in FILES.iterdir():
        with suppress(OSError):
            found += str(path.readlink()).startswith("socket:")
    return found


@pytest.mark.skipif(not FILES.exists(), reason="needs Linux's list of open files")
def test_nothing_is_left_when_it_closes_whoever_is_there(place):
    gc.collect()
    before = sockets()
    with warnings.catch_warnings(), ExitStack() as stay:
        warnings.simplefilter("error", ResourceWarning)
        with served(place, Limits()) as port:
            silent, stranger = (stay.enter_context(port.plain()) for _ in range(2))
            idle, waits, sends, reads = (stay.enter_context(port.secure(name)) for name in "aaac")
            site = port.site("b")
            caller = site.__enter__()
            stay.callback(caller.__exit__, None, None, None)
            stranger.sendall(b"\x16\x03\x01")
            assert fetch(idle)[0] == 204
            waits.sendall(GET.replace(b"&wait=0", b"") + b"\r\n")
            sends.sendall(put("x", 0, 5, b"12", length=5))
            reads.sendall(GET.replace(b"&wait=0", b"") + b"\r\n")
            until(lambda: port.server.nodes() == [0, 1, 2])
            assert list(port.server.send({2: bytes(MOST)}, 0.2)) == []  # which is never read to its end
            ends = time.monotonic()
        assert time.monotonic() - ends < 4
        assert all(map(is_ended, (silent, stranger, idle, waits, sends, reads)))
    gc.collect()
    assert sockets() <= before
    assert not {"https", "questions"} & {thread.name for thread in threading.enumerate()}


def test_an_exchange_that_was_left_is_forgotten_even_after_the_end(place):
    with served(place) as port, port.site("a", lambda question: time.sleep(0.2) or question):
        left = port.server.send({0: b"x", 1: b"y"}, 20)
        assert next(left) in [(0, b"x"), (1, Failure("lost its connection"))]
    left.close()


def test_what_cannot_be_opened_is_told_in_one_line(place):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(UserError, match="Is another server running"), served(place, port=number):
            pass
    with pytest.raises(UserError, match="--listen"), served(place, host="192.0.2.1"):
        pass
    with pytest.raises(UserError, match="--listen"), served(place, host="no.such.host.invalid"):
        pass
    (place.folder / "certificates" / "server.pem").write_text("nonsense")
    with pytest.raises(UserError, match="do not fit"), served(place):
        pass


def test_a_site_may_call_over_ipv6(place):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with served(place, host="::1") as port:
        context = port.context("a")
        with (
            socket.create_connection(("::1", port.port)) as plain,
            context.wrap_socket(plain, server_hostname="::1") as secure,
        ):
            assert fetch(secure)[0] == 204


def test_the_address_is_logged_over_ipv6_too(place):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with served(place, host="::1") as port:
        with socket.create_connection(("::1", port.port)) as plain:
            plain.sendall(b"hello, is anybody there?")
            plain.recv(100)
        until(lambda: port.refusals("::1:"))


def test_tls_1_3_is_spoken(port):
    with port.secure("a") as secure:
        assert secure.version() == "TLSv1.3"
        assert secure.compression() is None
        assert ssl.HAS_TLSv1_3
