"""How a message gets from Flower's process at a site to the process that owns the data: a Unix socket.

A message is eight bytes of length, big-endian, and its bytes. An answer begins with one more byte: 0 for an
answer, 1 for the one line that says why there is none. Standard library only.
"""

from __future__ import annotations

import errno
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from unalike.errors import UserError
from unalike.runs.files import make_folder

MESSAGE_LIMIT = 1 << 30
"""The longest message or answer, in bytes."""
_LENGTH = struct.Struct(">Q")
_ANSWER, _REFUSAL = b"\0", b"\1"
_AGAIN = 1.0
"""Seconds until the door is tried again where the system has no room for a visitor."""
_PATIENCE = 60.0
"""Seconds in which the other side must send or take the next piece; thinking about an answer may take longer."""


class DoorError(Exception):
    """No answer came through the door; the text says why."""


class SiteDoor:
    """Listens on the Unix socket ``path`` and gives each message to ``answer``, one after the other.

    Who may enter the socket's folder may knock; what is not signed by the server is for ``answer`` to refuse. What
    it raises goes back as a refusal: the kind of error and, for a ``UserError``, its text. No other text leaves: a
    traceback may quote data.
    """

    def __init__(self, path: str | Path, answer: Callable[[bytes], bytes], limit: int = MESSAGE_LIMIT) -> None:
        self.path, self._answer, self._limit = Path(path), answer, limit
        self._closing = threading.Event()

    def __enter__(self) -> Self:
        make_folder(self.path.parent, private=True)
        self._clear()
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(str(self.path))
        except OSError as error:
            self._listener.close()
            raise UserError(
                f"Cannot listen at {self.path}: {error.strerror or error}. Choose another place with --door."
            ) from error
        self.path.chmod(0o666)
        self._listener.listen(8)
        threading.Thread(target=self._serve, args=(self._listener,), name="site-door", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def _clear(self) -> None:
        """Remove the socket that a killed process left behind; anything else stays there, and is told."""
        with socket.socket(socket.AF_UNIX) as probe:
            if self.path.is_socket() and probe.connect_ex(str(self.path)) == errno.ECONNREFUSED:
                self.path.unlink()

    def _serve(self, listener: socket.socket) -> None:
        while not self._closing.is_set():
            try:
                visitor, _ = listener.accept()
            except OSError:  # it is closing; or there are too many open files, which may pass
                self._closing.wait(_AGAIN)
                continue
            with visitor, suppress(OSError):  # a visitor that goes away takes nobody with it
                visitor.settimeout(_PATIENCE)
                self._attend(visitor)

    def _attend(self, visitor: socket.socket) -> None:
        try:
            message = _receive(visitor, self._limit)
            reply = self._answer(message)
            if len(reply) >= self._limit:
                raise DoorError(f"the answer has {len(reply)} bytes, more than {self._limit}")
            mark = _ANSWER
        except OSError:
            raise
        except (DoorError, UserError) as error:
            mark, reply = _REFUSAL, str(error).encode()
        except Exception as error:
            mark, reply = _REFUSAL, f"the site failed ({type(error).__name__}); its own log says more".encode()
        _send(visitor, mark + reply)


def ask(path: str, message: bytes, limit: int = MESSAGE_LIMIT) -> bytes:
    """Pass a message through the door at ``path`` and wait for the answer; ``DoorError`` where there is none."""
    try:
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.settimeout(_PATIENCE)
            visitor.connect(path)
            _send(visitor, message)
            visitor.settimeout(None)  # an answer may be hours of training away; a site that dies closes the socket
            reply = _receive(visitor, limit + 1)
    except OSError as error:
        raise DoorError(f"the site's process is not there ({error.strerror or error})") from error
    if reply[:1] != _ANSWER:
        raise DoorError(reply[1:].decode(errors="replace") or "the site gave no reason")
    return reply[1:]


def _send(peer: socket.socket, data: bytes) -> None:
    peer.sendall(_LENGTH.pack(len(data)))
    if data:  # sending nothing to someone who has everything, and has answered and gone, would be an error
        peer.sendall(data)


def _receive(peer: socket.socket, limit: int) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(peer, _LENGTH.size))
    if length > limit:
        # Read and thrown away, so that the other side, which is still sending, gets to read why.
        _exactly(peer, min(length, 4 * limit), keep=False)
        raise DoorError(f"a message of {length} bytes is longer than {limit}")
    return _exactly(peer, length)


def _exactly(peer: socket.socket, length: int, keep: bool = True) -> bytes:
    """``length`` bytes; memory grows with what arrives, not with what is promised."""
    parts, missing = [], length
    while missing:
        part = peer.recv(min(missing, 1 << 20))
        if not part:
            raise ConnectionError(None, "the connection ended in the middle of a message")
        if keep:
            parts.append(part)
        missing -= len(part)
    return b"".join(parts)
