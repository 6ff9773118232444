"""The page's server: on this machine's own address, for whoever has the printed address, and for nobody else.

Every answer goes by a fixed table of paths. The token of the printed address is good for one use; whoever used it
has a cookie from then on. A request that means another host is refused: a page elsewhere whose name leads here
(DNS rebinding) cannot read anything.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import socketserver
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, urlsplit

from unalike.errors import UserError
from unalike.watch.board import LOOK, Board

HOST = "127.0.0.1"
MOST_CONNECTIONS = 32
"""Connections at a time; a browser has up to six."""
_SECONDS = 10.0
"""How long a request may take to arrive, and an answer to be taken."""
_SIGN_OF_LIFE = 15.0
"""Seconds after which a page is told that all is as it was."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_SHARED, _OWN = ("report", "page"), ("watch", "page")
_FILES = {
    "/": (_OWN, "page.html", "text/html; charset=utf-8"),
    "/report.css": (_SHARED, "style.css", "text/css; charset=utf-8"),
    "/watch.css": (_OWN, "watch.css", "text/css; charset=utf-8"),
    "/charts.js": (_SHARED, "charts.js", "text/javascript; charset=utf-8"),
    "/icon.svg": (_OWN, "icon.svg", "image/svg+xml"),
    "/watch.js": (_OWN, "watch.js", "text/javascript; charset=utf-8"),
}
_EVENTS = "/events"


class PageServer(ThreadingHTTPServer):
    """Serves the page of a board until it is closed."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, board: Board, port: int) -> None:
        self.board = board
        self.closing = threading.Event()
        self._token: str | None = secrets.token_urlsafe(24)
        self._session = secrets.token_urlsafe(24)
        self._burning = threading.Lock()
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._files = {path: (_content(room, name), kind) for path, (room, name, kind) in _FILES.items()}
        try:
            super().__init__((HOST, port), _Answers)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"--port {port}: cannot listen there ({reason}). Choose another port.") from None
        self.address = f"http://{HOST}:{self.server_address[1]}/?token={self._token}"

    def server_bind(self) -> None:
        """Take the port; unlike its parent, without asking the network for this machine's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, int(self.server_address[1])

    @property
    def cookie(self) -> str:
        """The cookie's name: cookies are shared by all ports of a machine, so it has the port."""
        return f"unalike-watch-{self.server_port}"

    def use_token(self, token: str) -> str | None:
        """The cookie's value for the right token, which is good for nothing from then on; None for any other."""
        with self._burning:
            if self._token is None or not hmac.compare_digest(self._token.encode(), token.encode()):
                return None
            self._token = None
            return self._session

    def knows(self, cookie: str) -> bool:
        """Whether a cookie's value is the one that was given out."""
        return hmac.compare_digest(self._session.encode(), cookie.encode())

    def file(self, path: str) -> tuple[bytes, str] | None:
        """The content and the kind of one of the page's files."""
        return self._files.get(path)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if there are not too many; else say so at once."""
        if not self._places.acquire(blocking=False):
            with suppress(OSError):
                request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nConnection: close\r\n\r\n")
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection, and make its place free again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has gone in the middle of an answer; a mistake of ours is to be seen."""
        if not isinstance(sys.exception(), OSError):
            traceback.print_exc()


@contextmanager
def serving(board: Board, port: int) -> Iterator[PageServer]:
    """A server that answers in a thread of its own while entered; port 0 is any that is free."""
    server = PageServer(board, port)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="watch", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Answers(BaseHTTPRequestHandler):
    """Answers one request: whom it means, who asks, how, and for what, in this order."""

    server: PageServer
    timeout = _SECONDS
    server_version, sys_version = "unalike", ""

    def setup(self) -> None:
        """Begin to wait: a byte now and then does not keep a place that others may need."""
        super().setup()
        self._waiting = threading.Timer(_SECONDS, self._give_up)
        self._waiting.daemon = True
        self._waiting.start()

    def parse_request(self) -> bool:
        """Read the request; once it is there, the answer may take as long as the page is open."""
        try:
            return super().parse_request()
        finally:
            self._waiting.cancel()

    def finish(self) -> None:
        """End the connection, and the wait for a request that never came."""
        self._waiting.cancel()
        super().finish()

    def _give_up(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        """Give one of the page's files, or follow what changes."""
        address = urlsplit(self.path)
        if not self._is_meant():
            return self._refuse(421, "This page is at 127.0.0.1 or localhost.")
        cookie = self._admitted(address.query if address.path == "/" else "")
        if cookie is None:
            return self._refuse(
                403,
                "Use the address that unalike watch printed. It opens the page once: start it anew for another.",
            )
        if self.command != "GET":
            return self._refuse(405, "There is only GET.")
        if address.path == _EVENTS:
            return self._follow()
        found = self.server.file(address.path)
        if found is None:
            return self._refuse(404, "There is no such page.")
        return self._give(200, *found, cookie=cookie)

    def __getattr__(self, name: str) -> Any:
        """Every other method is answered in the same way: as far as the line that says that there is only GET."""
        if name.startswith("do_"):
            return self.do_GET
        raise AttributeError(name)

    def _is_meant(self) -> bool:
        """Whether the request names this machine; a tunnel may have another port."""
        host, _, port = (self.headers.get("Host") or "").partition(":")
        return host in (HOST, "localhost") and (not port or (port.isascii() and port.isdigit()))

    def _admitted(self, query: str) -> str | None:
        """An empty text for who has the cookie, the cookie to set for who has the token, None for others."""
        try:
            known = SimpleCookie(self.headers.get("Cookie") or "").get(self.server.cookie)
        except CookieError:
            known = None
        if known is not None and self.server.knows(known.value):
            return ""
        tokens = parse_qs(query, max_num_fields=4).get("token", [""]) if len(query) < 200 else [""]
        return self.server.use_token(tokens[0])

    def _follow(self) -> None:
        """Tell everything once, then what changes, until the page or the server is closed."""
        self._begin(200, "text/event-stream; charset=utf-8")
        number, text = self.server.board.whole()
        self._tell("whole", text)
        quiet = 0.0
        while not self.server.closing.wait(LOOK):
            self.server.board.look()
            news = self.server.board.since(number)
            if news is None:
                number, text = self.server.board.whole()
                self._tell("whole", text)
                continue
            quiet += LOOK
            for latest, text in news:
                self._tell("more", text)
                number, quiet = latest, 0.0
            if quiet >= _SIGN_OF_LIFE:
                self.wfile.write(b": nothing new\n\n")
                quiet = 0.0

    def _tell(self, event: str, text: str) -> None:
        self.wfile.write(f"event: {event}\ndata: {text}\n\n".encode())
        self.wfile.flush()

    def _refuse(self, code: int, why: str) -> None:
        self._give(code, f"{why}\n".encode(), "text/plain; charset=utf-8")

    def _give(self, code: int, data: bytes, kind: str, cookie: str = "") -> None:
        more = {"Content-Length": str(len(data))}
        if cookie:
            more["Set-Cookie"] = f"{self.server.cookie}={cookie}; HttpOnly; SameSite=Strict; Path=/"
        if code == 405:
            more["Allow"] = "GET"
        self._begin(code, kind, more)
        if self.command != "HEAD":
            self.wfile.write(data)

    def _begin(self, code: int, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Type": kind, **_HEADERS, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request at all is answered without repeating any of it."""
        self.close_connection = True
        self.command = self.command or "GET"
        self.request_version = "HTTP/1.0"
        self._refuse(code, "This is no request that can be answered.")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the token is in the first request, and a log would keep it."""


def _content(room: tuple[str, ...], name: str) -> bytes:
    return resources.files("unalike").joinpath(*room, name).read_bytes()
