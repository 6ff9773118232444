"""The proxy as a process, in front of a server that writes down what reaches it."""

import http.server
import json
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import ClassVar

import httpx
import pytest

from unalike.federation.transport.flower.certificates import create_authority, issue_server, why_unreachable
from unalike.federation.transport.flower.nginx import nginx_configuration
from unalike.federation.transport.flower.processes import Child, free_port
from unalike.federation.transport.flower.proxy import REQUESTS, Limits, RequestRefused, check

GOOD = "/v1/fleet/pull-messages"


class Upstream(http.server.BaseHTTPRequestHandler):
    """Answers everything with 200 and keeps (method, path, headers, body)."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.seen.append((self.command, self.path, dict(self.headers), body))
        answer = b"answer:" + body[:100]
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.send_header("x-internal", "not for strangers")
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_POST  # noqa: N815

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """(address of the proxy, folder, the proxy's process, what reached the server behind it)"""
    folder = tmp_path_factory.mktemp("proxy")
    create_authority(folder)
    issue_server(folder, ["127.0.0.1"])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = free_port()
    arguments = ["--listen", "127.0.0.1", "--port", str(port), "--certificates", str(folder)]
    arguments += ["--upstream", f"https://127.0.0.1:{server.server_port}"]
    child = Child("unalike.federation.transport.flower.proxy:main", arguments, folder, folder / "proxy.log")
    child.start()
    end = time.monotonic() + 60
    while (reason := why_unreachable(f"127.0.0.1:{port}", folder / "ca.pem")) and time.monotonic() < end:
        time.sleep(0.05)
    assert reason is None, child.output()
    yield f"127.0.0.1:{port}", folder, child, Upstream.seen
    pid = child.pid
    child.stop()
    server.shutdown()
    assert pid is not None, "the proxy died during the tests"


@pytest.fixture
def client(served):
    address, folder, _, seen = served
    seen.clear()
    trusted = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    with httpx.Client(base_url=f"https://{address}", verify=trusted, trust_env=False) as client:
        yield client


@pytest.fixture
def raw(served):
    """Send bytes over TLS, as they are; the first line of the answer and all of it."""
    address, folder, _, seen = served
    seen.clear()
    trusted = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    host, port = address.split(":")

    def send(data, sent_from=None):
        plain = socket.create_connection((host, int(port)), timeout=10)
        with trusted.wrap_socket(plain, server_hostname=host) as secure:
            if sent_from is not None:
                sent_from.append(secure.getsockname()[1])
            secure.sendall(data)
            got = b""
            with suppress(ConnectionError, ssl.SSLError):
                while part := secure.recv(65536):
                    got += part
                    if b"\r\n\r\n" in got and b"connection: close" not in got.lower():
                        break
            return got

    return send


def logged(child, *words, seconds=5.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if any(all(word in line for word in words) for line in child.log.read_text().splitlines()):
            return True
        time.sleep(0.02)
    return False


def test_a_nodes_requests_pass_and_the_answer_comes_back(client, served):
    headers = {"content-type": "application/x-protobuf", "flwr-public-key": "k", "x-forwarded-for": "1.2.3.4"}
    headers |= {"authorization": "Bearer x", "flwr-task-token": "t", "cookie": "c=1"}
    for name in REQUESTS:
        answer = client.post(f"/v1/fleet/{name.decode()}", content=b"question", headers=headers)
        assert (answer.status_code, answer.content) == (200, b"answer:question")
        assert "x-internal" not in answer.headers
    seen = served[3]
    assert {path for _, path, _, _ in seen} == {f"/v1/fleet/{name.decode()}" for name in REQUESTS}
    passed = {name.lower() for name in seen[0][2]}
    assert {"flwr-public-key", "content-type"} <= passed
    assert not {"x-forwarded-for", "authorization", "flwr-task-token", "cookie"} & passed


def test_flower_asks_for_nothing_else():
    """A new version of Flower that makes another request of nodes shows here."""
    from flwr.superlink.routers.fleet.router import router

    paths = {route.path.removeprefix("/v1/fleet/") for route in router.routes}
    assert paths == {name.decode() for name in REQUESTS} | {"register-node", "unregister-node"}


def control_paths():
    from flwr.superlink.main import create_app

    paths = {getattr(route, "path", None) or "" for route in _routes(create_app())}
    assert sum(path.startswith("/v1/control/") for path in paths) > 30
    assert sum(path.startswith("/v1/runtime/") for path in paths) > 15
    return sorted(path for path in paths if path and path.removeprefix("/v1/fleet/").encode() not in REQUESTS)


def _routes(app):
    from fastapi.openapi.utils import get_openapi

    class Route:
        def __init__(self, path):
            self.path = path

    for path in get_openapi(title="", version="", routes=app.routes)["paths"]:
        yield Route(path)
    for path in ("/docs", "/openapi.json", "/docs/oauth2-redirect"):
        yield Route(path)


def test_every_other_path_of_flower_is_forbidden_and_logged(client, served):
    for path in control_paths():
        for method in ("POST", "GET"):
            assert client.request(method, path, content=b"x").status_code == 403, path
        assert logged(served[2], "refused 403 POST", path, "127.0.0.1:")
    assert served[3] == []


@pytest.mark.parametrize(
    "target",
    [
        "//v1/fleet/pull-messages",
        "/v1//fleet/pull-messages",
        "/v1/fleet//pull-messages",
        "/v1/fleet/../control/start-run",
        "/v1/fleet/%2e%2e/control/start-run",
        "/v1/fleet/..%2fcontrol/start-run",
        "/v1/fleet%2fpull-messages",
        "/v1/fleet/pull%2dmessages",
        "/v1/fleet/pull-messages/",
        "/v1/fleet/pull-messages/../../control/start-run",
        "/v1/fleet/pull-messages?x=1",
        "/v1/fleet/pull-messages;x=1",
        "/v1/fleet/pull-messages%00",
        "/v1/fleet/",
        "/v1/fleet",
        "/V1/FLEET/PULL-MESSAGES",
        "\\v1\\fleet\\pull-messages",
        "http://127.0.0.1/v1/control/start-run",
        "https://127.0.0.1/v1/fleet/pull-messages",
        "/v1/fleet/register-node",
        "/v1/fleet/unregister-node",
        "/",
        "*",
        "127.0.0.1:80",
    ],
)
def test_other_spellings_are_forbidden(raw, served, target):
    answer = raw(f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx".encode())
    assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 ")), answer
    assert served[3] == []


@pytest.mark.parametrize(
    "method", ["GET", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "HEAD", "PATCH", "post"]
)
def test_other_methods_are_forbidden(raw, served, method):
    answer = raw(f"{method} {GOOD} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 "), answer
    assert served[3] == []


INNER = b"POST /v1/control/start-run HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: xchunked\r\nContent-Length: 4",
        b"Transfer-Encoding : chunked\r\nContent-Length: 4",
        b"Transfer-Encoding:\x0bchunked\r\nContent-Length: 4",
        b"Content-Length: 4\r\nContent-Length: 90",
        b"Content-Length: 4, 90",
        b"Content-Length: +4",
        b"Content-Length: 0x4",
        b"Content-Length: -1",
        b"Content-Length: 99999999999999999999",
        b"Content-Length: 4\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk",
        b"Content-Length: 4\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x",
        b"Content-Length: 4\r\nExpect: 100-continue",
        b"Content-Length: 4\r\nContent-Encoding: gzip",
        b"Content-Length: 4\r\nflwr-public-key: a\r\nflwr-public-key: b",
        b"Accept: x",
    ],
)
def test_nothing_is_smuggled(raw, served, headers):
    body = b"0\r\n\r\n" + INNER
    answer = raw(b"POST " + GOOD.encode() + b" HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n\r\n" + body)
    assert answer[:12] in (b"HTTP/1.1 403", b"HTTP/1.1 400", b"HTTP/1.1 413"), answer
    assert b"HTTP/1.1 200" not in answer
    assert served[3] == []


def test_a_folded_header_is_no_header(raw, served):
    """By RFC 9112 the line belongs to the value of Host: four bytes are the body, the rest is a next request."""
    folded = b" HTTP/1.1\r\nHost: x\r\n Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n"
    raw(b"POST " + GOOD.encode() + folded + b"0\r\n\r" + INNER)
    assert logged(served[2], "refused 403 POST", "/v1/control/start-run")
    assert [(path, body) for _, path, _, body in served[3]] in ([], [(GOOD, b"0\r\n\r")])


def test_a_second_request_in_the_same_packet_is_judged_by_itself(raw, served):
    first = b"POST " + GOOD.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"
    last = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    raw(first + INNER + last)
    assert logged(served[2], "refused 403 POST", "/v1/control/start-run")
    assert [path for _, path, _, _ in served[3]] in ([], [GOOD])


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\x03" * 50 + b"\r\n\r\n",
        b"POST\r\n\r\n",
        b"POST /v1/fleet/pull-messages HTTP/9.9\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"POST " + GOOD.encode() + b" HTTP/1.1\r\nContent-Length: 0\r\n\r\n",  # no host
        b"POST " + GOOD.encode() + b" HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n",
        b"POST " + GOOD.encode() + b" HTTP/1.1\r\nHost: x\r\nlong: " + b"a" * 40000 + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_and_logged(raw, served, data):
    sent_from = []
    assert raw(data, sent_from)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 403", b""), data
    assert served[3] == []
    assert logged(served[2], f"127.0.0.1:{sent_from[0]} refused 40")


def test_too_long_bodies_are_refused_before_they_are_read(raw, served):
    length = Limits().body + 1
    head = f"POST {GOOD} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()
    assert raw(head).startswith(b"HTTP/1.1 413 ")
    assert logged(served[2], "refused 413", str(length))
    assert served[3] == []


def test_the_longest_body_passes(client, served):
    body = bytes(Limits().body)
    assert client.post(GOOD, content=body).status_code == 200
    assert served[3][0][3] == body


def test_plain_http_and_a_client_that_does_not_trust_us_are_logged(served):
    address, _, child, seen = served
    seen.clear()
    with pytest.raises(httpx.HTTPError):
        httpx.post(f"http://{address}{GOOD}", content=b"x", trust_env=False)
    assert logged(child, "TLS handshake failed", "HTTP_REQUEST")
    with pytest.raises(httpx.ConnectError, match="certificate"):
        httpx.post(f"https://{address}{GOOD}", content=b"x", trust_env=False)
    assert logged(child, "TLS handshake failed", "UNKNOWN_CA")
    assert seen == []


def test_old_tls_is_refused(served):
    address, folder, _, _ = served
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(folder / "ca.pem")
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLS"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as plain, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(plain, server_hostname=host)


@pytest.fixture
def strict(served, tmp_path):
    """A second proxy with little patience: connect to it, with or without TLS; its process."""
    _, folder, _, _ = served
    port = free_port()
    limits = {
        "connections": 4,
        "handshake_seconds": 0.5,
        "idle_seconds": 1.0,
        "request_seconds": 0.5,
        "all_bodies": 10,
    }
    arguments = ["--listen", "127.0.0.1", "--port", str(port), "--certificates", str(folder)]
    arguments += ["--upstream", "https://127.0.0.1:1", "--limits", json.dumps(limits)]
    child = Child("unalike.federation.transport.flower.proxy:main", arguments, tmp_path, tmp_path / "proxy.log")
    child.start()
    trusted = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    assert logged(child, "running on", seconds=60)

    def connect(secure=True):
        plain = socket.create_connection(("127.0.0.1", port), timeout=10)
        return trusted.wrap_socket(plain, server_hostname="127.0.0.1") if secure else plain

    yield connect, child
    child.stop()


def test_patience_ends(strict):
    connect, child = strict
    head = f"POST {GOOD} HTTP/1.1\r\nHost: x\r\nContent-Length: "
    with connect(secure=False) as silent:
        assert silent.recv(1) == b""
    assert logged(child, "TLS handshake failed")
    with connect() as silent:
        assert silent.recv(1) == b""
    assert logged(child, "no whole request within 1 s")
    with connect() as slow:
        slow.sendall(f"{head}9\r\n\r\nfour".encode())
        assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
    assert logged(child, "refused 408")
    with connect() as much:
        much.sendall(f"{head}11\r\n\r\n".encode())
        assert much.recv(100).startswith(b"HTTP/1.1 503 ")
    assert logged(child, "refused 503", "too much")
    with connect() as good:
        good.sendall(f"{head}1\r\n\r\nx".encode())
        assert good.recv(100).startswith(b"HTTP/1.1 502 ")
    assert logged(child, "refused 502", "does not answer")


def test_connections_are_limited_and_become_free_again(strict):
    connect, child = strict
    kept = [connect() for _ in range(4)]
    with pytest.raises(OSError):
        connect()
    assert logged(child, "too many connections")
    for each in kept:
        each.close()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            connect().close()
            break
        except OSError:
            time.sleep(0.05)
    else:
        pytest.fail("no connection became free")


def scope(**changes):
    headers = [(b"content-length", b"3")]
    base = {
        "raw_path": GOOD.encode(),
        "query_string": b"",
        "method": "POST",
        "headers": headers,
        "http_version": "1.1",
    }
    return {**base, **changes}


def test_the_rules_by_themselves():
    assert check(scope(), Limits()) == 3
    for changes in (
        {"method": "GET"},
        {"http_version": "1.0"},
        {"query_string": b"a"},
        {"raw_path": b"/health"},
        {"headers": []},
    ):
        with pytest.raises(RequestRefused):
            check(scope(**changes), Limits())
    for name in (b"transfer-encoding", b"upgrade", b"expect", b"content-encoding", b"trailer"):
        with pytest.raises(RequestRefused, match=name.decode()):
            check(scope(headers=[(b"content-length", b"3"), (name, b"x")]), Limits())
    for length in (b"+3", b"3,3", b"", b"9" * 13, str(Limits().body + 1).encode()):
        with pytest.raises(RequestRefused):
            check(scope(headers=[(b"content-length", length)]), Limits())


def test_what_was_received_is_not_held_for_ever(strict):
    """Ten bytes may be held at once: many requests of ten, one after the other, are no problem."""
    connect, _ = strict
    for _ in range(3):
        with connect() as good:
            good.sendall(f"POST {GOOD} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n0123456789".encode())
            assert good.recv(100).startswith(b"HTTP/1.1 502 ")


def test_nginx_has_the_same_paths(tmp_path):
    text = nginx_configuration("hospital.example", 9443, "https://127.0.0.1:1", tmp_path)
    assert text.count("location = /v1/fleet/") == len(REQUESTS)
    assert text.count("location / { return 403; }") == 1
    assert text.count("{") == text.count("}")
    assert "control" not in text.replace("control, runtime", "")
