"""Whoever is not admitted, or does not behave: nobody crashes the server or holds up the others; all are logged.

Messages that are sent again and those of another plan are the envelope's: see ``tests/federation/test_site.py``.
"""

import socket
import ssl
import threading
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.federation.transport.https.port import (
    MOST,
    QUICK,
    Place,
    is_ended,
    read_reply,
    served,
    until,
)
from unalike.federation.transport import Failure
from unalike.federation.transport.https import admitted
from unalike.federation.transport.https.certificates import create_authority, create_site
from unalike.federation.transport.https.desk import PIECE
from unalike.federation.transport.https.door import Limits

GET = b"GET /v1/question?process=p&wait=0 HTTP/1.1\r\nHost: x\r\n"


def shaken(port, name=None, context=None):
    """Whether hands can be shaken so that a request is answered; TLS 1.3 tells a client only after its part."""
    with suppress(OSError), port.secure(name, context) as secure:
        secure.sendall(GET + b"\r\n")
        return read_reply(secure)[0] == 204
    return False


def is_logged(port, *words):
    """Whether a refusal with these words is logged once, with the address."""
    until(lambda: port.refusals(*words))
    assert len(port.refusals(*words)) == 1
    return "127.0.0.1:" in port.refusals(*words)[0]


def test_an_admitted_site_is_served(port):
    assert shaken(port, "a")
    assert not port.lines


def test_no_certificate(port):
    assert not shaken(port)
    assert not shaken(port)
    assert is_logged(port, "peer did not return a certificate")


def foreign_certificates(place):
    certificates = place.folder / "certificates"
    (other := place.folder / "other").mkdir()
    create_authority(other)
    place.issue("of another authority", "a", other / "ca.key", "unalike federation")
    place.join("stranger")
    place.issue("with a site's name", "a")
    place.issue("signed by a site", "stranger", place.own("a")[1], "a")
    place.issue("signed by a site with its own name", "a", place.own("a")[1], "a")
    place.issue("of the federation's authority", "stranger", certificates / "ca.key", "unalike federation")
    return [path.parent.name for path in place.folder.glob("*/node.pem") if path.parent.name not in place.names]


def test_foreign_certificates(place):
    names = foreign_certificates(place)
    assert len(names) == 6
    for name in names:
        with served(place) as port:
            assert not shaken(port, name), name
            assert shaken(port, "a")
            assert is_logged(port, "its certificate is not that of an admitted site")


def test_a_chain_with_an_admitted_certificate_in_it_is_of_its_first(place, port):
    """A certificate is shown whole in the handshake; only who has the first one's key passes."""
    place.issue("stranger", "stranger", place.own("a")[1], "a")
    certificate, _ = place.own("stranger")
    certificate.write_bytes(certificate.read_bytes() + place.own("a")[0].read_bytes())
    assert not shaken(port, "stranger")


def test_a_card_cannot_bring_an_authority_or_anothers_name_into_force(place, port):
    """A hostile site's card with a second certificate behind its own, and one whose subject is another site's."""
    (place.folder / "evil").mkdir()
    create_authority(place.folder / "evil")
    place.admit("b", place.join("b") + (place.folder / "evil" / "ca.pem").read_text())
    place.issue("stranger", "a", place.folder / "evil" / "ca.key", "unalike federation")
    assert not shaken(port, "stranger")
    place.admit("c", place.issue("c", "a"))
    assert shaken(port, "a")
    assert shaken(port, "b")
    assert not shaken(port, "c")  # it only locks out itself


def test_a_removed_card_ends_new_and_open_connections(place, port):
    with port.secure("a") as secure:
        secure.sendall(GET + b"\r\n")
        assert read_reply(secure)[0] == 204
        place.card("a").unlink()
        assert not shaken(port, "a")
        secure.sendall(GET + b"\r\n")
        assert read_reply(secure)[0] == 403
        assert is_ended(secure)
    assert is_logged(port, "a: not admitted any more")
    assert shaken(port, "b")


def test_a_replaced_certificate_ends_connections_with_the_old_one(place, port):
    """The site lost its key, and was admitted again: who has the old key is out at once."""
    with port.secure("a") as secure:
        secure.sendall(GET + b"\r\n")
        assert read_reply(secure)[0] == 204  # it is in
        place.issue("a", "a")
        place.admit("a", place.own("a")[0].read_text())
        secure.sendall(GET + b"\r\n")
        assert read_reply(secure)[0] == 403
    assert shaken(port, "a")


def test_who_is_removed_while_it_waits_gets_no_question(place, port):
    with port.secure("a") as secure:
        secure.sendall(GET.replace(b"&wait=0", b"") + b"\r\n")
        until(lambda: port.server.nodes() == [0])
        place.card("a").unlink()
        assert dict(port.server.send({0: b"secret"}, 0.3)) == {}
        status, _, body = read_reply(secure)
    assert status == 403
    assert b"secret" not in body


def test_a_session_cannot_be_resumed_after_a_removal(place, port):
    context = port.context("a")
    with port.secure(context=context) as secure:
        secure.sendall(GET + b"\r\n")
        assert read_reply(secure)[0] == 204
        session = secure.session
    assert not session.has_ticket
    with port.secure(context=context, session=session) as again:
        assert not again.session_reused
    place.card("a").unlink()
    assert not shaken(port, context=context)


def test_an_expired_certificate_is_refused(place, port):
    place.admit("a", place.issue("a", "a", days=-1, began=9))
    assert not shaken(port, "a")
    assert is_logged(port, "certificate has expired")
    place.admit("b", place.issue("b", "b", began=-1))
    assert not shaken(port, "b")
    assert is_logged(port, "certificate is not yet valid")


def test_a_certificate_that_expires_ends_open_connections(place, port, monkeypatch):
    with port.secure("a") as secure:
        secure.sendall(GET + b"\r\n")  # the client's side of the handshake ends before the server's
        assert read_reply(secure)[0] == 204
        later = (datetime.now(UTC) + timedelta(days=3651)).timestamp()
        monkeypatch.setattr(admitted.time, "time", lambda: later)
        secure.sendall(GET + b"\r\n")
        assert read_reply(secure)[0] == 403


def test_plain_http(port):
    with port.plain() as plain:
        plain.sendall(GET + b"\r\n")
        assert is_ended(plain)
    assert is_logged(port, "http request")
    assert shaken(port, "a")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_older_tls(port, version):
    context = port.context("a")
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    assert not shaken(port, context=context)
    assert is_logged(port, "unsupported protocol")


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_a_slow_handshake(port, said):
    with port.plain() as plain:
        plain.sendall(said)
        began = time.monotonic()
        assert is_ended(plain)
        assert time.monotonic() - began < 5
    assert is_logged(port, "not done within 0.4 s")


def dribble(connection, data, pause=0.05, most=5.0):
    """Send byte after byte until the other side ends it; whether it did."""
    end = time.monotonic() + most
    with suppress(OSError):
        for byte in data:
            assert time.monotonic() < end
            connection.sendall(bytes([byte]))
            time.sleep(pause)
        return is_ended(connection)
    return True


def test_a_dribbled_handshake(port):
    with port.plain() as plain:
        assert dribble(plain, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100))
    assert is_logged(port, "not done within")


def test_a_dribbled_header(port):
    with port.secure("a") as secure:
        assert dribble(secure, GET + b"x: " + b"y" * 100)
    assert is_logged(port, "its request was not whole in time")


def test_a_second_request_is_dribbled(port):
    with port.secure("a") as secure:
        for _ in range(3):
            secure.sendall(GET + b"\r\n")
            assert read_reply(secure)[0] == 204
        assert dribble(secure, GET + b"x: " + b"y" * 100)
    assert is_logged(port, "its request was not whole in time")


def test_a_second_header_that_begins_with_the_first_request(port):
    with port.secure("a") as secure:
        secure.sendall(GET + b"\r\n" + GET)
        assert read_reply(secure)[0] == 204
        assert is_ended(secure)


def put(name, begin, of, body, more=b"", length=None):
    length = len(body) if length is None else length
    head = f"PUT /v1/answer/{name}?from={begin}&of={of} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n"
    return head.encode() + more + b"\r\n" + body


def ask(port, party, data=b"question", seconds=20):
    """Ask one site in the background; the thread, and a list that gets the answers."""
    answers = []
    node = port.place.names.index(party)
    thread = threading.Thread(target=lambda: answers.extend(port.server.send({node: data}, seconds)), daemon=True)
    thread.start()
    until(lambda: party in port.server.desk.questions)
    return thread, answers


def fetch(secure, process="p"):
    for _ in range(3):  # the question may not be there yet: a site then asks again
        secure.sendall(GET.replace(b"process=p", f"process={process}".encode()) + b"\r\n")
        status, headers, body = read_reply(secure)
        if "question" in headers or not 200 <= status < 300:
            break
    return status, headers, body


def test_a_slow_body(port):
    thread, answers = ask(port, "a")
    with port.secure("a") as secure:
        name = fetch(secure)[1]["question"]
        secure.sendall(put(name, 0, 500, b"", length=500))
        assert dribble(secure, bytes(500))
    assert is_logged(port, "a: its body was not whole in time")
    with port.secure("a") as secure:  # what came counts: the site goes on from there
        secure.sendall(put(name, 0, 500, bytes(500)))
        status, headers, _ = read_reply(secure)
        assert status == 409
        have = int(headers["have"])
        assert 0 < have < 500
        secure.sendall(put(name, have, 500, bytes(500 - have)))
        assert read_reply(secure)[0] == 200
    thread.join(10)
    assert answers == [(0, bytes(500))]


def test_a_slow_reader_of_a_large_question(place):
    with served(place) as port:
        thread, answers = ask(port, "a", bytes(MOST), 2.0)
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.connect(("127.0.0.1", port.port))
        with port.context("a").wrap_socket(listener, server_hostname="127.0.0.1") as secure:
            secure.sendall(GET + b"\r\n")
            secure.recv(1000)
            assert is_logged(port, "a: it did not take its answer in time")
            assert shaken(port, "b")
        thread.join(10)
        assert answers == []


SMUGGLED = {
    "two lengths": put("x", 0, 9, b"123456789", b"Content-Length: 3\r\n"),
    "chunks and a length": put("x", 0, 9, b"0\r\n\r\n", b"Transfer-Encoding: chunked\r\n"),
    "chunks": b"PUT /v1/answer/x?from=0&of=9 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another coding": put("x", 0, 9, b"", b"Transfer-Encoding: gzip\r\n"),
    "a bare line end in a header": GET + b"x: y\nContent-Length: 5\r\n\r\n" + b"GET /",
    "a bare carriage return": GET + b"x: y\rContent-Length: 5\r\n\r\n",
    "a null byte": GET + b"x: y\0z\r\n\r\n",
    "a folded header": GET + b"x: y\r\n  z\r\nupgrade: h2c\r\n\r\n",
    "a blank before the colon": GET + b"content-length : 5\r\n\r\nGET /",
    "a length with a sign": put("x", 0, 9, b"", b"", "+9"),
    "a length in hexadecimal": put("x", 0, 9, b"", b"", "0x9"),
    "an absolute address": GET.replace(b"/v1", b"https://127.0.0.1/v1") + b"\r\n",
    "two slashes": GET.replace(b"/v1", b"//v1") + b"\r\n",
    "dots": GET.replace(b"/v1", b"/v1/../v1") + b"\r\n",
    "coded dots": GET.replace(b"/v1", b"/%2e%2e/v1") + b"\r\n",
    "coded letters": GET.replace(b"question?", b"%71uestion?") + b"\r\n",
    "a host's authority": b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: x\r\n\r\n",
    "everything": b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    "another method": GET.replace(b"GET", b"POST") + b"\r\n",
    "the header only": GET.replace(b"GET", b"HEAD") + b"\r\n",
    "a method in small letters": GET.replace(b"GET", b"get") + b"\r\n",
    "it expects": put("x", 0, 9, b"123456789", b"Expect: 100-continue\r\n"),
    "another protocol": GET + b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/1.0": GET.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n",
    "HTTP/0.9": b"GET /v1/question\r\n\r\n",
    "no host": b"GET /v1/question HTTP/1.1\r\n\r\n",
    "two hosts": GET + b"Host: y\r\n\r\n",
    "a body that asks": GET + b"Content-Length: 5\r\n\r\nhello",
    "not HTTP": b"\x00\xff" * 40 + b"\r\n\r\n",
    "a wrong target": "GET /v1/fragé HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
}


@pytest.mark.parametrize("kind", SMUGGLED)
def test_what_two_readers_could_take_differently_ends_the_connection(port, kind):
    """One answer, which refuses; what stands behind it is never taken for a request."""
    with port.secure("a") as secure:
        secure.sendall(SMUGGLED[kind] + GET + b"\r\n")
        status, headers, _ = read_reply(secure)
        assert status >= 400
        assert headers["connection"] == "close"
        assert is_ended(secure)
    assert is_logged(port, "a")
    assert shaken(port, "a")


def test_requests_in_a_row_are_answered_one_after_the_other(port):
    with port.secure("a") as secure:
        secure.sendall((GET + b"\r\n") * 5)
        got = b""
        while got.count(b"204 No Content") < 5:
            got += secure.recv(65536)
    assert not port.lines


@pytest.mark.parametrize(
    ("said", "status", "word"),
    [
        (GET + b"x: " + b"y" * (17 << 10), 400, "no HTTP request"),
        (GET + b"x: " + b"y" * (17 << 10) + b"\r\n\r\n", 400, ""),
        (GET + b"x: y\r\n" * 5000 + b"\r\n", 400, ""),
        (GET.replace(b"p&", b"p" * 20000 + b"&") + b"\r\n", 400, ""),
        (put("x", 0, MOST, b"", length=PIECE + 1), 413, "a body of more than"),
        (put("x", 0, MOST, b"", length=10**30), 400, ""),
    ],
)
def test_oversized(port, said, status, word):
    with port.secure("a") as secure:
        secure.sendall(said)
        assert status <= read_reply(secure)[0] <= 431
        assert is_ended(secure)
    assert is_logged(port, word)


@pytest.mark.parametrize(
    ("begin", "of", "body", "status"),
    [
        (0, 10**40, b"x", 400),
        (0, "-1", b"x", 400),
        ("", 1, b"x", 400),
        (0, "%C2%B2", b"x", 400),
        (2, 1, b"x", 413),
        (0, 5, b"123456", 413),
        (5, 5, b"1", 413),
        (3, 5, b"12", 409),
    ],
)
def test_pieces_that_do_not_fit(port, begin, of, body, status):
    thread, answers = ask(port, "a")
    with port.secure("a") as secure:
        name = fetch(secure)[1]["question"]
        secure.sendall(put(name, begin, of, body))
        assert read_reply(secure)[0] == status
        assert not port.server.desk.questions["a"].answer
    with port.secure("a") as secure:
        secure.sendall(put(name, 0, 2, b"ok"))
        assert read_reply(secure)[0] == 200
    thread.join(10)
    assert answers == [(0, b"ok")]
    assert bool(port.lines) == (status != 409)


@pytest.mark.parametrize("of", [MOST + 1, 10**14])
def test_an_answer_that_says_that_it_is_too_long_is_given_up_at_once(port, of):
    thread, answers = ask(port, "a")
    with port.secure("a") as secure:
        name = fetch(secure)[1]["question"]
        secure.sendall(put(name, 0, of, b"x"))
        assert read_reply(secure)[0] == 413
    thread.join(10)
    ((node, failure),) = answers
    assert (node, "more than" in failure.reason) == (0, True)
    assert is_logged(port, "an answer of more than")


def test_a_site_cannot_ask_for_or_answer_anothers_question(port):
    thread, answers = ask(port, "b", b"for b")
    with port.secure("b") as own, port.secure("a") as other:
        name = fetch(own)[1]["question"]
        assert fetch(other)[0] == 204
        other.sendall(GET.replace(b"process=p", b"part=" + name.encode() + b"&from=0") + b"\r\n")
        assert read_reply(other)[0] == 204
        other.sendall(put(name, 0, 4, b"lies"))
        assert read_reply(other)[0] == 410
        own.sendall(put(name, 0, 5, b"truth"))
        assert read_reply(own)[0] == 200
        own.sendall(put(name, 0, 5, b"truth"))  # once is enough
        assert read_reply(own)[0] == 410
    thread.join(10)
    assert answers == [(1, b"truth")]


def test_an_old_id_is_nobodys(port):
    with port.secure("a") as secure:
        thread, first = ask(port, "a", b"1", 0.5)
        name = fetch(secure)[1]["question"]
        secure.sendall(put(name, 0, 4, b"ol"))
        assert read_reply(secure)[0] == 200
        thread.join(10)
        thread, second = ask(port, "a", b"2")
        secure.sendall(put(name, 2, 4, b"d!"))
        assert read_reply(secure)[0] == 410
        name = fetch(secure)[1]["question"]
        secure.sendall(put(name, 0, 3, b"new"))
        assert read_reply(secure)[0] == 200
        thread.join(10)
    assert first == []
    assert second == [(0, b"new")]


def test_two_connections_that_bring_the_same_piece_do_not_mix(port):
    thread, answers = ask(port, "a")
    answer = bytes(range(200))
    with port.secure("a") as one, port.secure("a") as two:
        name = fetch(one)[1]["question"]
        one.sendall(put(name, 0, 200, answer[:60], length=200))
        question = port.server.desk.questions["a"]
        until(lambda: len(question.answer) == 60)
        two.sendall(put(name, 60, 200, answer[60:100], length=140))
        until(lambda: len(question.answer) == 100)
        one.sendall(answer[60:])  # late: it was thought to be lost
        assert read_reply(one)[0] == 409
        two.sendall(answer[100:])
        assert read_reply(two)[0] == 200
    thread.join(10)
    assert answers == [(0, answer)]


def test_many_connections_of_one_site_push_out_its_oldest(port):
    most = port.server.door.limits.connections_of_a_site
    with port.site("b"), ExitStack() as stack:
        open_ones = [stack.enter_context(port.secure("a")) for _ in range(most + 3)]
        assert is_ended(open_ones[0])
        until(lambda: len(port.server.door.sites["a"]) == most)
        assert fetch(open_ones[-1])[0] == 204
        assert dict(port.server.send({1: b"question"}, 20)) == {1: b"question"}
    assert is_logged(port, "too many connections of a")


def test_who_says_nothing_after_the_handshake_is_let_go_without_a_line(port):
    with port.secure("a") as secure:
        assert is_ended(secure)
    assert not port.lines


def test_a_crowd_pushes_out_itself(place):
    limits = Limits(strangers=12, strangers_of_an_address=8, visitors_at_once=1000)
    with served(place, limits) as port, ExitStack() as stack, port.site("a"):
        crowd = [stack.enter_context(port.plain()) for _ in range(40)]
        assert all(is_ended(one) for one in crowd[:32])
        until(lambda: len(port.server.door.strangers) == 8)
        others = [stack.enter_context(port.plain("127.0.0.2")) for _ in range(12)]
        assert is_ended(crowd[32])
        until(lambda: len(port.server.door.strangers) == 12)
        assert is_logged(port, "127.0.0.1", "too many connections from this address")
        with port.site("b"), port.site("c"):
            assert port.exchange(data=b"1") == {0: b"1", 1: b"1", 2: b"1"}
        del others


def test_a_crowd_comes_in_at_the_doors_pace(place):
    limits = Limits(visitors_at_once=10, visitors_per_second=50.0)
    with served(place, limits) as port, ExitStack() as stack:
        began = time.monotonic()
        for _ in range(40):
            stack.enter_context(port.plain())
        assert shaken(port, "a")  # its turn comes: after the 10 at once, 31 others at 50 a second
        assert 0.5 < time.monotonic() - began < 10


def test_the_log_cannot_be_filled(place):
    with served(place) as port:
        for number in range(10):
            with port.secure("a") as secure:
                secure.sendall(GET.replace(b"question", b"%d" % number) + b"\r\n")
                assert read_reply(secure)[0] == 404
            with port.secure("a") as secure:
                secure.sendall(put("x" * number, f"y{number}", f"z{number}", b""))
                assert read_reply(secure)[0] == 410
        assert len(port.lines) == 1
        door = port.server.door
        for number in range(3000):
            door.refused(f"2001:db8::{number:x}", number, "too many connections")
        assert len(port.lines) <= 1001
        door._minute -= 61  # a minute later
        door.refused("127.0.0.1", 1, "a: asked for what is not served")
        assert port.lines[-1].endswith("(10 times before)")


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    with served(Place(tmp_path_factory.mktemp("fuzzed")), QUICK) as port, port.site("b"):
        yield port


PARTS = [GET, b"PUT /v1/answer/x?from=0&of=5 HTTP/1.1\r\nHost: x\r\n", b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"]
PARTS += [b"\r\n", b"\n", b"hello", b"5\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"]
PARTS += [b"Expect: 100-continue\r\n", b"Upgrade: x\r\n", b"Connection: close\r\n", GET + b"\r\n"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(st.one_of(st.binary(max_size=300), st.sampled_from(PARTS)), max_size=8), apart=st.booleans())
def test_random_bytes_after_the_handshake_harm_nobody(fuzzed, said, apart):
    with suppress(OSError), fuzzed.secure("a") as secure:
        for part in said if apart else [b"".join(said)]:
            secure.sendall(part)
        secure.shutdown(socket.SHUT_WR)
        is_ended(secure)
    assert dict(fuzzed.server.send({1: b"still here"}, 20)) == {1: b"still here"}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.binary(max_size=600))
def test_random_bytes_before_the_handshake_harm_nobody(fuzzed, said):
    with suppress(OSError), fuzzed.plain() as plain:
        plain.sendall(b"\x16\x03\x01" + said if len(said) % 2 else said)
        plain.shutdown(socket.SHUT_WR)
        is_ended(plain)
    assert fuzzed.server.nodes() == [1] or fuzzed.server.nodes() == [0, 1]


def test_a_failing_site_does_not_hold_up_the_others(port):
    with port.site("a"), port.secure("b") as silent:
        assert fetch(silent)[0] == 204
        began = time.monotonic()
        got = {}
        for node, answer in port.server.send({0: b"x", 1: b"x"}, 1.0):
            got[node] = answer, time.monotonic() - began
        assert got[0][0] == b"x"
        assert got[0][1] < 0.9
        assert isinstance(got.get(1, (Failure("late"),))[0], Failure)


def test_a_certificate_without_its_key_is_of_no_use(place, port):
    create_site(place.folder / "other.key", place.folder / "other.pem", "a")
    with pytest.raises(ssl.SSLError):
        ssl.create_default_context().load_cert_chain(place.own("a")[0], place.folder / "other.key")
