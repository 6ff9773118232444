"""The page's server: for one browser on this machine, and for nobody else."""

import http.client
import json
import socket
import threading

import pytest

from tests.watch.made import write_run
from unalike.errors import UserError
from unalike.watch import server as module
from unalike.watch.board import Board
from unalike.watch.server import HOST, MOST_CONNECTIONS, serving
from unalike.watch.sources import RunsIn

PATHS = ("/", "/report.css", "/watch.css", "/charts.js", "/watch.js", "/icon.svg", "/events")


class Client:
    """Asks one server, as a browser or as somebody else would."""

    def __init__(self, server):
        self.server, self.port = server, server.server_port
        self.token = server.address.partition("token=")[2]

    def ask(self, path, method="GET", cookie=None, host=None):
        """Status, headers and text."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=20)
        headers = {"Host": f"{HOST}:{self.port}" if host is None else host}
        if cookie:
            headers["Cookie"] = cookie
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        data = b"" if path == "/events" and answer.status == 200 else answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), data.decode()

    def admitted(self):
        """The cookie for the token."""
        status, headers, _ = self.ask(f"/?token={self.token}")
        assert status == 200
        return headers["Set-Cookie"].partition(";")[0]


@pytest.fixture
def client(tmp_path, monkeypatch):
    for name in ("getfqdn", "gethostbyaddr", "gethostbyname"):
        monkeypatch.setattr(socket, name, lambda *names: pytest.fail("a name was looked up"))
    write_run(tmp_path / "run")
    with serving(Board(RunsIn(tmp_path)), 0) as server:
        yield Client(server)


def test_the_token_opens_the_page_once_and_the_cookie_from_then_on(client):
    status, headers, text = client.ask(f"/?token={client.token}")
    assert status == 200
    assert "<h1" in text
    cookie, *flags = (part.strip() for part in headers["Set-Cookie"].split(";"))
    assert cookie.startswith(f"unalike-watch-{client.port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(flags)
    assert client.token not in cookie
    status, headers, text = client.ask(f"/?token={client.token}")
    assert (status, "Set-Cookie" in headers) == (403, False)
    assert client.ask(f"/?token={client.token}", cookie=cookie)[0] == 200  # the same browser, again
    for path in PATHS:
        assert client.ask(path, cookie=cookie)[0] == 200


def test_of_many_who_use_the_token_at_once_one_gets_in(client):
    answers, start = [], threading.Barrier(12)

    def use():
        start.wait()
        answers.append(client.ask(f"/?token={client.token}")[0])

    threads = [threading.Thread(target=use) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200, *[403] * 11]


@pytest.mark.parametrize("path", [*PATHS, "/nothing", "/../spec.toml", "//", "/?token=", "/?token=x&token=y", "*"])
def test_without_token_and_cookie_every_path_is_refused(client, path):
    for cookie in (
        None,
        f"unalike-watch-{client.port}=",
        f"unalike-watch-{client.port}=x",
        "unalike-watch=\x01;;=",
        "a=b",
    ):
        assert client.ask(path, cookie=cookie)[0] == 403
    assert client.ask("/", cookie=client.admitted())[0] == 200  # a wrong one does not use up the right one


@pytest.mark.parametrize("path", [path for path in PATHS if path != "/"])
def test_the_token_is_good_for_the_page_alone(client, path):
    assert client.ask(f"{path}?token={client.token}")[0] == 403
    assert client.ask(f"/?token={client.token}")[0] == 200


HOSTS = [
    "evil.example",
    "127.0.0.1.evil.example",
    "evil.example:80",
    "127.0.0.1@evil",
    "",
    "0.0.0.0",
    "[::1]",
    "127.0.0.1:x",
]


@pytest.mark.parametrize("host", HOSTS)
def test_a_request_that_means_another_host_is_refused_before_all_else(client, host):
    assert client.ask(f"/?token={client.token}", host=host)[0] == 421
    cookie = client.admitted()  # the token was not used up
    for path in PATHS:
        assert client.ask(path, cookie=cookie, host=host)[0] == 421


def test_a_tunnel_may_have_another_port(client):
    assert client.ask(f"/?token={client.token}", host="localhost:9000")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "NONSENSE"])
def test_there_is_only_get(client, method):
    assert client.ask("/", method)[0] == 403
    status, headers, _ = client.ask("/", method, cookie=client.admitted())
    assert (status, headers["Allow"]) == (405, "GET")


@pytest.mark.parametrize(
    "path", ["/run/spec.toml", "/../run/spec.toml", "/%2e%2e/x", "/page.html", "/events/", "/server.py"]
)
def test_paths_go_by_a_table(client, path):
    assert client.ask(path, cookie=client.admitted())[0] == 404


def test_every_answer_says_how_little_a_browser_may_do_with_it(client):
    cookie = client.admitted()
    answers = [client.ask(path, cookie=cookie) for path in (*PATHS, "/none")] + [
        client.ask("/"),
        client.ask("/", host="x"),
    ]
    for _, headers, _ in answers:
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none';")
        assert "unsafe" not in policy
        assert "*" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in headers
    assert all("http://" not in text.replace("http://www.w3.org/", "") for _, _, text in answers)


def test_nothing_in_the_page_is_inline(client):
    text = client.ask(f"/?token={client.token}")[2]
    assert "<style" not in text
    assert " style=" not in text
    assert " onclick" not in text
    assert text.count("<script") == text.count('<script src="')


@pytest.mark.parametrize(
    "raw", [b"\r\n\r\n", b"<script>alert(1)</script>\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 70000]
)
def test_what_is_no_request_is_answered_without_repeating_it(client, raw):
    with socket.create_connection((HOST, client.port), timeout=10) as line:
        line.sendall(raw)
        line.shutdown(socket.SHUT_WR)
        answer = b""
        while part := line.recv(65536):
            answer += part
    assert b"alert" not in answer
    assert b"Traceback" not in answer
    assert not answer or b" 4" in answer.split(b"\r\n")[0] or b" 5" in answer.split(b"\r\n")[0]
    assert client.ask("/")[0] == 403


def events(line):
    """The events that come in on an open answer."""
    kind = ""
    while True:
        text = line.readline().decode()
        if text.startswith("event: "):
            kind = text[7:].strip()
        elif text.startswith("data: "):
            yield kind, json.loads(text[6:])
        elif not text:
            return


def follow(client, cookie):
    connection = http.client.HTTPConnection(HOST, client.port, timeout=20)
    connection.request("GET", "/events", headers={"Cookie": cookie})
    answer = connection.getresponse()
    assert answer.getheader("Content-Type").startswith("text/event-stream")
    return connection, events(answer)


def test_everything_comes_once_and_then_what_is_new(client, tmp_path):
    connection, told = follow(client, client.admitted())
    kind, state = next(told)
    assert (kind, [run["id"] for run in state["runs"]]) == ("whole", ["run"])
    write_run(tmp_path / "second", done=2)
    kind, news = next(told)
    assert (kind, [run["id"] for run in news["runs"]]) == ("more", ["second"])
    connection.close()


def test_connections_are_bounded_and_become_free_again(client):
    cookie = client.admitted()
    open_ones = [socket.create_connection((HOST, client.port), timeout=10) for _ in range(MOST_CONNECTIONS)]
    for line in open_ones:  # each begins a request and does not end it
        line.sendall(b"GET / HTTP/1.0\r\n")
    refused = 0
    try:
        for _ in range(3):
            refused += client.ask("/", cookie=cookie)[0] == 503
    except OSError:
        refused += 1
    assert refused
    for line in open_ones:
        line.close()
    for _ in range(200):
        try:
            if client.ask("/", cookie=cookie)[0] == 200:
                break
        except OSError:
            continue
    assert client.ask("/", cookie=cookie)[0] == 200


def test_closing_ends_what_is_open(tmp_path):
    with serving(Board(RunsIn(tmp_path)), 0) as server:
        client = Client(server)
        _, told = follow(client, client.admitted())
        next(told)
    assert list(told) == []
    with pytest.raises(OSError):
        client.ask("/")


def test_a_port_that_is_taken_is_one_line(client):
    with pytest.raises(UserError, match=f"--port {client.port}: cannot listen there"), serving(None, client.port):
        pass


def test_it_listens_on_the_loopback_address_alone(client):
    assert client.server.server_address[0] == "127.0.0.1"
    assert module.HOST == "127.0.0.1"


def test_a_byte_now_and_then_does_not_keep_a_place(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.4)
    with (
        serving(Board(RunsIn(tmp_path)), 0) as server,
        socket.create_connection((HOST, server.server_port)) as slow,
    ):
        slow.settimeout(0.1)
        ended = False
        for _ in range(200):
            try:
                slow.sendall(b"a")
                ended = slow.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                ended = True
            if ended:
                break
        assert ended
        assert Client(server).ask("/")[0] == 403
